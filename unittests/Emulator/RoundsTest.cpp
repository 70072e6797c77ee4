// Products with launches of several rounds, emulated: quantised results and
// gathered rows of which the workspace has a part at a time.
#include "Emulator/EmulatedTrials.h"
#include "Families/Gemm/GemmRounds.h"

using namespace kiln;
using namespace kiln::emulated;

namespace {

const std::string kNaive = "naive.bt256";
const std::string kMma = "mma.bm64.bn64.bk64.st3.wm2.wn2.mb2";
const std::string kByteMma = "mma.bm64.bn64.bk128.st3.wm2.wn2.mb1";
const std::string kRows = "sm90.bm128.bn64.bk64.st3.wg2.cm1.cn1";
const std::string kByteRows = "sm90.bm128.bn64.bk128.st3.wg2.cm1.cn1";
const std::string kSwapped = "sm90.bm16.bn128.bk64.st4.wg2.sw1.cm1.cn1";
const std::string kSplit = "sm90.bm64.bn64.bk64.st3.wg1.cm1.cn1.sk2";

/// \p problem, which has several rounds where the special templates have
/// \p bytes for them.
void checkRounds(int64_t bytes, const std::string &problem,
                 std::vector<std::string> configs) {
  RoundsOfBytes small(bytes);
  EmulatedTrials trials(3);
  const KernelFamily &family = **trials.trials.registry.get("gemm");
  for (const std::string &config : configs) {
    auto named = must(family.parseConfig(config));
    const Problem parsed = must(family.parseProblem(problem));
    CHECK(
        named.tmpl->plan(parsed, named.config, trials.trials.device).hasRounds);
  }
  check({{"gemm", problem, configs, TrialData::Usual},
         {"gemm", problem, configs, TrialData::Outliers}},
        3);
}

} // namespace

TEST_CASE("emulated: rounds of e4m3 results") {
  // 32 rows a round, and 16 of the generic kernel, which has a row alone.
  checkRounds(20000,
              "m=70 n=264 k=72 dtype=bf16 layout=NT out=e4m3 scale_d=1x128",
              {kMma, kRows, kSwapped, kSplit, kNaive});
  // A across k, and scales along rows on both ends.
  checkRounds(10000,
              "m=67 n=136 k=256 dtype=e4m3 layout=TN align=1 out=e4m3 "
              "scale_d=1x128 scale_order_d=rows ldsd=71 scale_a=1x128 "
              "scale_b=128x128 scale_order_a=rows",
              {kByteMma, kByteRows});
  // Operands of the chain, and rows with gaps.
  checkRounds(10000,
              "m=61 n=131 k=40 dtype=fp16 layout=NN out=e4m3 scale_d=row "
              "ldd=133 lda=48 align=2 beta=1 pointwise=bias,residual,relu",
              {kMma, kRows});
  checkRounds(10000,
              "m=70 n=264 k=64 dtype=int8 layout=NT out=e4m3 scale_d=tensor "
              "scale_a=row scale_b=row zero_a=row pointwise=swiglu",
              {kByteMma, kByteRows});
}

TEST_CASE("emulated: rounds of the matrices of a batch") {
  // Two matrices a round, the last one alone; then parts of each matrix.
  const std::string problem = "m=21 n=136 k=64 batch=5 dtype=bf16 layout=NT "
                              "out=e4m3 scale_d=1x128 beta=1 pointwise=bias";
  checkRounds(13000, problem, {kMma, kRows});
  checkRounds(5000, problem, {kMma, kRows});
}

TEST_CASE("emulated: rounds of groups") {
  checkRounds(20000,
              "m=140 n=264 k=64 batch=4 dtype=bf16 layout=NT groups=ends "
              "group_align=16 out=e4m3 scale_d=1x128 row_weights=1 "
              "pointwise=residual",
              {kMma, kRows});
  checkRounds(9000,
              "m=150 n=136 k=72 batch=5 dtype=bf16 layout=NT groups=ends "
              "gather=1 divisor=3",
              {kMma, kRows, kSwapped});
  checkRounds(9000,
              "m=100 n=66 k=70 batch=5 dtype=bf16 layout=NT groups=ends "
              "gather=1 scatter=1 row_weights=1 align=2",
              {kMma, kRows, kSwapped});
  checkRounds(20000,
              "m=150 n=136 k=64 batch=5 dtype=bf16 layout=NT groups=ends "
              "group_align=7 gather=1 divisor=2 row_weights=1 out=e4m3 "
              "scale_d=row",
              {kMma, kRows});
  checkRounds(9000,
              "m=120 n=136 k=256 batch=4 dtype=e4m3 layout=NT groups=ends "
              "gather=1 divisor=2 scale_order_a=rows scale_a=1x128 "
              "scale_b=128x128",
              {kByteMma, kByteRows});
}

TEST_CASE("emulated: rounds of rows that are copied to be aligned") {
  checkRounds(9000,
              "m=70 n=80 k=131 dtype=bf16 layout=NT b=int4 scale_b=1x128 "
              "order_b=k64r16",
              {"packed.r16.v16.k64.st5.rs4.w4.mb1"});
}
