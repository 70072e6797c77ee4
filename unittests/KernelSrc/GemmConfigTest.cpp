//===- GemmConfigTest.cpp - limits and sizes of the GEMM configs ----------===//

#include "gemm/FfmaGemmConfig.h"
#include "gemm/GemmParams.h"
#include "gemm/GemvConfig.h"
#include "gemm/MmaGemmConfig.h"
#include "gemm/NaiveGemmConfig.h"
#include "gemm/SimtGemmConfig.h"
#include "gemm/SkinnyGemmConfig.h"
#include "gemm/Sm90GemmConfig.h"
#include "trial/TrialParams.h"

#include <doctest/doctest.h>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

using namespace kiln;

namespace {

GemmSignature fp32Signature(ComputeMode compute) {
  GemmSignature signature;
  signature.in = signature.out = DType::FP32;
  signature.compute = compute;
  return signature;
}

std::vector<GemmSignature> byteSignatures() {
  return {{.in = DType::E4M3, .out = DType::BF16},
          {.in = DType::E5M2, .out = DType::FP32, .inB = DType::E4M3},
          {.in = DType::INT8, .out = DType::FP16, .scaleA = ScaleKind::Row}};
}

GemmSignature blockSignature() {
  return {.in = DType::E4M3,
          .out = DType::BF16,
          .scaleA = ScaleKind::Block1x128,
          .scaleB = ScaleKind::Block128x128};
}

/// Counts the fields of both lists; keys must differ and defaults agree with
/// the member initialisers.
template <class Config> int checkFields() {
  std::set<std::string> keys, names;
  int count = 0;
  auto check = [&](const char *key, const char *name, int Config::*member,
                   int value) {
    CHECK_MESSAGE(keys.insert(key).second, key);
    CHECK_MESSAGE(names.insert(name).second, name);
    CHECK_MESSAGE(Config{}.*member == value, name);
    ++count;
  };
  Config::forEachField(check);
  Config::forEachRuntimeField(check);
  return count;
}

// The types are structural, so that kernels can take them as template
// arguments.
template <GemmSignature kSignature, MmaGemmConfig kConfig>
constexpr int kMmaBytes = kConfig.sharedBytes(kSignature);
static_assert(kMmaBytes<GemmSignature{}, MmaGemmConfig{}> == 65536);

} // namespace

TEST_CASE("the field lists name every knob") {
  CHECK(checkFields<MmaGemmConfig>() * sizeof(int) == sizeof(MmaGemmConfig));
  CHECK(checkFields<FfmaGemmConfig>() * sizeof(int) == sizeof(FfmaGemmConfig));
  CHECK(checkFields<SimtGemmConfig>() * sizeof(int) == sizeof(SimtGemmConfig));
  CHECK(checkFields<NaiveGemmConfig>() * sizeof(int) ==
        sizeof(NaiveGemmConfig));
  CHECK(checkFields<GemvConfig>() * sizeof(int) == sizeof(GemvConfig));
  CHECK(checkFields<SkinnyGemmConfig>() * sizeof(int) ==
        sizeof(SkinnyGemmConfig));
  CHECK(checkFields<Sm90GemmConfig>() * sizeof(int) == sizeof(Sm90GemmConfig));
}

TEST_CASE("parameters cross to the device as plain bytes") {
  CHECK(std::is_trivially_copyable_v<GemmParams>);
  CHECK(std::is_standard_layout_v<GemmParams>);
  CHECK(sizeof(GemmParams) == 376);
  CHECK(sizeof(ReferenceGemmParams) == 408);
  CHECK(sizeof(CompareResult) == 48);
  CHECK(sizeof(CompareToleranceParams) == 144);
}

TEST_CASE("a signature is well formed for the supported combinations") {
  GemmSignature signature;
  CHECK(signature.isWellFormed());
  signature.out = DType::FP32;
  CHECK(signature.isWellFormed());
  signature.out = DType::FP16;
  CHECK_FALSE(signature.isWellFormed());
  signature = {};
  signature.compute = ComputeMode::TF32;
  CHECK_FALSE(signature.isWellFormed());
  CHECK(fp32Signature(ComputeMode::TF32).isWellFormed());
  signature = {};
  signature.alignA = 2;
  CHECK(signature.isWellFormed());
  for (int bad : {1, 6, 32}) {
    signature.alignA = bad;
    CHECK_FALSE(signature.isWellFormed());
  }
  // Columns are joined at most once, and without C.
  signature = {};
  signature.pointwise = {{PointwiseOp::Bias, PointwiseOp::SwiGlu}};
  CHECK(signature.isWellFormed());
  CHECK(signature.columnsPerOutput() == 2);
  signature.readsC = true;
  CHECK_FALSE(signature.isWellFormed());
  signature.readsC = false;
  signature.pointwise.ops[2] = PointwiseOp::SwiGlu;
  CHECK_FALSE(signature.isWellFormed());
  // An fp32 output cannot be aligned to less than its element.
  signature = {};
  signature.out = DType::FP32;
  signature.alignD = 2;
  CHECK_FALSE(signature.isWellFormed());
}

