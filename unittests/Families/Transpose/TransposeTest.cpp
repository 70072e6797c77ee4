#include "Families/Transpose/TransposeTesting.h"

#include "transpose/TiledTransposeConfig.h"
#include "transpose/TransposeParams.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

using namespace kiln;
using namespace kiln::testing;

namespace {

const Template &tiled() { return *transpose().findTemplate("tiled"); }

Problem parse(llvm::StringRef text) {
  return testing::parse(transpose(), text);
}
std::string failure(llvm::StringRef text) {
  return testing::failure(transpose(), text);
}

/// Every config that enumerate() offers for \p text.
std::vector<TiledTransposeConfig> configsOf(llvm::StringRef text) {
  std::vector<TiledTransposeConfig> configs;
  tiled().enumerate(parse(text), h200(), [&](Values values) {
    configs.push_back(fromValues<TiledTransposeConfig>(values));
  });
  return configs;
}

} // namespace

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

TEST_CASE("transpose: equal problems have equal text") {
  Problem plain = parse("transpose2d rows=64 cols=128 dtype=bf16");
  CHECK(plain.text() == "transpose2d rows=64 cols=128 dtype=bf16");
  CHECK(parse("rows=64 cols=128 dtype=bf16 ldx=128 ldy=64 align=16").text() ==
        plain.text());
  CHECK(parse("rows=64 cols=128 dtype=int8 ldx=129 ldy=65 align=1").text() ==
        "transpose2d rows=64 cols=128 dtype=int8 ldx=129 ldy=65 align=1");
  CHECK(transpose().fixedText(plain) ==
        "transpose2d rows=0 cols=128 dtype=bf16 | transpose2d bytes=2");
}

TEST_CASE("transpose: bad problems get one clear line") {
  CHECK(failure("rows=-1 cols=1 dtype=bf16") ==
        "transpose2d: rows=-1 is below 0");
  CHECK(failure("rows=4 cols=8 dtype=bf16 ldx=7") ==
        "transpose2d: ldx=7 is below the row length 8");
  CHECK(failure("rows=4 cols=8 dtype=bf16 ldy=3") ==
        "transpose2d: ldy=3 is below the row length 4");
  CHECK(failure("rows=4 cols=8 dtype=bf16 align=6") ==
        "transpose2d: align=6 is not a power of two");
  CHECK(failure("rows=4 cols=8 dtype=fp32 align=2") ==
        "transpose2d: align=2 is below the element's 4 bytes");
  CHECK(failure("rows=2147483647 cols=8 dtype=fp32 ldx=1099511627776") ==
        "transpose2d: ldx=1099511627776: 2147483647 such rows exceed the "
        "address space");
}

TEST_CASE("transpose: the signature is a width and what divides everything") {
  auto signature = [](llvm::StringRef text) {
    Problem problem = parse(text);
    TransposeSignature s = readTransposeSignature(problem.signature);
    CHECK(toValues(s) == problem.signature);
    return std::pair(s.elementBytes, s.align);
  };
  CHECK(signature("rows=8192 cols=8192 dtype=bf16") == std::pair(2, 16));
  CHECK(signature("rows=8192 cols=8192 dtype=fp16") == std::pair(2, 16));
  CHECK(signature("rows=4 cols=8 dtype=bf16") == std::pair(2, 8));
  CHECK(signature("rows=8 cols=12 dtype=bf16 ldx=16") == std::pair(2, 8));
  CHECK(signature("rows=7 cols=8 dtype=fp32 ldy=8") == std::pair(4, 4));
  CHECK(signature("rows=16 cols=16 dtype=fp8_e4m3 ldy=17") == std::pair(1, 1));
  CHECK(signature("rows=16 cols=16 dtype=int8") == std::pair(1, 16));
  CHECK(signature("rows=16 cols=16 dtype=int8 align=4") == std::pair(1, 4));
}

