#include "Families/FamilyTesting.h"
#include "Families/Route/RouteFamily.h"
#include "Kernel/Space.h"
#include "route/ClusterRouteConfig.h"
#include "route/SpreadRouteConfig.h"

#include <doctest/doctest.h>

#include <cstring>
#include <set>

using namespace kiln;
using namespace kiln::testing;

namespace {

const KernelFamily &route() { return *registry().find("route"); }

Problem parse(llvm::StringRef text) { return testing::parse(route(), text); }
std::string failure(llvm::StringRef text) {
  return testing::failure(route(), text);
}
std::string reason(llvm::StringRef problem, llvm::StringRef config) {
  return testing::reason(route(), problem, config);
}

RouteSignature signature(llvm::StringRef text) {
  const Problem problem = parse(text);
  const RouteSignature result = readRouteSignature(problem.signature);
  CHECK(toValues(result) == problem.signature);
  return result;
}

/// The parameters and the steps of one launch.
struct Bound {
  Plan plan;
  std::vector<RouteParams> params;
  std::vector<KernelStep> steps;
};
Bound launchOf(llvm::StringRef text, llvm::StringRef config) {
  static Problem problem;
  problem = parse(text);
  auto named = llvm::cantFail(route().parseConfig(config));
  Bound bound;
  bound.plan = named.tmpl->plan(problem, named.config, h200());
  Arguments arguments = route().defaultArguments(problem);
  for (int i = 0; i < RouteOperand::Count; ++i)
    arguments.operands[i].address = 0x1000 * (i + 1);
  LaunchContext context;
  context.scratch = 0x80000;
  LaunchSpec spec;
  bound.plan.binder->bind(arguments, context, spec);
  for (uint32_t i = 0; i < spec.stepCount; ++i) {
    bound.steps.push_back(spec.steps[i].kernel);
    bound.params.push_back(spec.paramsOf<RouteParams>(spec.steps[i].kernel));
  }
  return bound;
}

const std::string kPlain = "tokens=64 experts=128 topk=8 dtype=bf16";

} // namespace

TEST_CASE("route: equal problems have equal text") {
  CHECK(parse(kPlain + " local=128 group_align=1 scale=1 ldx=128 align=16")
            .text() == "route " + kPlain);
  // All groups stay.
  CHECK(parse(kPlain + " groups=8 top_groups=8 group_max=1").text() ==
        "route " + kPlain);
  CHECK(parse(kPlain + " groups=3 top_groups=3").text() == "route " + kPlain);
  CHECK(parse(kPlain + " first=32 local=96").text() ==
        "route " + kPlain + " first=32");
}

TEST_CASE("route: what is not a problem is named") {
  CHECK(failure("tokens=1 experts=8 topk=9 dtype=bf16") ==
        "route: topk=9 is above experts=8");
  CHECK(failure(kPlain + " top_groups=2") ==
        "route: top_groups=2 without groups");
  CHECK(failure(kPlain + " groups=3 top_groups=2") ==
        "route: groups=3 does not divide experts=128");
  CHECK(failure(kPlain + " groups=8 top_groups=9") ==
        "route: top_groups=9, of groups=8: it is from 1 on to their number");
  CHECK(failure(kPlain + " groups=32 top_groups=1") ==
        "route: topk=8 of top_groups=1, which have 4 experts");
  CHECK(failure("tokens=1 experts=32 topk=2 dtype=bf16 groups=32 "
                "top_groups=2") ==
        "route: groups=32 of experts=32 have one each: there are no two to add "
        "up");
  CHECK(failure(kPlain + " first=128") ==
        "route: first=128 is not below experts=128");
  CHECK(failure(kPlain + " first=200") ==
        "route: first=200 is not below experts=128");
  CHECK(failure(kPlain + " first=100 local=29") ==
        "route: first=100 local=29 are not among experts=128");
  CHECK(failure(kPlain + " scale=0") == "route: scale=0 makes all weights 0");
}

TEST_CASE("route: a signature has what kernels are specialised for") {
  CHECK(signature(kPlain + " renorm=1 logit_bias=1 scale=2 chosen=1") ==
        RouteSignature{.in = DType::BF16});
  CHECK(signature(kPlain + " score=sigmoid choice_bias=1") ==
        RouteSignature{.in = DType::BF16, .sigmoid = true, .byScore = true});
  // Sums need scores, the greatest does not.
  CHECK(signature(kPlain + " groups=8 top_groups=4") ==
        RouteSignature{.in = DType::BF16, .byScore = true, .grouped = true});
  CHECK(signature(kPlain + " groups=8 top_groups=4 group_max=1") ==
        RouteSignature{.in = DType::BF16, .grouped = true, .greatest = true});
}

