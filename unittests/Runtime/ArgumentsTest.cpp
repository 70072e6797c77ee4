// kiln_arguments: extents that are not given, scalars in device memory, slots.
#include "Runtime/RuntimeFixture.h"

using namespace kiln;
using namespace kiln::testing;

namespace {

/// Addresses of a gemm by slot, in a kiln_arguments.
struct GemmArguments {
  GemmArguments() {
    operands[KILN_GEMM_A] = address(0x100000);
    operands[KILN_GEMM_B] = address(0x200000);
    operands[KILN_GEMM_C] = address(0x300000);
    operands[KILN_GEMM_D] = address(0x400000);
    given.operands = operands;
    given.operand_count = KILN_GEMM_SLOT_COUNT;
  }
  GemmArguments(const GemmArguments &) = delete;

  void *operands[KILN_GEMM_SLOT_COUNT] = {};
  kiln_arguments given = KILN_INIT(kiln_arguments);
};

/// Launches of one problem by a plan and by kiln_run, which must agree.
class BothWays {
public:
  BothWays(kiln_engine *engine, const kiln_problem &problem)
      : engine(engine), problem(problem) {
    REQUIRE(kiln_plan_acquire(engine, &problem, nullptr, &plan) ==
            KILN_SUCCESS);
  }
  ~BothWays() { kiln_plan_release(plan); }
  BothWays(const BothWays &) = delete;

  /// "" or the message of the InvalidArgument.
  std::string launch(const GemmArguments &arguments) {
    kiln_status byPlan =
        kiln_plan_launch(plan, &arguments.given, nullptr, nullptr);
    std::string message = byPlan == KILN_SUCCESS ? "" : lastError();
    kiln_status byRun =
        kiln_run(engine, &problem, &arguments.given, nullptr, nullptr);
    CHECK(byPlan == byRun);
    CHECK(message == (byRun == KILN_SUCCESS ? "" : lastError()));
    CHECK((byPlan == KILN_SUCCESS || byPlan == KILN_INVALID_ARGUMENT));
    return message;
  }

private:
  kiln_engine *engine;
  kiln_problem problem;
  kiln_plan *plan = nullptr;
};

} // namespace

TEST_CASE("S4: an extent that is not given is the described one, or refused") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = gemmArgs(64);
  args.a.batch_stride = args.d.batch_stride = 1 << 20;
  kiln_range ranges[2] = {KILN_INIT(kiln_range), KILN_INIT(kiln_range)};
  ranges[0].name = "m";
  ranges[0].first = 32;
  ranges[0].last = 300;
  ranges[1].name = "batch";
  ranges[1].first = 1;
  ranges[1].last = 4;
  kiln_problem problem = problemOf(args);
  problem.ranges = ranges;
  problem.range_count = 2;
  GemmArguments arguments;
  int64_t extents[2] = {48, 3};
  auto sizes = [&] {
    GemmParams params = launches.last();
    return std::pair<int64_t, int64_t>(params.m, params.batch);
  };
  using Sizes = std::pair<int64_t, int64_t>;
  {
    BothWays both(engine, problem);
    CHECK(both.launch(arguments) == "");
    CHECK(sizes() == Sizes(64, 1));
    arguments.given.extents = extents;
    arguments.given.extent_count = 1;
    CHECK(both.launch(arguments) == "");
    CHECK(sizes() == Sizes(48, 1));
    arguments.given.extent_count = 2;
    CHECK(both.launch(arguments) == "");
    CHECK(sizes() == Sizes(48, 3));
    extents[0] = 31;
    CHECK(both.launch(arguments) ==
          "arguments: extent 0 is 31, its range is 32 to 300");
  }
  // A size that is not given is not made up.
  for (int64_t described : {0, 31, 301}) {
    args.m = described;
    size_t count = launches.count();
    BothWays both(engine, problem);
    arguments.given.extents = nullptr;
    CHECK(both.launch(arguments) ==
          "arguments: extent 0 is not given, and in the problem " +
              std::to_string(described) + ", its range is 32 to 300");
    CHECK(launches.count() == count);
  }
  kiln_problem text = problemOf("gemm m=40 n=256 k=512 dtype=bf16 layout=NT");
  text.ranges = ranges;
  text.range_count = 1;
  BothWays both(engine, text);
  CHECK(both.launch(arguments) == "");
  CHECK(sizes() == Sizes(40, 1));
}