TEST_CASE("transpose: the operand table describes x and y") {
  Problem problem = parse("rows=3 cols=5 dtype=fp16 ldx=6 ldy=7 align=4");
  OperandTable table = transpose().operands(problem);
  REQUIRE(table.operands.size() == TransposeOperand::Count);
  const OperandSpec &x = table.operands[TransposeOperand::X];
  const OperandSpec &y = table.operands[TransposeOperand::Y];
  CHECK(x.bytes() == (2 * 6 + 5) * 2);
  CHECK(y.bytes() == (4 * 7 + 3) * 2);
  CHECK(!x.isWritten());
  CHECK(y.isWritten());
  CHECK(x.misalignment == 4);
  CHECK((y.tolerance.relative == 0 && y.tolerance.scaled == 0 &&
         y.tolerance.absolute == 0));
  CHECK(transpose().compulsoryBytes(problem) == 2 * 3 * 5 * 2);
  CHECK(transpose().isEmpty(parse("rows=0 cols=5 dtype=fp32")));
  CHECK(transpose().isEmpty(parse("rows=5 cols=0 dtype=fp32")));
  CHECK(!transpose().isEmpty(problem));
}

//===----------------------------------------------------------------------===//
// Space
//===----------------------------------------------------------------------===//

TEST_CASE("transpose: every width, size and alignment is served") {
  for (llvm::StringRef dtype : {"bf16", "fp16", "fp32", "fp8_e4m3", "int8"})
    for (llvm::StringRef sizes :
         {"rows=1 cols=1", "rows=1 cols=262143", "rows=4097 cols=1",
          "rows=31 cols=1000", "rows=8192 cols=8192", "rows=6 cols=6",
          "rows=16 cols=32 align=4"}) {
      std::string text = fmt::format("{} dtype={}", sizes, dtype);
      CAPTURE(text);
      Problem problem = parse(text);
      auto space =
          exploreSpace(transpose(), problem, h200(), {.keepRejected = true});
      REQUIRE(bool(space));
      CHECK(space->ranked.size() >= 3);
      CHECK(space->ranked.size() + space->rejected.size() <= 128);
    }
}

TEST_CASE("transpose: prune names the limit that a typed config breaks") {
  llvm::StringRef square = "rows=8192 cols=8192 dtype=bf16";
  CHECK(reason(square, "tiled.tr128.tc128.t256.v8") == "none");
  CHECK(reason(square, "tiled.tr128.tc128.t256.v16") ==
        "alignment: 32 B, limit 16 B");
  CHECK(reason("rows=8192 cols=8190 dtype=bf16", "tiled.tr128.tc128.t256.v8") ==
        "alignment: 16 B, limit 4 B");
  CHECK(reason("rows=8191 cols=8192 dtype=bf16", "tiled.tr128.tc128.t256.v1") ==
        "none");
  CHECK(reason(square, "tiled.tr128.tc128.t512.v8") ==
        "instruction-shape: 512 threads a tile, limit 256 threads a tile");
  CHECK(reason(square, "tiled.tr96.tc128.t256.v8") ==
        "instruction-shape: 96 rows a tile, 32, 64, 128 or 256 allowed");
  CHECK(reason(square, "tiled.tr128.tc16.t256.v8") ==
        "instruction-shape: 16 columns a tile, 32, 64, 128 or 256 allowed");
  CHECK(reason("rows=64 cols=64 dtype=int8", "tiled.tr64.tc64.t256.v2") ==
        "instruction-shape: 2 bytes a vector, one element, or 4, 8 or 16 "
        "allowed");
  CHECK(reason(square, "tiled.tr128.tc128.t256.v8.h4") ==
        "instruction-shape: 4 as the hint, 0 to 3 allowed");
  CHECK(reason("rows=64 cols=64 dtype=fp32", "tiled.tr256.tc256.t256.v4") ==
        "shared-memory wall: 262144 B, 232448 allowed");
  CHECK(reason("rows=8388608 cols=8388608 dtype=int8",
               "tiled.tr32.tc32.t256.v1") ==
        "grid: 68719476736 blocks, limit 2147483647 blocks");
}

