// Groups of rows, emulated: sizes of 0, tiles that end with a group, rows of no
// group, and rows that are elsewhere.
#include "Emulator/EmulatedTrials.h"

using namespace kiln;
using namespace kiln::emulated;

namespace {

const std::string kNaive = "naive.bt256";
const std::string kMma = "mma.bm64.bn64.bk64.st3.wm2.wn2.mb2";
const std::string kLow = "mma.bm32.bn64.bk64.st3.wm2.wn2.mb2";
const std::string kRows = "sm90.bm128.bn64.bk64.st3.wg2.cm1.cn1";
const std::string kTurns = "sm90.bm128.bn64.bk64.st3.wg2.pp1.cm1.cn1";
const std::string kWide = "sm90.bm64.bn128.bk64.st3.wg1.cm1.cn1";
const std::string kSwapped = "sm90.bm16.bn128.bk64.st4.wg2.sw1.cm1.cn1";
const std::string kCluster = "sm90.bm64.bn64.bk64.st3.wg1.cm2.cn1";

/// Both kinds of data of \p problem, on few SMs, so that blocks have several
/// tiles.
void checkGroups(const std::string &problem, std::vector<std::string> configs) {
  check({{"gemm", problem, configs, TrialData::Usual},
         {"gemm", problem, configs, TrialData::Outliers}},
        3);
}

} // namespace

TEST_CASE("emulated: groups of rows with ends") {
  checkGroups("m=300 n=136 k=128 batch=5 dtype=bf16 layout=NT groups=ends",
              {kNaive, kMma, kLow, kRows, kTurns, kWide, kSwapped, kCluster});
  checkGroups("m=200 n=72 k=96 batch=3 dtype=fp16 layout=NN out=fp32 "
              "groups=ends group_align=16 pointwise=bias,silu",
              {kNaive, kMma, kRows});
  // More groups than rows.
  checkGroups("m=20 n=64 k=64 batch=40 dtype=bf16 layout=NT groups=ends",
              {kNaive, kLow, kSwapped, kWide});
}

TEST_CASE("emulated: masked groups") {
  checkGroups("m=40 room=150 n=136 k=128 batch=4 dtype=bf16 layout=NT "
              "groups=masked",
              {kNaive, kMma, kRows, kTurns, kSwapped, kCluster});
  // Rows of D that TMA does not store.
  checkGroups("m=90 n=67 k=64 batch=3 dtype=bf16 layout=NT groups=masked "
              "pointwise=bias,gelu_tanh",
              {kNaive, kMma, kRows, kSwapped});
}

TEST_CASE("emulated: what the epilogue of groups reads") {
  checkGroups("m=300 n=136 k=64 batch=4 dtype=bf16 layout=NT groups=ends "
              "pointwise=bias,residual",
              {kNaive, kMma, kRows, kTurns, kSwapped});
  checkGroups("m=300 n=128 k=64 batch=4 dtype=bf16 layout=NT groups=ends "
              "row_weights=1 pointwise=swiglu",
              {kNaive, kMma, kRows, kTurns});
  checkGroups("m=300 n=128 k=64 batch=4 dtype=bf16 layout=NT groups=ends "
              "gather=1 divisor=3 pointwise=bias,swiglu_clamped",
              {kNaive, kMma, kRows});
  // A pair of activations that share a reciprocal ends with its group.
  checkGroups("m=300 n=128 k=64 batch=7 dtype=bf16 layout=NT groups=ends "
              "row_weights=1 pointwise=silu",
              {kSwapped, kRows});
}

TEST_CASE("emulated: rows of groups that are elsewhere") {
  checkGroups("m=150 n=136 k=72 batch=5 dtype=bf16 layout=NT groups=ends "
              "gather=1 divisor=3",
              {kNaive, kMma, kRows, kSwapped});
  checkGroups("m=150 n=136 k=72 batch=5 dtype=bf16 layout=NT groups=ends "
              "scatter=1 row_weights=1",
              {kNaive, kMma, kRows, kTurns, kSwapped});
  checkGroups("m=100 n=66 k=70 batch=5 dtype=bf16 layout=NT groups=ends "
              "gather=1 scatter=1 row_weights=1 align=2",
              {kNaive, kMma, kRows, kSwapped});
  // Rows that several warps copy, and more of them than let the product begin.
  checkGroups("m=200 n=40 k=1101 batch=2 dtype=bf16 layout=NT groups=ends "
              "gather=1 divisor=2 align=2",
              {kMma});
  checkGroups("m=20 n=40 k=1064 batch=2 dtype=bf16 layout=NT groups=ends "
              "gather=1 lda=1072",
              {kMma, kSwapped});
}

TEST_CASE("emulated: groups of exact fp32") {
  const std::string square = "ffma.bm64.bn64.bk16.st3.tm8.tn8.lm4.wk1.tr1.mb2";
  const std::string low = "ffma.bm32.bn64.bk32.st3.tm8.tn4.lm2.wk2.tr0.mb2";
  checkGroups("m=200 n=136 k=96 batch=5 dtype=fp32 layout=NT groups=ends "
              "group_align=16 pointwise=bias,silu",
              {kNaive, square, low});
  checkGroups("m=40 room=90 n=67 k=70 batch=3 dtype=fp32 layout=NT "
              "groups=masked align=4",
              {square, low});
  checkGroups("m=150 n=72 k=70 batch=5 dtype=fp32 layout=NN groups=ends "
              "gather=1 scatter=1 divisor=3 row_weights=1",
              {low});
}

