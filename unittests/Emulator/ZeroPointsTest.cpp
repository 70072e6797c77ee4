// Products of int8 with zero points of A, emulated with every template. They
// are exact to the last unit, also at the ends of int8's range.
#include "Emulator/EmulatedTrials.h"

#include "Families/Gemm/GemmProblem.h"

using namespace kiln;
using namespace kiln::emulated;

namespace {

const std::string kTile = "mma.bm64.bn64.bk64.st3.wm2.wn2.mb2";
const std::string kSplitTile = "mma.bm64.bn64.bk128.st3.wm2.wn2.mb2.sp1.sk2";
const std::string kWgmma = "sm90.bm64.bn64.bk128.st3.wg1.cm1.cn1";
const std::string kTurns = "sm90.bm128.bn128.bk128.st3.wg2.pp1.cm1.cn1";
const std::string kColumnShared = "sm90.bm128.bn128.bk128.st3.wg2.cm1.cn1.cs1";
const std::string kSwapped = "sm90.bm24.bn64.bk256.st4.wg1.sw1.cm1.cn1";
const std::string kSwappedPair = "sm90.bm64.bn128.bk128.st3.wg2.sw1.cm1.cn1";
const std::string kSkinny = "skinny.r16.v16.k64.st6.w4.mb2";
const std::string kSplitSkinny = "skinny.r16.v16.k64.st6.w4.mb2.sp1.sk2";

/// Elements, their zero points and the products' other factor.
struct Extremes {
  int a, zeroPoint, b;
};

/// Whether every element of D is k (a - zeroPoint) b.
void checkExactly(const std::string &problem, const std::string &config,
                  const Extremes &extremes) {
  CAPTURE(config);
  CAPTURE(extremes.a);
  CAPTURE(extremes.zeroPoint);
  CAPTURE(extremes.b);
  EmulatedTrials trials;
  DependentCase launched =
      trials.dependent({"gemm", problem + " out=fp32"}, config);
  const GemmProblem p = readGemmProblem(launched.problem.values.array().data());
  const Arguments arguments = launched.arguments(false);
  const OperandTable &table = launched.buffers->table();
  auto fill = [&](int operand, auto value) {
    auto *data = reinterpret_cast<decltype(value) *>(
        arguments.operands[operand].address);
    std::fill_n(data,
                size_t(table.operands[size_t(operand)].bytes()) / sizeof(value),
                value);
  };
  fill(GemmOperand::A, static_cast<int8_t>(extremes.a));
  fill(GemmOperand::B, static_cast<int8_t>(extremes.b));
  fill(GemmOperand::ZeroA, int32_t(extremes.zeroPoint));
  fill(GemmOperand::ColumnSumsB, static_cast<int32_t>(p.k * extremes.b));
  must(launched.launch(false));
  REQUIRE(trials.emulator.fault() == "");
  const std::vector<uint8_t> bytes = launched.outputs();
  const auto expected =
      static_cast<float>(p.k * (extremes.a - extremes.zeroPoint) * extremes.b);
  for (size_t i = 0; i < bytes.size(); i += sizeof(float)) {
    float value;
    std::memcpy(&value, bytes.data() + i, sizeof(value));
    if (value != expected) {
      CAPTURE(i);
      REQUIRE(value == expected);
    }
  }
}

} // namespace

TEST_CASE("emulated: zero points of tiles by mma.sync") {
  check({{"gemm",
          "m=70 n=90 k=301 dtype=int8 out=fp32 layout=NT align=1 zero_a=row "
          "scale_a=row scale_b=row pointwise=swiglu",
          {kTile, kSplitTile}},
         {"gemm",
          "m=70 n=136 k=200 dtype=int8 layout=NN beta=1 batch=2 zero_a=tensor "
          "scale_a=tensor",
          {kTile}},
         {"gemm",
          "m=67 n=40 k=65 dtype=int8 layout=TN scale_b=row align=1 zero_a=row",
          {kTile}}});
}

TEST_CASE("emulated: zero points of few vectors") {
  check(
      {{"gemm",
        "m=3 n=101 k=1000 dtype=int8 layout=NT zero_a=row scale_a=row "
        "scale_b=row lda=1008 ldb=1008 batch=2",
        {"gemv.r4.u4.w4.wk4.v4.mb1", kSkinny, kSplitSkinny}},
       {"gemm",
        "m=70 n=2 k=512 dtype=int8 out=fp32 layout=NT zero_a=row "
        "pointwise=bias",
        {"gemv.r4.u4.w4.wk1.v2.mb1.sa1", "skinny.r16.v16.k64.st6.w4.mb2.sa1"}},
       {"gemm", "m=9 n=13 k=300 dtype=int8 layout=TT zero_a=row"}});
}

TEST_CASE("emulated: zero points by wgmma") {
  check({{"gemm",
          "m=70 n=136 k=400 dtype=int8 layout=NT zero_a=row scale_a=row "
          "scale_b=row",
          {kWgmma, kTurns, kColumnShared, kSwapped, kSwappedPair}},
         {"gemm",
          "m=130 n=272 k=300 dtype=int8 out=fp32 layout=NT zero_a=tensor "
          "scale_a=tensor scale_b=row pointwise=bias,relu beta=1 batch=2",
          {"sm90.bm128.bn256.bk128.st2.wg2.cm1.cn1",
           "sm90.bm192.bn128.bk128.st2.wg3.cm1.cn1", kSwappedPair}},
         {"gemm",
          "m=66 n=130 k=211 dtype=int8 layout=NT align=1 zero_a=row "
          "scale_a=row pointwise=swiglu",
          {kWgmma}}});
}

TEST_CASE("emulated: zero points at the ends of int8 are exact") {
  for (const Extremes &extremes :
       {Extremes{-128, 127, -128}, Extremes{-128, -128, -128},
        Extremes{127, -128, -128}, Extremes{-128, 127, 127}}) {
    const std::string fields = " dtype=int8 layout=NT zero_a=row";
    for (const std::string &config :
         {kTile, kSplitTile, kWgmma, kSwapped, kSkinny, kSplitSkinny})
      checkExactly("m=13 n=40 k=2304" + fields, config, extremes);
    checkExactly("m=3 n=24 k=2304 dtype=int8 layout=NT zero_a=tensor",
                 "gemv.r4.u4.w4.wk4.v4.mb1", extremes);
  }
}

// Sums of a and b alone would not fit, nor what is subtracted from them.
TEST_CASE("emulated: zero points at the greatest k are exact") {
  const std::string problem =
      "m=2 n=8 k=65793 dtype=int8 layout=NT zero_a=row lda=65808 ldb=65808";
  checkExactly(problem, kSkinny, {-128, 127, -128});
  checkExactly(problem, "gemv.r4.u4.w4.wk4.v2.mb1", {127, -128, -128});
}
