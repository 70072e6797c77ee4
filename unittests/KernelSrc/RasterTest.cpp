//===- RasterTest.cpp - every block gets its own piece of work ------------===//

#include "common/Raster.cuh"

#include <doctest/doctest.h>
#include <set>
#include <tuple>

using namespace kiln;

TEST_CASE("the raster covers every tile, split and batch once") {
  for (auto [tilesM, tilesN, splits, batches, group] :
       {std::tuple{1, 1, 1, 1, 8},
        {5, 3, 1, 1, 2},
        {9, 4, 3, 2, 8},
        {3, 7, 2, 5, 1},
        {16, 2, 1, 3, 16}}) {
    CAPTURE(tilesM);
    CAPTURE(group);
    unsigned blocks = tilesM * tilesN * splits * batches;
    std::set<std::tuple<long long, int, int, int>> seen;
    std::set<std::tuple<long long, int>> tiles;
    for (unsigned block = 0; block < blocks; ++block) {
      TileWork work = tileWork(block, tilesM, tilesN, splits, group);
      CHECK(work.tileM >= 0);
      CHECK(work.tileM < tilesM);
      CHECK(work.tileN < tilesN);
      CHECK(work.split < splits);
      CHECK(work.batch < batches);
      seen.insert({work.batch, work.tileM, work.tileN, work.split});
      tiles.insert({work.tile, work.split});
      CHECK(work.tile < static_cast<long long>(tilesM) * tilesN * batches);
    }
    CHECK(seen.size() == blocks);
    // All splits of a tile, and no others, share its index.
    CHECK(tiles.size() == blocks);
  }
}

TEST_CASE("a group walks down its rows before the next column") {
  // 4 x 3 tiles, groups of two rows.
  const int kExpected[][2] = {{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 2}, {1, 2},
                              {2, 0}, {3, 0}, {2, 1}, {3, 1}, {2, 2}, {3, 2}};
  for (unsigned block = 0; block < 12; ++block) {
    TileWork work = tileWork(block, 4, 3, 1, 2);
    CHECK(work.tileM == kExpected[block][0]);
    CHECK(work.tileN == kExpected[block][1]);
  }
}
