// Products with an e4m3 D and its scales, emulated: D and what is written of
// the scales, of every kind of scale and behind every kind of kernel.
#include "Emulator/EmulatedTrials.h"

using namespace kiln;
using namespace kiln::emulated;

namespace {

const std::string kNaive = "naive.bt256";
const std::string kMma = "mma.bm64.bn64.bk64.st3.wm2.wn2.mb2";
const std::string kByteMma = "mma.bm64.bn64.bk128.st3.wm2.wn2.mb1";
const std::string kRows = "sm90.bm128.bn64.bk64.st3.wg2.cm1.cn1";
const std::string kByteRows = "sm90.bm128.bn64.bk128.st3.wg2.cm1.cn1";
const std::string kSwapped = "sm90.bm16.bn128.bk64.st4.wg2.sw1.cm1.cn1";

/// Both kinds of data of \p problem, on few SMs.
void checkQuantized(const std::string &problem,
                    std::vector<std::string> configs) {
  check({{"gemm", problem, configs, TrialData::Usual},
         {"gemm", problem, configs, TrialData::Outliers}},
        3);
}

} // namespace

TEST_CASE("emulated: e4m3 results with scales of 128 columns") {
  checkQuantized("m=70 n=264 k=72 dtype=bf16 layout=NT out=e4m3 scale_d=1x128",
                 {kNaive, kMma, kRows, kSwapped});
  // Rows of D of an odd length, and scales with rows of their own.
  checkQuantized("m=33 n=131 k=40 dtype=fp16 layout=NN out=e4m3 scale_d=1x128 "
                 "ldd=133 ldsd=5 align=1 pointwise=bias,residual,relu",
                 {kNaive, kMma});
  checkQuantized("m=21 n=260 k=64 batch=3 dtype=bf16 layout=NT out=e4m3 "
                 "scale_d=1x128 scale_order_d=rows ldsd=24 beta=1",
                 {kNaive, kMma, kRows});
  checkQuantized("m=50 n=280 k=256 dtype=e4m3 layout=NT out=e4m3 scale_d=1x128 "
                 "scale_order_d=rows scale_a=1x128 scale_b=128x128",
                 {kNaive, kByteMma, kByteRows});
}

TEST_CASE("emulated: e4m3 results with scales of rows and of the tensor") {
  checkQuantized("m=40 n=1100 k=64 dtype=bf16 layout=NT out=e4m3 scale_d=row",
                 {kNaive, kMma, kRows, kSwapped});
  checkQuantized("m=20 n=67 k=100 batch=2 dtype=int8 layout=NT out=e4m3 "
                 "scale_d=row scale_a=row scale_b=row lda=112 ldb=112",
                 {kNaive, kByteMma, kByteRows});
  checkQuantized("m=40 n=136 k=64 batch=2 dtype=fp16 layout=NT out=e4m3 "
                 "scale_d=tensor pointwise=bias,gelu_tanh",
                 {kNaive, kMma, kRows});
}

TEST_CASE("emulated: e4m3 results of a gate and an up projection") {
  checkQuantized("m=40 n=528 k=64 dtype=bf16 layout=NT out=e4m3 scale_d=1x128 "
                 "pointwise=swiglu",
                 {kNaive, kMma, kRows});
  checkQuantized("m=30 n=528 k=128 dtype=bf16 layout=NT b=int4 scale_b=1x64 "
                 "order_b=k64r16 out=e4m3 scale_d=row pointwise=swiglu",
                 {kNaive});
}

TEST_CASE("emulated: e4m3 results of groups") {
  checkQuantized("m=140 n=264 k=64 batch=4 dtype=bf16 layout=NT groups=ends "
                 "group_align=16 out=e4m3 scale_d=1x128",
                 {kNaive, kMma, kRows});
  checkQuantized("m=140 n=264 k=128 batch=4 dtype=e4m3 layout=NT "
                 "groups=ends scale_a=1x128 scale_b=128x128 out=e4m3 "
                 "scale_d=1x128 scale_order_d=rows pointwise=swiglu",
                 {kNaive, kByteMma, kByteRows});
  checkQuantized("m=150 n=136 k=64 batch=5 dtype=bf16 layout=NT groups=ends "
                 "group_align=16 gather=1 divisor=2 row_weights=1 out=e4m3 "
                 "scale_d=row",
                 {kNaive, kMma, kRows});
  checkQuantized("m=150 n=136 k=64 batch=5 dtype=bf16 layout=NT groups=ends "
                 "out=e4m3 scale_d=1x128 scale_order_d=rows",
                 {kNaive, kMma, kRows});
  checkQuantized("m=100 n=136 k=64 batch=3 dtype=bf16 layout=NT groups=ends "
                 "out=e4m3 scale_d=tensor",
                 {kNaive, kMma});
}

TEST_CASE("emulated: wrong e4m3 results, scales and rows are found") {
  const std::string problem =
      "m=80 n=136 k=64 batch=3 dtype=bf16 layout=NT groups=ends "
      "group_align=16 out=e4m3 scale_d=1x128";
  auto isRefused = [&](llvm::StringRef text, llvm::StringRef replacement) {
    CAPTURE(text.str());
    Patch patch("gemm/QuantizeOutput.cuh", text, replacement);
    EmulatedTrials trials(3);
    CHECK(!trials.run({"gemm", problem}, kMma).validated);
  };
  isRefused("magnitude / kGreatest", "magnitude / 440.0f");
  isRefused("scaled[i] = values[i] * inverse",
            "scaled[i] = values[i] * inverse * 1.3f");
  isRefused("if (!exists(params, row))", "if (false)");
}