TEST_CASE("the mma config's sizes") {
  GemmSignature bf16;
  MmaGemmConfig config;
  CHECK(config.threads() == 128);
  // Staging of a whole 64x64 warp tile, 4 * 64 * 72 * 4 = 73728 bytes, exceeds
  // the ring of 4 * 256 * 32 * 2; half of it fits.
  CHECK(config.epilogueRows(bf16) == 32);
  CHECK(config.sharedBytes(bf16) == 65536);

  config = {};
  config.blockN = 256;
  config.blockK = 64;
  config.stages = 3;
  config.warpsN = 4;
  CHECK(config.epilogueRows(bf16) == 64); // 8 * 64 * 72 * 4 fills it exactly
  CHECK(config.sharedBytes(bf16) == 147456);

  // A ring below the staging of 16 rows: 2 * 32 * 32 * 2 against 16 * 40 * 4.
  config = {};
  config.blockM = config.blockN = 16;
  config.stages = 2;
  config.warpsM = config.warpsN = 1;
  CHECK(config.sharedBytes(bf16) == 4096);
  CHECK(config.epiloguePitch() == 40);

  config = {};
  config.splitK = 3;
  CHECK(config.grid().blocks(129, 128, 2) == 2 * 2 * 3);
  CHECK(config.grid().partialBytes(129, 128, 2) == 12ll * 128 * 128 * 4);
  CHECK(config.grid().zeroedBytes(129, 128, 2) == 4 * 4);
  config.splitK = 1;
  CHECK(config.grid().partialBytes(129, 128, 2) == 0);
  CHECK(config.grid().zeroedBytes(129, 128, 2) == 0);
  // Past 2^31 elements.
  CHECK(config.grid().blocks(1ll << 32, 1, 1) == 1ll << 25);
}

TEST_CASE("the mma config refuses what the template cannot do") {
  GemmSignature bf16;
  MmaGemmConfig config;
  auto valid = [&](auto change) {
    MmaGemmConfig changed = config;
    change(changed);
    return changed.isValid(bf16);
  };
  CHECK(config.isValid(bf16));
  CHECK_FALSE(config.isValid(fp32Signature(ComputeMode::Native)));
  CHECK(config.isValid(fp32Signature(ComputeMode::TF32)));
  CHECK_FALSE(valid([](auto &c) { c.stages = 1; }));
  CHECK_FALSE(valid([](auto &c) { c.blockM = 120; }));
  CHECK_FALSE(valid([](auto &c) { c.blockK = 48; }));
  CHECK_FALSE(valid([](auto &c) { c.blockK = 16; }));
  CHECK_FALSE(valid([](auto &c) { c.warpsM = c.warpsN = 1; })); // 512 sums
  CHECK_FALSE(valid([](auto &c) { c.splits = 0, c.splitK = 2; }));
  CHECK(valid([](auto &c) { c.splits = 0; }));

  // 96 columns of bf16 are not whole lines of banks if they run along n.
  config.blockN = 96;
  config.warpsN = 3;
  CHECK(config.isValid(bf16));
  bf16.layout = Layout::NN;
  CHECK_FALSE(config.isValid(bf16));
  // Eight vectors a thread through registers are too many.
  bf16 = {};
  config = {};
  config.blockK = 64;
  bf16.alignA = 2;
  CHECK_FALSE(config.isValid(bf16));
  config.warpsN = 4;
  CHECK(config.isValid(bf16));
}

TEST_CASE("the simt config's sizes and limits") {
  GemmSignature fp32 = fp32Signature(ComputeMode::Native);
  SimtGemmConfig config;
  CHECK(config.threads() == 256);
  CHECK(config.sharedBytes(fp32) == 2 * 8 * (132 + 132) * 4);
  CHECK(config.isValid(fp32));
  CHECK_FALSE(config.isValid(fp32Signature(ComputeMode::TF32)));
  config.microN = 6;
  CHECK_FALSE(config.isValid(fp32));
  config.microN = 32; // a warp is eight micro-tiles wide
  CHECK_FALSE(config.isValid(fp32));
  config = {};
  CHECK(config.grid().blocks(257, 128, 3) == 9);
}