TEST_CASE(
    "S4: a range with 0 does nothing, or says that nothing is no result") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  void *operands[] = {address(0x100000), address(0x200000)};
  int64_t none = 0;
  kiln_arguments arguments = KILN_INIT(kiln_arguments);
  arguments.operands = operands;
  arguments.operand_count = 2;
  arguments.extents = &none;
  arguments.extent_count = 1;
  kiln_range range = KILN_INIT(kiln_range);
  range.name = "rows";
  range.last = 64;
  auto launch = [&](const char *description) {
    kiln_problem problem = problemOf(description);
    problem.ranges = &range;
    problem.range_count = 1;
    kiln_plan *plan = nullptr;
    REQUIRE(kiln_plan_acquire(engine, &problem, nullptr, &plan) ==
            KILN_SUCCESS);
    kiln_status status = kiln_plan_launch(plan, &arguments, nullptr, nullptr);
    kiln_plan_release(plan);
    CHECK(kiln_run(engine, &problem, &arguments, nullptr, nullptr) == status);
    return status;
  };
  CHECK(launch("reduce op=sum rows=8 cols=64 dtype=fp32") == KILN_SUCCESS);
  // A sum over no value would leave y unchanged.
  CHECK(launch("reduce op=sum rows=8 cols=64 dtype=fp32 axis=all") ==
        KILN_INVALID_ARGUMENT);
  CHECK(statisticsOf(engine).launches == 0);
}

TEST_CASE("S8: a scalar described in device memory needs its address") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = gemmArgs();
  args.alpha_device = args.beta_device =
      static_cast<float *>(address(0x600000));
  BothWays both(engine, problemOf(args));
  GemmArguments arguments;
  double scalars[2] = {2, 3};
  arguments.given.scalars = scalars; // which the described addresses replace
  arguments.given.scalar_count = 2;
  std::string end = " is null: the problem was described with its value in "
                    "device memory";
  CHECK(both.launch(arguments) == "alpha (slot 4)" + end);
  arguments.operands[KILN_GEMM_ALPHA] = address(0x500000);
  CHECK(both.launch(arguments) == "beta (slot 5)" + end);
  arguments.operands[KILN_GEMM_BETA] = address(0x500006);
  CHECK(both.launch(arguments) ==
        "beta (slot 5) at 0x500006 is not aligned to 4 bytes");
  CHECK(launches.count() == 0);
  arguments.operands[KILN_GEMM_BETA] = address(0x500004);
  CHECK(both.launch(arguments) == "");
  CHECK(launches.last().alphaPtr == address(0x500000));
  CHECK(launches.last().betaPtr == address(0x500004));
  arguments.given.operand_count = KILN_GEMM_BETA;
  CHECK(both.launch(arguments) == "beta (slot 5)" + end);
}

TEST_CASE("a scalar that fp32 does not hold is refused") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = gemmArgs();
  BothWays both(engine, problemOf(args));
  GemmArguments arguments;
  double scalars[1] = {2};
  arguments.given.scalars = scalars;
  arguments.given.scalar_count = 1;
  CHECK(both.launch(arguments) == "");
  const int before = launches.count();
  for (double alpha : {1e39, -1e39, 1e-60}) {
    scalars[0] = alpha;
    CHECK(both.launch(arguments) ==
          fmt::format("arguments: scalar 0, alpha, is {}: it has to be finite "
                      "in fp32, and not rounded to 0",
                      alpha));
  }
  CHECK(launches.count() == before);
  scalars[0] = 0;
  CHECK(both.launch(arguments) == "");
}

TEST_CASE("S14e: links that do nothing are not counted as slots") {
  RuntimeFixture fixture;
  LaunchLog<> launches;
  kiln_engine *engine = fixture.engine();
  kiln_pointwise chain[4] = {
      KILN_INIT(kiln_pointwise), KILN_INIT(kiln_pointwise),
      KILN_INIT(kiln_pointwise), KILN_INIT(kiln_pointwise)};
  chain[1].op = KILN_POINTWISE_BIAS;
  chain[3].op = KILN_POINTWISE_RESIDUAL;
  kiln_gemm_args args = gemmArgs();
  args.pointwise = chain;
  args.pointwise_count = 4;
  BothWays both(engine, problemOf(args));
  GemmArguments arguments;
  arguments.operands[KILN_GEMM_POINTWISE] = address(0x700000);
  arguments.operands[KILN_GEMM_POINTWISE + 1] = address(0x800000);
  CHECK(both.launch(arguments) == "");
  CHECK(launches.last().bias == address(0x700000));
  CHECK(launches.last().residual == address(0x800000));
}
