// Products of fp8 and int8 that gemv, skinny and mma compute, emulated, in each
// of the ways that architectures have for them.
#include "Emulator/EmulatedTrials.h"

using namespace kiln;
using namespace kiln::emulated;

namespace {

/// While it lives, fragments are multiplied as \p capability does.
struct AsArchitecture {
  explicit AsArchitecture(llvm::StringRef capability)
      : patch("gemm/ByteFragments.cuh", "__CUDA_ARCH__ / 10", capability) {}
  Patch patch;
};

const std::vector<Sample> kSkinny = {
    {"gemm",
     "m=13 n=200 k=1000 dtype=e4m3 layout=NT lda=1008 ldb=1024 scale_a=row "
     "scale_b=row",
     {"skinny.r32.v16.k128.st3.w4.mb2", "skinny.r16.v16.k64.st4.w2.mb2",
      "skinny.r16.v24.k256.st2.w4.mb1.sp1.sk3"}},
    {"gemm",
     "m=33 n=70 k=720 dtype=e4m3 b=e5m2 layout=NT scale_a=tensor scale_b=row "
     "pointwise=bias,silu,residual out=fp16",
     {"skinny.r64.v48.k128.st3.w4.mb1"}},
    {"gemm",
     "m=70 n=5 k=900 dtype=e5m2 b=e4m3 out=fp32 layout=NT beta=1 ldb=912 "
     "lda=928 scale_a=row scale_b=tensor",
     {"skinny.r32.v8.k128.st3.w4.mb1.sa1"}}};

} // namespace

TEST_CASE("bytes: rows of fp8 past a few vectors") { check(kSkinny); }

TEST_CASE("bytes: rows of fp8 past a few vectors without conversions") {
  AsArchitecture ampere("80");
  check(kSkinny);
}

TEST_CASE("bytes: rows of fp8 past a few vectors as they are") {
  AsArchitecture ada("89");
  check(kSkinny);
}

// Data of one sign: sums that stay in the tensor core are off by percents.
TEST_CASE("bytes: long rows of fp8 of one sign") {
  const std::string problem =
      "m=3 n=40 k=8192 dtype=e4m3 out=fp32 layout=NT scale_a=row ";
  const Sample promoted{
      "gemm", problem, {"skinny.r16.v8.k128.st3.w1.mb1"}, TrialData::Outliers};
  check({promoted});
  AsArchitecture ada("89");
  check({promoted});
  Sample fast = promoted;
  fast.problem += "compute=fast_fp8";
  check({fast});
  EmulatedTrials trials;
  Patch unpromoted("gemm/SkinnyGemm.cuh",
                   "!hasPartialSums(kSignature, kByteCapability)", "true");
  CHECK(trials.run(promoted, promoted.configs[0]).status == TrialStatus::Wrong);
}

TEST_CASE("bytes: rows of int8 past a few vectors") {
  check({{"gemm",
          "m=7 n=72 k=528 dtype=int8 out=fp32 layout=NT batch=2 scale_a=row "
          "scale_b=row pointwise=swiglu",
          {"skinny.r32.v8.k128.st3.w4.mb1",
           "skinny.r16.v16.k64.st3.w2.mb1.sp1.sk2"}},
         {"gemm",
          "m=70 n=12 k=3001 dtype=int8 out=fp32 layout=NT lda=3008 ldb=3024",
          {"skinny.r32.v16.k128.st3.w4.mb1.sa1",
           "skinny.r16.v16.k256.st3.w2.mb1.sp1.sk3.sa1"}}});
}

namespace {

const std::vector<Sample> kGemv = {
    {"gemm",
     "m=1 n=45 k=5000 dtype=e4m3 layout=NT lda=5008 ldb=5024 scale_a=row "
     "scale_b=row",
     {"gemv.r2.u4.w4.wk4.v1.mb4", "gemv.r8.u1.w4.wk2.v1.mb4.ef1"}},
    {"gemm",
     "m=3 n=40 k=1037 dtype=e4m3 b=e5m2 layout=NT lda=1040 ldb=1056 batch=2 "
     "scale_a=tensor scale_b=row pointwise=bias,silu,residual out=fp16",
     {"gemv.r4.u4.w4.wk1.v4.mb2"}},
    {"gemm",
     "m=30 n=2 k=2051 dtype=e5m2 b=e4m3 out=fp32 layout=NT beta=1 lda=2064 "
     "ldb=2064 scale_a=row scale_b=tensor",
     {"gemv.r2.u2.w4.wk2.v2.mb4.sa1"}}};

} // namespace

TEST_CASE("bytes: a matrix of fp8 past a few vectors") { check(kGemv); }

TEST_CASE("bytes: a matrix of fp8 past a few vectors without conversions") {
  AsArchitecture ampere("80");
  check(kGemv);
}

TEST_CASE("bytes: a matrix of int8 past a few vectors") {
  check({{"gemm",
          "m=3 n=72 k=1037 dtype=int8 out=fp32 layout=NT lda=1040 ldb=1056 "
          "scale_a=row scale_b=row pointwise=swiglu",
          {"gemv.r2.u4.w4.wk2.v4.mb2", "gemv.r4.u2.w8.wk8.v4.mb1"}},
         {"gemm",
          "m=50 n=1 k=3001 dtype=int8 out=fp32 layout=NT lda=3008 ldb=3024",
          {"gemv.r2.u4.w4.wk4.v1.mb4.sa1"}}});
}

namespace {

const std::string kBlocks = " scale_a=1x128 scale_b=128x128";
const std::vector<Sample> kScaled = {
    {"gemm",
     "m=13 n=300 k=1000 dtype=e4m3 layout=NT lda=1008 ldb=1024" + kBlocks,
     {"skinny.r32.v16.k128.st3.w4.mb2", "skinny.r16.v16.k64.st4.w2.mb2",
      "skinny.r16.v24.k256.st2.w2.mb1.sp1.sk3"}},
    {"gemm",
     "m=200 n=5 k=912 dtype=e5m2 b=e4m3 out=fp32 layout=NT beta=1 batch=2 "
     "scale_order_a=rows ldsa=204 ldsb=11" +
         kBlocks,
     {"skinny.r48.v8.k128.st3.w4.mb1.sa1"}},
    {"gemm",
     "m=1 n=140 k=272 dtype=e4m3 layout=NT scale_order_b=rows ldsb=3 "
     "pointwise=bias,swiglu" +
         kBlocks,
     {"skinny.r64.v8.k64.st3.w2.mb1"}}};

} // namespace

TEST_CASE("bytes: rows with block scales past a few vectors") {
  check(kScaled);
  check({{"gemm",
          "m=4 n=40 k=0 dtype=e4m3 layout=NT" + kBlocks,
          {"skinny.r16.v8.k128.st3.w1.mb1"}},
         {"gemm",
          "m=3 n=40 k=8192 dtype=e4m3 out=fp32 layout=NT" + kBlocks,
          {"skinny.r16.v8.k128.st3.w4.mb1"},
          TrialData::Outliers}});
}

TEST_CASE("bytes: rows with block scales as they are") {
  AsArchitecture ada("89");
  check(kScaled);
}
