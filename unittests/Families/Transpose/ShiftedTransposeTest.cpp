// Transposition of rows that begin anywhere: limits, launches, and the kernel's
// work on a tile, walked through on the host.
#include "Families/Transpose/TransposeTesting.h"

#include "transpose/ShiftedTransposeConfig.h"
#include "transpose/TransposeParams.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// The launch of \p config with y at \p address.
KernelStep bound(llvm::StringRef text, llvm::StringRef config,
                 uint64_t address) {
  Problem problem = parse(transpose(), text);
  auto named = llvm::cantFail(transpose().parseConfig(config));
  Plan plan = named.tmpl->plan(problem, named.config, h200());
  Arguments arguments = transpose().defaultArguments(problem);
  arguments.operands[TransposeOperand::X].address = 0x1000;
  arguments.operands[TransposeOperand::Y].address = address;
  LaunchSpec spec;
  plan.binder->bind(arguments, LaunchContext{}, spec);
  REQUIRE(spec.stepCount == 1);
  CHECK(spec.steps[0].kernel.sharedBytes == plan.sharedBytes[0]);
  return spec.steps[0].kernel;
}

/// The most lanes, in an access of one element each, that need different words
/// of one bank.
int passesOf(const std::vector<int> &bytes) {
  std::map<int, std::set<int>> wordsOfBank;
  for (int byte : bytes)
    wordsOfBank[byte / 4 % 32].insert(byte / 4);
  size_t fullest = 0;
  for (const auto &[bank, words] : wordsOfBank)
    fullest = std::max(fullest, words.size());
  return static_cast<int>(fullest);
}

} // namespace

TEST_CASE("shifted transpose: prune names the limit that a config breaks") {
  llvm::StringRef odd = "rows=8191 cols=8193 dtype=bf16";
  CHECK(reason(odd, "shifted.tr128.tc128.t256") == "none");
  CHECK(reason(odd, "shifted.tr128.tc128.t256.ps3") == "none");
  CHECK(reason(odd, "shifted.tr96.tc128.t256") ==
        "instruction-shape: 96 rows a tile, 32, 64, 128, 256 or 512 allowed");
  CHECK(reason(odd, "shifted.tr128.tc16.t256") ==
        "instruction-shape: 16 columns a tile, 32, 64, 128, 256 or 512 "
        "allowed");
  CHECK(reason(odd, "shifted.tr128.tc128.t96") ==
        "instruction-shape: 96 threads a block, a power of two from 32 to "
        "1024 allowed");
  CHECK(reason("rows=64 cols=64 dtype=fp32", "shifted.tr256.tc64.t32") ==
        "instruction-shape: 64 threads a row of y, limit 32 threads a row of "
        "y");
  CHECK(reason(odd, "shifted.tr32.tc32.t256") ==
        "instruction-shape: 64 rows of y at a time, limit 32 rows of y at a "
        "time");
  CHECK(reason(odd, "shifted.tr512.tc512.t512").find("shared-memory wall") ==
        0);
}

TEST_CASE("shifted transpose: it comes first where vectors do not divide") {
  CHECK(firstOf("rows=8192 cols=8192 dtype=bf16") == "tiled");
  CHECK(firstOf("rows=8192 cols=8192 dtype=int8") == "tiled");
  for (llvm::StringRef text :
       {"rows=4096 cols=50257 dtype=bf16", "rows=50257 cols=4096 dtype=bf16",
        "rows=7777 cols=7777 dtype=fp8_e4m3", "rows=5001 cols=5003 dtype=fp32",
        "rows=4096 cols=8192 dtype=fp16 ldy=4097",
        "rows=4096 cols=8192 dtype=fp16 align=2"}) {
    CAPTURE(text);
    CHECK(firstOf(text) == "shifted");
  }
}

TEST_CASE("shifted transpose: few columns have narrow tiles") {
  auto narrowest = [](llvm::StringRef text) {
    int least = 1024;
    transpose().findTemplate("shifted")->enumerate(
        parse(transpose(), text), h200(), [&](Values values) {
          auto config = fromValues<ShiftedTransposeConfig>(values);
          least = std::min(least, config.tileCols);
        });
    return least;
  };
  CHECK(narrowest("rows=27253 cols=56 dtype=bf16") == 32);
  CHECK(narrowest("rows=27253 cols=300 dtype=bf16") == 64);
  CHECK(narrowest("rows=56570 cols=192 dtype=int8") == 64);
  CHECK(narrowest("rows=56570 cols=1920 dtype=int8") == 128);
}

