#include "llama/LowPrecision.h"

#include "llama/RandomWeights.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>

using namespace llama;

TEST_CASE("e4m3 rounds to the nearest of its numbers, ties to even") {
  CHECK(e4m3ToFloat(0x7e) == 448);
  CHECK(e4m3ToFloat(0x01) == 1.0f / 512);
  CHECK(e4m3ToFloat(0xb8) == -1);
  CHECK(std::isnan(e4m3ToFloat(0x7f)));
  CHECK(std::isnan(e4m3ToFloat(roundToE4m3(NAN))));
  CHECK(roundToE4m3(1e9f) == 0x7e);
  CHECK(roundToE4m3(-INFINITY) == 0xfe);
  for (int bits = 0; bits < 0x7e; ++bits) {
    const float low = e4m3ToFloat(uint8_t(bits)),
                high = e4m3ToFloat(uint8_t(bits + 1));
    const float middle = (low + high) / 2;
    CHECK(roundToE4m3(low) == bits);
    CHECK(roundToE4m3(-low) == (bits | 0x80));
    CHECK(roundToE4m3(middle) == (bits % 2 ? bits + 1 : bits));
    CHECK(roundToE4m3(std::nextafter(middle, 0.0f)) == bits);
    CHECK(roundToE4m3(std::nextafter(middle, 1e9f)) == bits + 1);
  }
}

TEST_CASE("fp16 rounds to the nearest of its numbers, ties to even") {
  CHECK(roundToFp16(65519) == 0x7bff);
  CHECK(roundToFp16(65520) == 0x7c00);
  CHECK(std::isnan(fp16ToFloat(roundToFp16(NAN))));
  for (int bits = 0; bits < 0x7bff; ++bits) {
    const float low = fp16ToFloat(uint16_t(bits)),
                high = fp16ToFloat(uint16_t(bits + 1));
    const float middle = (low + high) / 2;
    const bool isRight = roundToFp16(low) == bits &&
                         roundToFp16(-low) == (bits | 0x8000) &&
                         roundToFp16(middle) == (bits % 2 ? bits + 1 : bits) &&
                         roundToFp16(std::nextafter(middle, 0.0f)) == bits &&
                         roundToFp16(std::nextafter(middle, 1e9f)) == bits + 1;
    CHECK_MESSAGE(isRight, bits);
  }
}