TEST_CASE("transpose: the texts of configs are pinned") {
  const Schema &schema = tiled().configSchema();
  CHECK(toValues(TiledTransposeConfig{}, schema).text() ==
        "tiled.tr128.tc128.t256.v8");
  CHECK(toValues(TiledTransposeConfig{.hint = 3, .rasterGroup = 16}, schema)
            .text() == "tiled.tr128.tc128.t256.v8.h3.rg16");
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

TEST_CASE("transpose: what differs at run time shares a kernel") {
  // Types of one width, and problems that are better aligned than the vector,
  // share the kernel; the raster is not in it.
  auto narrow =
      llvm::cantFail(transpose().parseConfig("tiled.tr128.tc64.t128.v4"));
  auto sourceOf = [&](llvm::StringRef text) {
    return narrow.tmpl->plan(parse(text), narrow.config, h200())
        .kernels[0]
        .source();
  };
  CHECK(sourceOf("rows=8192 cols=8192 dtype=bf16") ==
        sourceOf("rows=12 cols=8192 dtype=fp16"));
}

TEST_CASE("transpose: bind places operands and the grid") {
  Problem problem = parse("rows=1000 cols=200 dtype=bf16 ldx=208");
  auto named = llvm::cantFail(
      transpose().parseConfig("tiled.tr128.tc64.t128.v8.rg1024"));
  Plan plan = named.tmpl->plan(problem, named.config, h200());
  CHECK(plan.workspace.bytes() == 0);
  CHECK(plan.sharedBytes[0] == 128 * 64 * 2);
  Arguments arguments = transpose().defaultArguments(problem);
  arguments.operands[TransposeOperand::X].address = 0x1000;
  arguments.operands[TransposeOperand::Y].address = 0x2000;
  LaunchSpec spec;
  plan.binder->bind(arguments, LaunchContext{}, spec);
  REQUIRE(spec.stepCount == 1);
  const KernelStep &kernel = spec.steps[0].kernel;
  CHECK(kernel.grid == Dim3{8 * 4});
  CHECK(kernel.block == Dim3{128});
  CHECK(kernel.sharedBytes == 128 * 64 * 2);
  TransposeParams params;
  std::memcpy(&params, spec.params + kernel.paramOffset, sizeof(params));
  CHECK(params.x == reinterpret_cast<void *>(0x1000));
  CHECK(params.y == reinterpret_cast<void *>(0x2000));
  CHECK((params.rows == 1000 && params.cols == 200));
  CHECK((params.ldx == 208 && params.ldy == 1000));
  CHECK(params.rasterGroup == 8); // the number of tile rows

  auto reference = transpose().reference(problem, h200());
  LaunchSpec check;
  reference->bind(arguments, {TransposeOperand::Y, 64, 200, 0x3000, 0x4000},
                  check);
  REQUIRE(check.stepCount == 1);
  CHECK(check.steps[0].kernel.grid == Dim3{5 * 32});
}

//===----------------------------------------------------------------------===//
// The kernel's work on a tile, walked through on the host
//===----------------------------------------------------------------------===//

namespace {

constexpr int kBankBytes = 4, kBanks = 32, kLanes = 32;

/// Passes that one access of a warp takes: its lanes are served in groups that
/// together move 128 bytes. A group takes as many passes as the number of
/// different words in its fullest bank.
int passesOf(const std::vector<int> &places, int chunkBytes) {
  int group = std::min(kLanes, kBanks * kBankBytes / chunkBytes);
  int passes = 0;
  for (size_t first = 0; first < places.size(); first += group) {
    std::map<int, std::set<int>> wordsOfBank;
    for (int lane = 0; lane < group; ++lane)
      for (int byte = 0; byte < chunkBytes; ++byte) {
        int word = (places[first + lane] * chunkBytes + byte) / kBankBytes;
        wordsOfBank[word % kBanks].insert(word);
      }
    size_t fullest = 0;
    for (const auto &[bank, words] : wordsOfBank)
      fullest = std::max(fullest, words.size());
    passes += static_cast<int>(fullest);
  }
  return passes;
}

/// Passes of an access without conflicts.
int leastPasses(int chunkBytes) {
  return std::max(1, kLanes * chunkBytes / (kBanks * kBankBytes));
}

/// Walks through the tile as the kernel does. Every element has to arrive at
/// its transposed place, through a place of its own.
void checkTile(const TiledTransposeConfig &c, const TransposeSignature &s) {
  int v = c.vector;
  // The contents of shared memory: x's row and column of each element.
  std::vector<std::pair<int, int>> shared(c.tileRows * c.tileCols, {-1, -1});
  int filled = 0;
  for (int n = 0; n < c.subBlocksPerThread(); ++n)
    for (int thread = 0; thread < c.threads(); ++thread) {
      int index = n * c.threads() + thread;
      int row = c.subBlockColumn(index) * v, column = c.subBlockRow(index);
      for (int j = 0; j < v; ++j) {
        int place = c.place(s, c.chunkIndex(row + j, column));
        REQUIRE((place >= 0 && place < c.chunks()));
        for (int i = 0; i < v; ++i) {
          auto &element = shared[place * v + i];
          filled += element.first < 0;
          element = {column * v + i, row + j};
        }
      }
    }
  CHECK(filled == c.tileRows * c.tileCols);
  int wrong = 0;
  for (int index = 0; index < c.chunks(); ++index)
    for (int i = 0; i < v; ++i) {
      auto [row, column] = shared[c.place(s, index) * v + i];
      wrong +=
          row != c.chunkColumn(index) * v + i || column != c.chunkRow(index);
    }
  CHECK(wrong == 0);
}

/// Ratio of the most passes to the least, over all accesses to shared memory:
/// {in, out}.
std::pair<int, int> conflicts(const TiledTransposeConfig &c,
                              const TransposeSignature &s) {
  int bytes = c.vectorBytes(s), in = 0, out = 0;
  std::vector<int> places(kLanes);
  for (int warp = 0; warp < c.subBlocks(); warp += kLanes)
    for (int j = 0; j < c.vector; ++j) {
      for (int lane = 0; lane < kLanes; ++lane)
        places[lane] = c.place(
            s, c.chunkIndex(c.subBlockColumn(warp + lane) * c.vector + j,
                            c.subBlockRow(warp + lane)));
      in = std::max(in, passesOf(places, bytes));
    }
  for (int warp = 0; warp < c.chunks(); warp += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane)
      places[lane] = c.place(s, warp + lane);
    out = std::max(out, passesOf(places, bytes));
  }
  return {in - leastPasses(bytes), out - leastPasses(bytes)};
}

} // namespace