TEST_CASE("the gemv config's sizes and limits") {
  GemmSignature bf16;
  GemvConfig config;
  CHECK(config.isValid(bf16));
  CHECK(config.rowsPerBlock() == 4);
  CHECK(config.sharedBytes(bf16) == 4 * 4 * 4);
  CHECK(config.grid().blocks(1, 4097, 2) == 1025 * 2);
  config.streamsA = 1;
  CHECK(config.grid().blocks(4097, 1, 2) == 1025 * 2);
  auto valid = [&](auto change) {
    GemvConfig changed;
    change(changed);
    return changed.isValid(bf16);
  };
  CHECK(valid([](auto &c) { c.rowsPerWarp = 4, c.vectors = 8; }));
  CHECK_FALSE(valid([](auto &c) { c.rowsPerWarp = 8, c.vectors = 8; }));
  CHECK_FALSE(valid([](auto &c) { c.vectors = 3; }));
  CHECK_FALSE(valid([](auto &c) { c.warps = 6; }));
  CHECK_FALSE(valid([](auto &c) { c.unroll = 8; }));
  CHECK_FALSE(valid([](auto &c) { c.streamsA = 2; }));
  bf16.alignB = 8;
  CHECK_FALSE(GemvConfig{}.isValid(bf16));
  CHECK(GemvConfig{}.isValid(fp32Signature(ComputeMode::TF32)));
  CHECK(GemvConfig{}.isValid(fp32Signature(ComputeMode::Native)));
  CHECK(GemvConfig{}.roundK(DType::BF16) == 32 * 8 * 4 * 4);
  CHECK(GemvConfig{}.roundK(DType::FP32) == 32 * 4 * 4 * 4);
  CHECK(GemvConfig{}.roundK(DType::INT8) == 32 * 16 * 4 * 4);
  for (const GemmSignature &bytes : byteSignatures())
    CHECK(GemvConfig{}.isValid(bytes));
  CHECK_FALSE(GemvConfig{}.isValid(blockSignature()));
}

TEST_CASE("the skinny config's sizes and limits") {
  GemmSignature bf16;
  SkinnyGemmConfig config;
  CHECK(config.isValid(bf16));
  CHECK(config.blockK() == 256);
  CHECK(config.sharedBytes(bf16) == 4 * 6 * (16 + 16) * 64 * 2);
  // Sums of 64 by 64 take more than two short stages.
  SkinnyGemmConfig wide{.rows = 64, .vectors = 64, .warpK = 32, .stages = 2};
  CHECK(wide.isValid(bf16));
  CHECK(wide.sharedBytes(bf16) == 4 * 64 * 68 * 4);
  CHECK(config.grid().blocks(16, 4097, 2) == 257 * 2);
  CHECK(config.grid().blocks(17, 4097, 2) == 257 * 2 * 2);
  config.splits = 1;
  config.splitK = 3;
  CHECK(config.grid().blocks(16, 4097, 2) == 257 * 2 * 3);
  CHECK(config.grid().partialBytes(16, 4097, 2) == 257ll * 2 * 3 * 16 * 16 * 4);
  CHECK(config.grid().zeroedBytes(16, 4097, 2) == 257 * 2 * 4);
  auto valid = [&](auto change) {
    SkinnyGemmConfig changed;
    change(changed);
    return changed.isValid(bf16);
  };
  CHECK(valid([](auto &c) { c.vectors = 24; }));
  CHECK_FALSE(valid([](auto &c) { c.vectors = 12; }));
  CHECK_FALSE(valid([](auto &c) { c.rows = 24; }));
  CHECK_FALSE(valid([](auto &c) { c.rows = 128, c.vectors = 64; }));
  CHECK_FALSE(valid([](auto &c) { c.warpK = 48; }));
  CHECK_FALSE(valid([](auto &c) { c.splitK = 2; }));
  CHECK_FALSE(valid([](auto &c) { c.stages = 1; }));
  // The same number of bytes along k.
  CHECK(valid([](auto &c) { c.warpK = 32; }));
  for (const GemmSignature &bytes : byteSignatures()) {
    SkinnyGemmConfig of{.warpK = 128};
    CHECK(of.isValid(bytes));
    CHECK(of.sharedBytes(bytes) == 4 * 6 * (16 + 16) * 128);
    of.warpK = 512;
    CHECK(of.isValid(bytes));
    CHECK_FALSE(of.isValid(bf16));
    of.warpK = 32;
    CHECK_FALSE(of.isValid(bytes));
  }
  // All of B's rows in a block have one scale; partial sums need registers
  // beside the sums.
  auto scaled = [&](SkinnyGemmConfig of) {
    of.warpK = of.warpK == 64 ? 128 : of.warpK;
    return of.isValid(blockSignature());
  };
  CHECK(scaled({.rows = 64, .vectors = 32}));
  CHECK_FALSE(scaled({.rows = 48}));
  CHECK(scaled({.rows = 48, .streamsA = 1}));
  CHECK_FALSE(scaled({.rows = 64, .vectors = 40}));
  CHECK(scaled({.warpK = 256}));
  CHECK_FALSE(scaled({.warpK = 512}));
}

