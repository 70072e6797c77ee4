// Products of fp8 and int8, emulated: the tensor core's sums of fp8 are as
// narrow as on a GPU, so that sums which are not promoted are found.
#include "Emulator/EmulatedTrials.h"

using namespace kiln;
using namespace kiln::emulated;

namespace {

/// Tiles that promote in one part, in two and in four. A stage has 128 or 256
/// steps of k. The problems end within tiles.
const std::string kNarrow = "sm90.bm64.bn64.bk128.st3.wg1.cm1.cn1";
const std::string kDeep = "sm90.bm64.bn32.bk256.st3.wg1.cm1.cn1";
const std::string kParts = "sm90.bm128.bn128.bk128.st3.wg2.cm1.cn1";
const std::string kTurns = "sm90.bm128.bn128.bk128.st3.wg2.pp1.cm1.cn1";
const std::string kFourParts = "sm90.bm128.bn256.bk128.st2.wg2.cm1.cn1";
const std::string kUnits = "sm90.bm256.bn128.bk128.st2.wg2.cm1.cn1";
const std::string kThree = "sm90.bm192.bn128.bk128.st2.wg3.cm1.cn1";
const std::string kMixed = "sm90.bm128.bn96.bk128.st3.wg2.cm1.cn1";
const std::string kSwapped = "sm90.bm24.bn64.bk256.st4.wg1.sw1.cm1.cn1";
const std::string kSwappedPair = "sm90.bm64.bn128.bk128.st3.wg2.sw1.cm1.cn1";
const std::string kColumnShared = "sm90.bm128.bn256.bk128.st2.wg2.cm1.cn1.cs1";
const std::string kRowsShared = "sm90.bm128.bn64.bk256.st2.wg2.cm1.cn2";
const std::string kWideSwapped = "sm90.bm128.bn128.bk128.st2.wg2.sw1.cm1.cn1";
const std::string kSplit = "sm90.bm16.bn64.bk128.st3.wg1.sw1.cm1.cn1.sk2";

} // namespace

TEST_CASE("bytes: products of fp8 with scales of tensors and rows") {
  const std::string rows = " scale_a=row scale_b=row";
  check({{"gemm",
          "m=70 n=136 k=400 dtype=e4m3 layout=NT" + rows,
          {kNarrow, kDeep, kParts, kSwapped, kSwappedPair, kSplit}},
         {"gemm",
          "m=200 n=264 k=400 dtype=e4m3 b=e5m2 out=fp16 layout=NT "
          "pointwise=bias,silu" +
              rows,
          {kTurns, kFourParts, kUnits, kThree}},
         {"gemm",
          "m=130 n=144 k=300 dtype=e5m2 b=e4m3 out=fp32 layout=NT beta=1 "
          "scale_a=tensor scale_b=tensor",
          {kParts, kMixed}},
         {"gemm",
          "m=66 n=130 k=211 dtype=e4m3 layout=NT align=1 batch=2 "
          "scale_a=row scale_b=tensor pointwise=swiglu",
          {kNarrow, kParts}}});
}

TEST_CASE("bytes: products of fp8 with block scales") {
  const std::string blocks = " scale_a=1x128 scale_b=128x128";
  check(
      {{"gemm",
        "m=70 n=136 k=400 dtype=e4m3 layout=NT" + blocks,
        {kNarrow, kDeep, kParts, kSwapped, kSwappedPair, kSplit}},
       {"gemm",
        "m=200 n=300 k=1000 dtype=e4m3 layout=NT scale_order_a=rows ldsa=204" +
            blocks,
        {kTurns, kFourParts, kUnits, kThree, kMixed}},
       {"gemm",
        "m=260 n=192 k=272 dtype=e4m3 out=fp32 layout=NT batch=2 "
        "scale_order_b=rows ldsb=5 ldsa=7 pointwise=bias,residual" +
            blocks,
        {kParts, kUnits, kMixed, kSwappedPair}},
       // Tiles that repeat at the edge begin with a block of scales.
       {"gemm",
        "m=70 n=330 k=384 dtype=e4m3 layout=NT" + blocks,
        {kFourParts, kColumnShared, kRowsShared, kWideSwapped}}});
}

