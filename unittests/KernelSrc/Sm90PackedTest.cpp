// The sizes that wgmma on packed weights derives from its config, and the
// places where a thread finds its fragments.
#include "gemm/Sm90PackedConfig.h"

#include <doctest/doctest.h>

#include <initializer_list>

using namespace kiln;

namespace {

GemmSignature signatureOf(DType weight, int group, DType scale) {
  GemmSignature signature;
  signature.layout = Layout::NT;
  signature.inB = weight;
  signature.scaleB = group ? ScaleKind::Block1x128 : ScaleKind::Row;
  signature.orderB = WeightOrder::K64R16;
  signature.scaleTypeB = scale;
  signature.groupB = group;
  return signature;
}

constexpr DType kWeights[] = {DType::INT4, DType::INT8, DType::E4M3};

} // namespace

// PTX ISA, wgmma m64nNk16 with A in registers: warp w has the rows 16 w + l / 4
// in registers 0 and 2, and 8 further in 1 and 3; columns 2 (l % 4) and the
// next one, and 8 further in registers 2 and 3. Words are those that
// Sm90PackedStage.cuh reads: 16 bytes of a lane for each 256 bits of a row's k.
TEST_CASE("a thread's words are its fragments of wgmma") {
  for (int bits : {4, 8})
    for (int thread = 0; thread < 128; ++thread)
      for (int k = 0; k < PackedWeights::kDepth; k += 16)
        for (int reg = 0; reg < 4; ++reg)
          for (int half = 0; half < 2; ++half) {
            const int warp = thread / 32, lane = thread % 32;
            const int row = 16 * warp + lane / 4 + reg % 2 * 8;
            const int column = k + 2 * (lane % 4) + reg / 2 * 8 + half;
            const int lanesAt = k * bits / 256 * 32 * 16;
            const int byte = warp * (PackedWeights::blockBytes(bits) / 4) +
                             lanesAt + lane * 16 + k * bits % 256 / 16;
            const int word = bits == 4 ? 0 : reg / 2;
            const int shift = bits == 4 ? 4 * reg : 8 * (reg % 2);
            CHECK(PackedWeights::bitOf(bits, row, column) ==
                  byte * 8 + word * 32 + shift + 16 * half);
          }
}

TEST_CASE("stages of packed weights hold what they say") {
  for (DType weight : kWeights)
    for (int group : {0, 32, 64, 128})
      for (bool zero : {false, true})
        for (int rows : {64, 128, 192, 256}) {
          GemmSignature signature = signatureOf(weight, group, DType::FP32);
          signature.zeroB = zero && weight == DType::INT4;
          Sm90PackedConfig config;
          config.rows = rows;
          config.vectors = 8;
          config.consumers = rows == 192 ? 3 : rows == 64 ? 1 : 2;
          config.stages = 4;
          REQUIRE(config.isValid(signature));
          const Sm90GemmConfig frame = config.frame();
          const int groups = group ? 128 / group : 0;
          CHECK(frame.packedStageBytes(signature) ==
                rows * 128 * bitsOf(weight) / 8 +
                    rows * groups * (4 + signature.zeroB));
          // Rows of A begin at whole atoms of the swizzle.
          CHECK(frame.rowTileBytes(signature) % Slab::kAtomBytes == 0);
          CHECK(frame.rowTileBytes(signature) >=
                frame.packedStageBytes(signature));
          CHECK(config.units() * 64 * config.consumers == rows);
        }
}

TEST_CASE("two sets of sums are for long groups of tiles of middle width") {
  Sm90PackedConfig config;
  config.blockK = 256;
  auto setsOf = [&](int vectors, int group) {
    config.vectors = vectors;
    return config.partialSets(signatureOf(DType::INT4, group, DType::FP16));
  };
  CHECK(setsOf(8, 128) == 1);
  CHECK(setsOf(24, 128) == 2);
  CHECK(setsOf(64, 128) == 2);
  CHECK(setsOf(72, 128) == 1);
  CHECK(setsOf(64, 64) == 1);
  CHECK(setsOf(64, 0) == 0);
}

TEST_CASE("configs of wgmma on packed weights that no kernel has") {
  const GemmSignature signature = signatureOf(DType::INT4, 128, DType::FP16);
  auto isValid = [&](auto change) {
    Sm90PackedConfig config;
    REQUIRE(config.isValid(signature));
    change(config);
    return config.isValid(signature);
  };
  using Config = Sm90PackedConfig;
  CHECK_FALSE(isValid([](Config &c) { c.rows = 192; }));
  CHECK_FALSE(isValid([](Config &c) { c.rows = 512; }));
  CHECK_FALSE(isValid([](Config &c) { c.vectors = 12; }));
  CHECK_FALSE(isValid([](Config &c) { c.vectors = 264; }));
  CHECK_FALSE(isValid([](Config &c) { c.blockK = 64; }));
  CHECK_FALSE(isValid([](Config &c) { c.stages = 1; }));
  CHECK_FALSE(isValid([](Config &c) { c.splits = 1; }));
  CHECK_FALSE(
      isValid([](Config &c) { c.kShared = 1, c.rows = 64, c.consumers = 1; }));
  CHECK_FALSE(
      isValid([](Config &c) { c.kShared = 1, c.rows = 64, c.stages = 2; }));
  CHECK_FALSE(isValid([](Config &c) { c.kShared = 1; }));
  CHECK(isValid([](Config &c) { c.kShared = 1, c.rows = 64; }));
  Sm90PackedConfig config;
  CHECK_FALSE(config.isValid(GemmSignature{}));
}