TEST_CASE("tiles of bytes") {
  for (GemmSignature bytes : byteSignatures())
    for (Layout layout : {Layout::NN, Layout::NT, Layout::TN, Layout::TT}) {
      bytes.layout = layout;
      MmaGemmConfig config{.blockM = 64, .blockN = 64, .blockK = 128};
      CHECK(config.isValid(bytes));
      CHECK(config.sharedBytes(bytes) == 4 * (64 + 64) * 128);
      config.blockK = 32;
      CHECK_FALSE(config.isValid(bytes));
      // Rows of 32 bytes have a swizzle, rows of 16 have none.
      bool isAcross = !bytes.isKMajorA();
      CHECK(MmaGemmConfig{.blockM = 32, .blockN = 64, .blockK = 64}.isValid(
          bytes));
      CHECK(MmaGemmConfig{.blockM = 16, .blockN = 64, .blockK = 64, .warpsM = 1}
                .isValid(bytes) == !isAcross);
    }
  GemmSignature blocks = blockSignature();
  MmaGemmConfig config{.blockM = 64, .blockN = 64, .blockK = 128};
  CHECK(config.isValid(blocks));
  config.blockN = 96; // 48 columns a warp may lie in two blocks
  CHECK_FALSE(config.isValid(blocks));
  config.blockN = 128;
  CHECK(config.isValid(blocks));
  config.blockM = 128; // 128 sums a thread
  CHECK_FALSE(config.isValid(blocks));
}

TEST_CASE("how an architecture takes products of bytes") {
  GemmSignature e4m3 = byteSignatures()[0], int8 = byteSignatures()[2];
  for (int capability : {80, 86, 90, 100})
    CHECK(byteProductOf(e4m3, capability) == ByteProduct::Converted);
  for (int capability : {89, 120, 121})
    CHECK(byteProductOf(e4m3, capability) == ByteProduct::Fp8);
  CHECK(byteProductOf(int8, 80) == ByteProduct::Int8);
  CHECK(byteProductOf(GemmSignature{}, 90) == ByteProduct::None);
  CHECK_FALSE(hasPartialSums(e4m3, 90));
  CHECK(hasPartialSums(e4m3, 89));
  CHECK_FALSE(hasPartialSums(int8, 89));
  CHECK(hasPartialSums(blockSignature(), 90));
  e4m3.compute = ComputeMode::FastFp8;
  CHECK_FALSE(hasPartialSums(e4m3, 89));
  // Exact int32 sums end here.
  CHECK(kMostInt8Products * 128 * 128 < 1ll << 31);
  CHECK((kMostInt8Products + 1) * 128 * 128 >= 1ll << 31);
  CHECK(kMostShiftedInt8Products * 255 * 128 < 1ll << 31);
  CHECK((kMostShiftedInt8Products + 1) * 255 * 128 >= 1ll << 31);
  CHECK(mostInt8Products(int8) == kMostInt8Products);
  int8.zeroA = ScaleKind::Row;
  CHECK(mostInt8Products(int8) == kMostShiftedInt8Products);
}