TEST_CASE("transpose: tiles arrive transposed and without bank conflicts") {
  for (int bytes : {1, 2, 4})
    for (int vector : {1, 2, 4, 8, 16})
      for (int rows : {32, 64, 128, 256})
        for (int cols : {32, 64, 128, 256}) {
          TransposeSignature signature{bytes, std::min(16, vector * bytes)};
          TiledTransposeConfig config{.tileRows = rows,
                                      .tileCols = cols,
                                      .blockThreads = 32,
                                      .vector = vector};
          if (!config.isValid(signature))
            continue;
          CAPTURE(bytes);
          CAPTURE(vector);
          CAPTURE(rows);
          CAPTURE(cols);
          checkTile(config, signature);
          auto [in, out] = conflicts(config, signature);
          CHECK(in == 0);
          CHECK(out == 0);
        }
}

TEST_CASE("transpose: what the space offers walks through as well") {
  for (llvm::StringRef text :
       {"rows=512 cols=512 dtype=bf16", "rows=512 cols=512 dtype=int8",
        "rows=512 cols=512 dtype=fp32", "rows=511 cols=513 dtype=fp8_e4m3"}) {
    CAPTURE(text);
    TransposeSignature signature =
        readTransposeSignature(parse(text).signature);
    std::vector<TiledTransposeConfig> configs = configsOf(text);
    CHECK(configs.size() >= 3);
    for (const TiledTransposeConfig &config : configs) {
      CHECK(config.isValid(signature));
      checkTile(config, signature);
    }
  }
}
