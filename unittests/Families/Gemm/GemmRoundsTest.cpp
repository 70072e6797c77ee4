// Launches of several rounds: the part of a problem in each round, and that all
// parts fit an engine's workspace.
#include "Families/Gemm/GemmRounds.h"
#include "Families/Gemm/GemmTemplate.h"
#include "Families/Gemm/Sm90Testing.h"
#include "Kernel/EngineLimits.h"
#include "Kernel/Space.h"

#include <doctest/doctest.h>

using namespace kiln;
using namespace kiln::testing;

namespace {

Space within(uint64_t bytes, const Problem &problem) {
  return llvm::cantFail(
      exploreSpace(gemm(), problem, h200(), {.allowance = {bytes}}));
}

GemmRounds roundsOf(const Problem &problem) {
  return GemmRounds::of(readGemmProblem(problem.values.array().data()),
                        /*copiesRows=*/false, GemmRounds::kBytes);
}

} // namespace

TEST_CASE("quantised results and gathers of any size have fast kernels") {
  for (llvm::StringRef text :
       {"gemm m=20480 n=28672 k=4096 dtype=e4m3 out=e4m3 pointwise=swiglu "
        "scale_d=1x128",
        "gemm m=65536 n=8192 k=4096 dtype=e4m3 out=e4m3 layout=NT scale_d=row",
        "gemm m=300 n=4096 k=64 batch=3000 dtype=bf16 out=e4m3 layout=NT "
        "scale_d=row",
        "gemm m=65536 n=65536 k=64 dtype=bf16 out=e4m3 layout=NT scale_d=row",
        "gemm m=4000000 n=256 k=512 batch=8 dtype=bf16 layout=NT groups=ends "
        "gather=1",
        "gemm m=65536 n=28672 k=4096 batch=64 dtype=bf16 layout=NT "
        "groups=ends gather=1 out=e4m3 scale_d=1x128"}) {
    CAPTURE(text.str());
    const Problem problem = parse(text);
    const Space space = within(kEngineWorkspaceBytes, problem);
    REQUIRE(!space.ranked.empty());
    const Candidate &first = space.ranked[0];
    CHECK(!first.tmpl->isGeneric());
    const Plan plan = first.tmpl->plan(problem, first.config, h200());
    CHECK(plan.hasRounds);
    CHECK(plan.workspace.bytes() <= kEngineWorkspaceBytes);
    // With little workspace the generic kernel is left.
    CHECK(!within(uint64_t(20) << 20, problem).ranked.empty());
  }
}

TEST_CASE("rounds are even, cover all rows and keep their alignment") {
  const GemmRounds rounds =
      roundsOf(parse("gemm m=65536 n=28672 k=64 dtype=bf16 out=e4m3 layout=NT "
                     "scale_d=row"));
  CHECK(rounds.rows == 2304);
  CHECK(rounds.matrices == 1);
  for (int64_t m : {1, 17, 2304, 2305, 4000, 4609, 65536}) {
    CAPTURE(m);
    const int64_t each = rounds.evenRows(m), count = rounds.count(m, 1);
    CHECK(each <= rounds.rows);
    CHECK((count - 1) * each < m);
    CHECK(count * each >= m);
    CHECK((count == 1 || each % 256 == 0));
  }
  CHECK(rounds.count(2304, 1) == 1);
  CHECK(rounds.count(2305, 1) == 2);
  // Whole matrices of a batch, or parts of each.
  const GemmRounds batch = roundsOf(
      parse("gemm m=300 n=4096 k=64 batch=3000 dtype=bf16 out=e4m3 layout=NT "
            "scale_d=row"));
  CHECK(batch.rows == 300);
  CHECK(batch.matrices == (GemmRounds::kBytes / 8192) / 300);
  CHECK(batch.count(300, 3000) == 56);
  // Other problems have one round.
  const GemmRounds one =
      roundsOf(parse("gemm m=65536 n=65536 k=64 dtype=bf16 layout=NT"));
  CHECK(one.count(65536, 1) == 1);
}

TEST_CASE("a round has the addresses of its rows") {
  const Problem problem =
      parse("gemm m=65536 n=2048 k=4096 dtype=bf16 layout=NT batch=64 "
            "groups=ends gather=1 divisor=2 row_weights=1 lda=4104");
  const auto named =
      llvm::cantFail(gemm().parseConfig("mma.bm64.bn64.bk64.st3.wm2.wn2.mb2"));
  const Plan plan = named.tmpl->plan(problem, named.config, h200());
  REQUIRE(plan.hasRounds);
  const Arguments arguments = BoundLaunch::argumentsOf(problem);
  REQUIRE(plan.binder->rounds(arguments, 132) == 4);
  for (int64_t round = 0; round < 4; ++round) {
    LaunchContext context = BoundLaunch::defaultContext();
    context.round = round;
    const BoundLaunch launch(plan, arguments, context);
    GemmParams params;
    const KernelStep &step = launch.spec.steps[1].kernel;
    REQUIRE(step.paramBytes == sizeof(params));
    std::memcpy(static_cast<void *>(&params),
                launch.spec.params + step.paramOffset, sizeof(params));
    const int64_t row = round * 16384;
    CHECK(params.m == 16384);
    CHECK(params.groups.first == row);
    CHECK(params.groups.all == 65536);
    CHECK(reinterpret_cast<DeviceAddress>(params.d) ==
          arguments.operands[GemmOperand::D].address + 2 * 2048 * row);
    CHECK(reinterpret_cast<DeviceAddress>(params.groups.index) ==
          arguments.operands[GemmOperand::RowIndex].address + 4 * row);
    // Needed because of the index.
    CHECK(reinterpret_cast<DeviceAddress>(params.groups.weights) ==
          arguments.operands[GemmOperand::RowWeights].address);
  }
}
