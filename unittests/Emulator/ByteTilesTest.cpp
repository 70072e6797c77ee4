// Tiles of fp8 and int8 by mma.sync, emulated, of every layout and alignment,
// in each of the ways that architectures have for them.
#include "Emulator/EmulatedTrials.h"

using namespace kiln;
using namespace kiln::emulated;

namespace {

const std::string kSquare = "mma.bm64.bn64.bk64.st3.wm2.wn2.mb2";
const std::string kSplit = "mma.bm64.bn64.bk128.st3.wm2.wn2.mb2.sp1.sk2";

const std::vector<Sample> kFp8 = {
    {"gemm",
     "m=100 n=150 k=300 dtype=e4m3 layout=NT lda=304 ldb=320 scale_a=row "
     "scale_b=row",
     {kSquare, kSplit}},
    {"gemm",
     "m=132 n=70 k=133 dtype=e4m3 b=e5m2 layout=TN out=fp16 align=2 "
     "scale_a=row scale_b=tensor pointwise=bias,silu",
     {kSquare, "mma.bm32.bn32.bk64.st3.wm1.wn1.mb1"}}};

/// While it lives, fragments are multiplied as \p capability does.
Patch asArchitecture(llvm::StringRef capability) {
  return Patch("gemm/ByteFragments.cuh", "__CUDA_ARCH__ / 10", capability);
}

} // namespace

TEST_CASE("bytes: tiles of fp8") {
  check(kFp8);
  check({{"gemm",
          "m=68 n=70 k=200 dtype=e5m2 layout=TT align=1 batch=2 scale_a=row "
          "scale_b=tensor pointwise=swiglu",
          {"mma.bm64.bn32.bk128.st3.wm4.wn1.mb2"}},
         {"gemm",
          "m=70 n=136 k=77 dtype=e5m2 b=e4m3 layout=NN align=4 "
          "pointwise=residual",
          {"mma.bm64.bn128.bk64.st3.wm2.wn2.mb1"}}});
}

TEST_CASE("bytes: tiles of fp8 without conversions") {
  Patch ampere = asArchitecture("80");
  check(kFp8);
}

TEST_CASE("bytes: tiles of fp8 as they are") {
  Patch ada = asArchitecture("89");
  check(kFp8);
}

TEST_CASE("bytes: tiles of int8") {
  check({{"gemm",
          "m=70 n=90 k=301 dtype=int8 out=fp32 layout=NT align=1 scale_a=row "
          "scale_b=row pointwise=swiglu",
          {"mma.bm64.bn64.bk128.st3.wm2.wn2.mb2",
           "mma.bm64.bn32.bk64.st2.wm2.wn2.mb1.sp1.sk3"}},
         {"gemm",
          "m=70 n=136 k=200 dtype=int8 out=fp32 layout=NN beta=1",
          {kSquare, "mma.bm64.bn128.bk128.st3.wm2.wn2.mb1.sp1.sk2"}},
         {"gemm",
          "m=67 n=40 k=65 dtype=int8 layout=TN scale_b=row align=1",
          {kSquare}}});
}

TEST_CASE("bytes: tiles of fp8 with block scales") {
  const std::string blocks = " scale_a=1x128 scale_b=128x128";
  check({{"gemm",
          "m=100 n=300 k=1000 dtype=e4m3 layout=NT align=4" + blocks,
          {kSquare, kSplit, "mma.bm64.bn64.bk256.st2.wm2.wn2.mb1"}},
         {"gemm",
          "m=70 n=200 k=300 dtype=e4m3 b=e5m2 out=fp32 layout=TN align=1 "
          "batch=2 scale_order_a=rows ldsa=72 ldsb=5 pointwise=bias,residual" +
              blocks,
          {kSquare}},
         {"gemm",
          "m=70 n=136 k=128 dtype=e5m2 layout=NN pointwise=swiglu" + blocks,
          {"mma.bm64.bn128.bk64.st3.wm2.wn4.mb1.sp1.sk2"}}});
}
