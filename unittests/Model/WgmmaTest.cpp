#include "Model/Wgmma.h"

#include <doctest/doctest.h>

#include <initializer_list>

using namespace kiln;

TEST_CASE("wgmma takes the clocks that were measured") {
  struct Measured {
    int columns;
    double clocks;
  };
  for (auto [columns, clocks] :
       {Measured{8, 18.9}, Measured{16, 20.7}, Measured{32, 24.7},
        Measured{64, 32.8}, Measured{128, 65}, Measured{192, 97.1},
        Measured{256, 129.3}}) {
    CAPTURE(columns);
    CHECK(wgmmaClocks(columns) == doctest::Approx(clocks).epsilon(0.015));
    CHECK(wgmmaBusyClocks(1, columns) <= wgmmaClocks(columns));
  }
  // A wide one never waits.
  CHECK(wgmmaBusyClocks(1, 256) == wgmmaClocks(256));
}

TEST_CASE("a step of 128 x 256 x 64 in wgmmas") {
  CHECK(wgmmaCount(128, 128) == 8);
}
