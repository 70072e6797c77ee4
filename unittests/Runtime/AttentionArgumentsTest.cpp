// Arguments of a launch of attention that its problem does not have: scalars,
// and operands that all sequences share.
#include "Runtime/RuntimeFixture.h"

#include "attention/AttentionParams.h"

#include <limits>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// A problem for one kernel, whose parameters the tests read.
constexpr const char *kText =
    "attention batch=2 sq=3 sk=70 heads=4 d=22 dtype=bf16 softcap=30";

struct TextLaunch {
  void *operands[4] = {address(0x100000), address(0x200000), address(0x300000),
                       address(0x400000)};
  double scalars[2] = {0.5, 20};
  kiln_arguments arguments = KILN_INIT(kiln_arguments);

  TextLaunch() {
    arguments.operands = operands;
    arguments.operand_count = 4;
    arguments.scalars = scalars;
    arguments.scalar_count = 2;
  }
  TextLaunch(const TextLaunch &) = delete;
};

} // namespace

TEST_CASE("scalars that kernels of attention do not take are refused") {
  RuntimeFixture fixture;
  LaunchLog<AttentionParams> launches;
  kiln_engine *engine = fixture.engine();
  const kiln_problem problem = problemOf(kText);
  TextLaunch launch;
  kiln_plan *plan = nullptr;
  CAPTURE(lastError());
  REQUIRE(kiln_plan_acquire(engine, &problem, nullptr, &plan) == KILN_SUCCESS);
  auto run = [&] {
    const kiln_status status =
        kiln_run(engine, &problem, &launch.arguments, nullptr, nullptr);
    CHECK(kiln_plan_launch(plan, &launch.arguments, nullptr, nullptr) ==
          status);
    return status;
  };
  REQUIRE(run() == KILN_SUCCESS);
  CHECK(launches.last().scale == 0.5f);
  CHECK(launches.last().softcap == 20.0f);
  const int before = launches.count();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  for (double scale : {-0.5, -1e-30, 1e-60, 1e300, kInfinity, kNaN}) {
    CAPTURE(scale);
    launch.scalars[0] = scale;
    CHECK(run() == KILN_INVALID_ARGUMENT);
    CHECK(lastErrorHas("arguments: scalar 0, scale, is"));
    CHECK(lastErrorHas("it has to be above 0, finite in fp32, and"));
  }
  launch.scalars[0] = 0.25;
  for (double softcap : {0.0, -30.0, kInfinity}) {
    CAPTURE(softcap);
    launch.scalars[1] = softcap;
    CHECK(run() == KILN_INVALID_ARGUMENT);
    CHECK(lastErrorHas("arguments: scalar 1, softcap, is"));
  }
  CHECK(launches.count() == before);
  // The scale of the head dimension, as in a problem.
  launch.scalars[0] = 0;
  launch.scalars[1] = 50;
  REQUIRE(run() == KILN_SUCCESS);
  CHECK(launches.last().scale == doctest::Approx(1 / std::sqrt(22.0)));
  CHECK(launches.last().softcap == 50.0f);
  kiln_plan_release(plan);
}

TEST_CASE("a softcap of a problem without one is not read") {
  RuntimeFixture fixture;
  LaunchLog<AttentionParams> launches;
  const kiln_problem problem =
      problemOf("attention batch=2 sq=3 sk=70 heads=4 d=22 dtype=bf16");
  TextLaunch launch;
  launch.scalars[1] = -5;
  CAPTURE(lastError());
  REQUIRE(kiln_run(fixture.engine(), &problem, &launch.arguments, nullptr,
                   nullptr) == KILN_SUCCESS);
  CHECK(launches.last().softcap == 0);
}

TEST_CASE("sequences of a call may share Q, K or V") {
  RuntimeFixture fixture;
  LaunchLog<AttentionParams> launches;
  kiln_engine *engine = fixture.engine();
  kiln_attention_args args = kiln_attention_args_init();
  args.batch = 2;
  args.queries = 5;
  args.keys = 70;
  args.heads = 4;
  args.head_dim = 22;
  args.q.type = KILN_BF16;
  args.q.data = address(0x100000);
  args.k.data = address(0x200000);
  args.v.data = address(0x300000);
  args.o.data = address(0x400000);
  args.k.batch_stride = args.v.batch_stride = KILN_SHARED_STRIDE;
  auto launch = [&] { return kiln_attention(engine, &args, nullptr, nullptr); };
  CAPTURE(lastError());
  REQUIRE(launch() == KILN_SUCCESS);
  CHECK(launches.last().kStrides.batch == 0);
  CHECK(launches.last().vStrides.batch == 0);
  CHECK(launches.last().qStrides.batch == 5 * 4 * 22);
  const uint64_t misses = statisticsOf(engine).dispatch_misses;
  REQUIRE(launch() == KILN_SUCCESS);
  CHECK(statisticsOf(engine).dispatch_misses == misses);
  CHECK(launches.last().kStrides.batch == 0);
  args.q.batch_stride = KILN_SHARED_STRIDE;
  REQUIRE(launch() == KILN_SUCCESS);
  CHECK(launches.last().qStrides.batch == 0);
  // The same problem as text.
  const kiln_problem problem =
      problemOf("attention batch=2 sq=5 sk=70 heads=4 d=22 dtype=bf16 bsq=-1 "
                "bsk=-1 bsv=-1");
  TextLaunch given;
  given.arguments.scalar_count = 0;
  const uint64_t before = statisticsOf(engine).dispatch_misses;
  REQUIRE(kiln_run(engine, &problem, &given.arguments, nullptr, nullptr) ==
          KILN_SUCCESS);
  CHECK(statisticsOf(engine).dispatch_misses == before);
  CHECK(launches.last().vStrides.batch == 0);
  // Written operands and pages cannot be shared.
  args.o.batch_stride = KILN_SHARED_STRIDE;
  CHECK(launch() == KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("o.batch_stride is -1"));
  args.o.batch_stride = 0;
  args.k.batch_stride = -2;
  CHECK(launch() == KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("k.batch_stride is -2"));
  args.k.batch_stride = KILN_SHARED_STRIDE;
  args.page_table = static_cast<const int32_t *>(address(0x500000));
  args.page_size = 16;
  CHECK(launch() == KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("with pages, let rows of the table be equal"));
}