// Data of one sign: sums that stay in the tensor core are off by percents.
TEST_CASE("bytes: long products of fp8 of one sign") {
  const Sample promoted{"gemm",
                        "m=20 n=72 k=4096 dtype=e4m3 out=fp32 layout=NT "
                        "scale_a=1x128 scale_b=128x128",
                        {kNarrow, kSwapped},
                        TrialData::Outliers};
  const Sample fast{"gemm",
                    "m=20 n=72 k=4096 dtype=e4m3 out=fp32 layout=NT "
                    "compute=fast_fp8 scale_a=row scale_b=row",
                    {kNarrow},
                    TrialData::Outliers};
  check({promoted, fast});
}

TEST_CASE("bytes: products of int8") {
  check({{"gemm",
          "m=70 n=136 k=400 dtype=int8 layout=NT scale_a=row scale_b=row",
          {kNarrow, kParts, kSwapped, kSwappedPair, kSplit}},
         {"gemm",
          "m=130 n=272 k=300 dtype=int8 out=fp32 layout=NT scale_a=tensor "
          "scale_b=row pointwise=bias,relu",
          {kTurns, kFourParts, kUnits, kThree}}});
}

// A step before the product transposes what does not lie along k.
TEST_CASE("bytes: products of other layouts through wgmma") {
  const std::string blocks = " scale_a=1x128 scale_b=128x128";
  check({{"gemm",
          "m=140 n=136 k=400 dtype=e4m3 layout=TN scale_a=row scale_b=row",
          {kNarrow, kSwapped, kSplit}},
         {"gemm",
          "m=131 n=259 k=301 dtype=e4m3 b=e5m2 layout=TN align=1 batch=2 "
          "scale_a=tensor scale_b=tensor",
          {kParts, kSwapped}},
         {"gemm",
          "m=70 n=272 k=149 dtype=e4m3 layout=NN lda=150 ldb=275 align=1 "
          "scale_order_a=rows" +
              blocks,
          {kParts, kSwappedPair}},
         {"gemm",
          "m=5 n=130 k=33 dtype=int8 layout=TT lda=7 align=1 scale_a=row "
          "scale_b=row",
          {kNarrow, kSwapped}},
         {"gemm",
          "m=132 n=66 k=270 dtype=int8 layout=TN out=fp32 align=2 scale_a=row "
          "scale_b=row zero_a=row",
          {kNarrow}},
         {"gemm",
          "m=90 n=136 k=256 batch=3 dtype=e4m3 layout=NN groups=ends "
          "scale_a=row scale_b=row",
          {kParts, kSwapped}}});
}

// Tiles of 16 rows have none across k.
TEST_CASE("bytes: few rows across k") {
  for (const std::string layout : {"TN", "TT"})
    check({{"gemm", "m=1 n=70 k=130 dtype=int8 layout=" + layout},
           {"gemm", "m=7 n=3 k=133 dtype=e4m3 align=1 layout=" + layout},
           {"gemm", "m=16 n=140 k=300 dtype=e5m2 scale_a=row scale_b=row "
                    "layout=" +
                        layout}});
}

TEST_CASE("bytes: any product of bytes has a kernel") {
  check({{"gemm", "m=9 n=13 k=300 dtype=e4m3 layout=TN scale_a=row "
                  "scale_b=tensor"},
         {"gemm", "m=9 n=140 k=300 dtype=e4m3 layout=NN scale_a=1x128 "
                  "scale_b=128x128 align=1"},
         {"gemm", "m=5 n=7 k=33 dtype=int8 layout=TT"}});
}