TEST_CASE("emulated: groups of fp8 and int8") {
  const std::string rows = "sm90.bm128.bn64.bk128.st3.wg2.cm1.cn1";
  const std::string swapped = "sm90.bm16.bn128.bk128.st4.wg2.sw1.cm1.cn1";
  const std::string mma = "mma.bm64.bn64.bk128.st3.wm2.wn2.mb1";
  const std::string blocks = " scale_a=1x128 scale_b=128x128";
  checkGroups("m=200 n=136 k=320 batch=4 dtype=e4m3 layout=NT groups=ends" +
                  blocks,
              {kNaive, mma, rows, swapped});
  checkGroups("m=50 room=130 n=136 k=256 batch=3 dtype=e4m3 layout=NT "
              "groups=masked scale_order_a=rows" +
                  blocks,
              {kNaive, mma, rows, swapped});
  checkGroups("m=120 n=136 k=256 batch=4 dtype=e4m3 layout=NT groups=ends "
              "gather=1 divisor=2 scale_order_a=rows" +
                  blocks,
              {kNaive, mma, rows, swapped});
  checkGroups("m=200 n=72 k=144 batch=4 dtype=int8 layout=NT groups=ends "
              "gather=1 scatter=1 scale_a=row scale_b=row",
              {kNaive, mma, rows, swapped});
}

TEST_CASE("emulated: sizes of groups beyond their operands") {
  const std::vector<std::string> configs = {kNaive, kMma, kRows, kSwapped};
  {
    Patch masked("gemm/Groups.cuh", "max(sizes[group], 0), most)",
                 "max(sizes[group] * 100 - 4000, 0), most)");
    checkGroups("m=40 room=70 n=136 k=64 batch=4 dtype=bf16 layout=NT "
                "groups=masked",
                configs);
  }
  // Ends that fall are no groups; ends beyond m count as m.
  Patch falling("gemm/Groups.cuh", "const int *sizes = params.groups.sizes;",
                "int sizes[] = {90, 50, 3000, -70, 2147483647};");
  EmulatedTrials trials(3);
  for (const std::string &config : configs) {
    CAPTURE(config);
    trials.run({"gemm", "m=100 n=136 k=64 batch=5 dtype=bf16 layout=NT "
                        "groups=ends group_align=16"},
               config);
    CHECK(trials.emulator.fault() == "");
  }
}

TEST_CASE("emulated: groups on packed weights") {
  const std::string turns = "packed90.r64.v16.bk128.st4.wg2.ks1";
  const std::string rows = "packed90.r128.v24.bk128.st3.wg2";
  checkGroups("m=120 n=136 k=320 batch=4 dtype=bf16 layout=NT groups=ends "
              "b=int4 scale_b=1x128 order_b=k64r16 zero_b=1",
              {kNaive, turns, rows});
  checkGroups("m=50 room=130 n=136 k=256 batch=3 dtype=bf16 layout=NT "
              "groups=masked b=int8 scale_b=row order_b=k64r16 "
              "pointwise=bias",
              {kNaive, turns, rows});
  checkGroups("m=90 n=128 k=192 batch=5 dtype=bf16 layout=NT groups=ends "
              "b=e2m1 scale_b=1x32 order_b=k64r16 gather=1 divisor=3 "
              "pointwise=bias,swiglu",
              {kNaive, turns, rows});
  checkGroups("m=90 n=64 k=192 batch=5 dtype=fp16 layout=NT groups=ends "
              "b=int4 scale_b=1x64 order_b=k64r16 scatter=1 row_weights=1 "
              "pointwise=swiglu",
              {kNaive, turns});
}

// Tiles of few rows that stream weights, each group its own.
TEST_CASE("emulated: groups on packed weights past a few vectors") {
  const std::string low = "packed.r16.v16.k64.st5.rs4.w4.mb1";
  const std::string wide = "packed.r32.v32.k64.st3.rs3.w4.mb1";
  checkGroups("m=120 n=136 k=320 batch=4 dtype=bf16 layout=NT groups=ends "
              "b=int4 scale_b=1x128 order_b=k64r16 zero_b=1",
              {low, wide});
  checkGroups("m=30 room=70 n=80 k=192 batch=3 dtype=fp16 layout=NT "
              "groups=masked b=e4m3 scale_b=row order_b=k64r16 pointwise=bias",
              {low, wide});
  checkGroups("m=90 n=80 k=200 batch=5 dtype=bf16 layout=NT groups=ends "
              "gather=1 scatter=1 divisor=2 row_weights=1 b=int8 scale_b=1x64 "
              "order_b=k64r16",
              {low, wide});
  // Rows of A that are not aligned: gathered, or copied.
  checkGroups("m=90 n=80 k=131 batch=5 dtype=bf16 layout=NT groups=ends "
              "gather=1 b=int4 scale_b=1x32 order_b=k64r16 align=2",
              {wide});
  checkGroups("m=90 n=80 k=131 batch=5 dtype=bf16 layout=NT groups=ends "
              "b=int4 scale_b=1x32 order_b=k64r16 lda=133",
              {low});
}