TEST_CASE("the ffma config's sizes and limits") {
  GemmSignature fp32 = fp32Signature(ComputeMode::Native);
  FfmaGemmConfig config;
  CHECK(config.isValid(fp32));
  CHECK(config.threads() == 128);
  CHECK(config.sharedBytes(fp32) == 3 * (128 + 128) * 32 * 4);
  config.transposes = 1;
  CHECK(config.sharedBytes(fp32) == 3 * (132 + 132) * 32 * 4);
  fp32.layout = Layout::NN; // only A is stored along k
  CHECK(config.sharedBytes(fp32) == 3 * (132 + 128) * 32 * 4);
  fp32.layout = Layout::TN; // nothing to transpose
  CHECK_FALSE(config.isValid(fp32));
  fp32.layout = Layout::NT;
  // The sums of four groups of warps take more than two short stages.
  FfmaGemmConfig thin{
      .blockM = 64, .blockN = 128, .stages = 2, .microM = 8, .warpsK = 4};
  CHECK(thin.threads() == 512);
  CHECK(thin.isValid(fp32));
  CHECK(thin.sharedBytes(fp32) == 3 * 64 * 128 * 4);
  config.splits = 1;
  config.splitK = 3;
  CHECK(config.grid().blocks(129, 128, 2) == 2 * 2 * 3);
  CHECK(config.grid().partialBytes(129, 128, 2) == 2ll * 2 * 3 * 128 * 128 * 4);
  CHECK(config.grid().zeroedBytes(129, 128, 2) == 2 * 2 * 4);
  // Three waves of two of the 7 tiles are whole, and one tile is split.
  config.waveBlocks = 2;
  CHECK(config.isValid(fp32));
  SplitTiles grid = config.grid();
  CHECK(grid.wholeTiles(7 * 128, 128, 1) == 6);
  CHECK(grid.blocks(7 * 128, 128, 1) == 6 + 3);
  CHECK(grid.partialBytes(7 * 128, 128, 1) == 3ll * 128 * 128 * 4);
  CHECK(grid.blocks(8 * 128, 128, 1) == 8);
  CHECK(grid.wholeTiles(128, 128, 1) == 0);
  // Workspace that is kept for some rows suffices for fewer.
  for (long long wave : {2, 5, 8})
    for (long long rows = 1; rows < 20; ++rows) {
      grid.waveBlocks = static_cast<int>(wave);
      long long m = rows * 128, split = (rows - grid.wholeTiles(m, 128, 1));
      CHECK(grid.partialBytes(m, 128, 1) >= split * 3 * 128 * 128 * 4);
      CHECK(grid.zeroedBytes(m, 128, 1) >= split * 4);
      CHECK(grid.partialBytes(m, 128, 1) >= grid.partialBytes(m - 128, 128, 1));
      CHECK(grid.zeroedBytes(m, 128, 1) >= grid.zeroedBytes(m - 128, 128, 1));
    }
  auto valid = [&](auto change) {
    FfmaGemmConfig changed;
    change(changed);
    return changed.isValid(fp32);
  };
  CHECK(valid([](auto &c) { c.lanesM = 8; }));
  CHECK(valid([](auto &c) { c.blockK = 16; }));
  CHECK_FALSE(valid([](auto &c) { c.blockK = 64; }));
  CHECK_FALSE(valid([](auto &c) { c.blockM = 192; }));
  CHECK_FALSE(valid([](auto &c) { c.blockM = 32; }));
  CHECK_FALSE(valid([](auto &c) { c.microM = 12; }));
  CHECK_FALSE(valid([](auto &c) { c.microN = 16; }));
  CHECK_FALSE(valid([](auto &c) { c.warpsK = 3; }));
  CHECK_FALSE(valid([](auto &c) { c.warpsK = 8; })); // one step for each
  CHECK_FALSE(valid([](auto &c) { c.splitK = 2; }));
  CHECK_FALSE(valid([](auto &c) { c.waveBlocks = 132; }));
  CHECK_FALSE(valid([](auto &c) { c.stages = 1; }));
  // Only transposed operands may have sides that are not powers of two.
  FfmaGemmConfig tall{
      .blockM = 192, .stages = 4, .microM = 12, .transposes = 1};
  CHECK(tall.threads() == 256);
  CHECK(tall.isValid(fp32));
  CHECK(tall.sharedBytes(fp32) == 4 * (196 + 132) * 32 * 4);
  FfmaGemmConfig wide{.blockN = 192, .microM = 8, .microN = 12};
  CHECK_FALSE(wide.isValid(fp32));
  wide.transposes = 1;
  CHECK(wide.isValid(fp32));
  fp32.layout = Layout::NN; // A alone lies along k
  CHECK(tall.isValid(fp32));
  CHECK_FALSE(wide.isValid(fp32));
  fp32.layout = Layout::TT; // B alone
  CHECK_FALSE(tall.isValid(fp32));
  CHECK(wide.isValid(fp32));
  CHECK_FALSE(FfmaGemmConfig{}.isValid(GemmSignature{}));
  CHECK_FALSE(FfmaGemmConfig{}.isValid(fp32Signature(ComputeMode::TF32)));
}

TEST_CASE("the naive grid is bounded and never empty of work") {
  NaiveGemmConfig config;
  CHECK(config.blocks(1, 1, 1) == 1);
  CHECK(config.blocks(257, 1, 1) == 2);
  CHECK(config.blocks(1ll << 30, 1ll << 20, 1) == NaiveGemmConfig::kMaxBlocks);
  CHECK(ReferenceGemmConfig{}.threads() == 256);
  CHECK(ReferenceGemmConfig{}.blocks(65, 64) == 2);
}