TEST_CASE("route: without tokens there are ends to write") {
  const std::string none = "tokens=0 experts=100 topk=3 dtype=bf16";
  CHECK_FALSE(route().isEmpty(parse(none)));
  for (const char *config :
       {"cluster.t256.i4.n1.c1", "cluster.t256.i4.n1.c8", "spread.t256.i4.n1"})
    for (const KernelStep &step : launchOf(none, config).steps)
      CHECK(step.grid.x >= 1);
}

TEST_CASE("route: the rows of local experts are written of the index") {
  auto bytes = [](const std::string &more) {
    return route().compulsoryBytes(parse(kPlain + more));
  };
  constexpr double kWord = 4, kChoices = 64 * 8;
  CHECK(bytes("") == 64 * 128 * 2 + 2 * kChoices * kWord + 128 * kWord);
  CHECK(bytes(" group_align=16") == bytes(""));
  CHECK(bytes(" first=16 local=32 group_align=16") ==
        64 * 128 * 2 + (1 + 0.25) * kChoices * kWord + 32 * kWord);
}

TEST_CASE("route: lanes that walk experts meet in no bank") {
  for (int each : {1, 2, 4, 8, 16, 32})
    for (int i = 0; i < each; ++i) {
      std::set<int> banks;
      for (int lane = 0; lane < 32; ++lane)
        banks.insert(expertWord(lane * each + i) % 32);
      CAPTURE(each);
      CHECK(banks.size() == 32);
    }
}

TEST_CASE("route: one kernel has a block or a cluster") {
  const Bound block = launchOf(kPlain, "cluster.t256.i4.n2.c1");
  REQUIRE(block.steps.size() == 1);
  CHECK(block.steps[0].grid == Dim3{1, 1, 1});
  CHECK(block.steps[0].cluster == Dim3{1, 1, 1});
  CHECK(block.params[0].blockTokens == 64);
  CHECK(block.params[0].localExperts == 128);
  CHECK(block.plan.takesDependentLaunch);
  const Bound eight =
      launchOf("tokens=70 experts=100 topk=3 dtype=fp32 first=10",
               "cluster.t256.i4.n1.c8");
  CHECK(eight.steps[0].grid == Dim3{8, 1, 1});
  CHECK(eight.steps[0].cluster == Dim3{8, 1, 1});
  CHECK(eight.params[0].blockTokens == 9);
  CHECK(eight.params[0].firstExpert == 10);
  CHECK(eight.params[0].localExperts == 90);
}

TEST_CASE("route: two kernels have the same blocks, and scratch") {
  const Bound bound = launchOf("tokens=8192 experts=128 topk=8 dtype=bf16",
                               "spread.t1024.i4.n2");
  REQUIRE(bound.steps.size() == 2);
  CHECK(bound.steps[0].grid == bound.steps[1].grid);
  CHECK(bound.steps[0].grid.x <= 132);
  CHECK(bound.steps[1].function == 1);
  CHECK(bound.steps[1].dependentLaunch);
  const RouteParams &params = bound.params[0];
  CHECK(int64_t(params.blockTokens) * bound.steps[0].grid.x >= 8192);
  const auto counts = reinterpret_cast<uintptr_t>(params.counts);
  const auto ranks = reinterpret_cast<uintptr_t>(params.ranks);
  CHECK(counts == 0x80000);
  CHECK(ranks - counts == 132 * 128 * 4);
  CHECK(bound.plan.workspace.scratchBytes == ranks - counts + 8192 * 8 * 4);
}

TEST_CASE("route: the most tokens of a block have places") {
  CHECK(kMaxRouteTokens < int64_t(1) << RouteRank::kPlaceBits);
  CHECK(RouteRank::expertOf(RouteRank::of(1023, (1u << 22) - 2)) == 1023);
  CHECK(RouteRank::placeOf(RouteRank::of(1023, (1u << 22) - 2)) ==
        (1u << 22) - 2);
}

TEST_CASE("route: a config too narrow is rejected with both numbers") {
  CHECK(reason("tokens=64 experts=300 topk=8 dtype=bf16",
               "spread.t256.i8.n1") != "none");
  CHECK(reason("tokens=64 experts=256 topk=8 dtype=bf16",
               "spread.t256.i8.n1") == "none");
}