TEST_CASE("shifted transpose: bind has a tile for rows before its own") {
  llvm::StringRef config = "shifted.tr128.tc128.t256.ps3";
  // Aligned rows of y: tiles of 128 x 128.
  llvm::StringRef aligned = "rows=1024 cols=1000 dtype=bf16";
  CHECK(bound(aligned, config, 0x2000).grid == Dim3{8 * 8});
  // The same problem at an address within its alignment.
  CHECK(bound(aligned, config, 0x2010).grid == Dim3{9 * 8});
  CHECK(bound("rows=1024 cols=1000 dtype=bf16 ldy=1025", config, 0x2000).grid ==
        Dim3{9 * 8});
  // At most 15 more rows fit the last tile.
  CHECK(bound("rows=1009 cols=1000 dtype=bf16", config, 0x2000).grid ==
        Dim3{8 * 8});
  // Three blocks an SM: a third of its shared memory each.
  KernelStep step = bound(aligned, config, 0x2000);
  CHECK(step.sharedBytes > 70000);
  CHECK(3 * (step.sharedBytes + 1024) <= 228 * 1024);
  CHECK(bound(aligned, "shifted.tr128.tc128.t256", 0x2000).sharedBytes < 40000);
}

TEST_CASE("shifted transpose: tiles store every element of y once") {
  for (int bytes : {1, 2, 4})
    for (int tileRows : {32, 128}) {
      TransposeSignature s{bytes, bytes};
      ShiftedTransposeConfig c{.tileRows = tileRows};
      int perGrain = c.period(s);
      for (int past = 0; past < perGrain; ++past)
        for (int rows : {1, 7, 31, 127, 128, 129, 1000}) {
          long long tiles = c.tileRowCount(s, rows, past != 0);
          std::vector<int> stored(static_cast<size_t>(rows));
          for (int tile = 0; tile < tiles; ++tile)
            for (int chunk = 0; chunk < c.chunksPerRow(s); ++chunk)
              for (int k = 0; k < c.vector(s); ++k) {
                // The tile's row in shared memory, and the row of x.
                int inTile = chunk * c.vector(s) - past + k;
                CHECK(inTile + c.extraRows(s) >= 0);
                CHECK(inTile + c.extraRows(s) < c.sharedRows(s));
                int row = tile * tileRows + inTile;
                if (row >= 0 && row < rows)
                  ++stored[static_cast<size_t>(row)];
              }
          CHECK(std::count(stored.begin(), stored.end(), 1) == rows);
        }
    }
}

TEST_CASE("shifted transpose: words of squares keep to their square's rows") {
  for (int bytes : {1, 2})
    for (int cols : {32, 64, 128, 256}) {
      TransposeSignature s{bytes, bytes};
      ShiftedTransposeConfig c{.tileRows = 64, .tileCols = cols};
      int side = c.squareSide(s);
      std::set<int> places;
      for (int row = 0; row < c.sharedRows(s); row += side)
        for (int column = 0; column < cols; ++column) {
          int place = c.squareOffset(s, row, column);
          // In the row with the number of its column in the square, and in the
          // 16 bytes of the square.
          int inRow = place - c.rowOffset(s, row + column % side);
          CHECK(inRow / 16 == column * bytes / 16);
          CHECK(place % 4 == 0);
          places.insert(place);
        }
      CHECK(int(places.size()) == c.sharedRows(s) / side * cols);
    }
}

TEST_CASE("shifted transpose: words are read without bank conflicts") {
  for (int bytes : {1, 2, 4})
    for (int cols : {64, 128, 256})
      for (int pitch = 0; pitch < 16; pitch += bytes) {
        TransposeSignature s{bytes, bytes};
        ShiftedTransposeConfig c{.tileRows = 128, .tileCols = cols};
        CAPTURE(bytes);
        CAPTURE(cols);
        CAPTURE(pitch);
        std::vector<int> places;
        for (int lane = 0; lane < 32; ++lane) {
          int column = lane / c.warpChunks(s);
          int row = lane % c.warpChunks(s) * c.vector(s);
          if (bytes == 4) {
            // Words of four bytes stay in place: rows of x with different
            // alignment may meet in the word that their windows share.
            places.push_back(c.rowOffset(s, row) + row * pitch % 16 +
                             column * bytes);
            continue;
          }
          // Rows of y that are each misaligned in their own way.
          row += c.extraRows(s) - column * pitch % c.period(s);
          places.push_back(c.squareOffset(
              s, row / c.squareSide(s) * c.squareSide(s), column));
        }
        CHECK(passesOf(places) <= (bytes == 4 && pitch != 0 ? 2 : 1));
      }
}
