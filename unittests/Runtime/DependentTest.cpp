// Launches that may begin before the kernel ahead of them has ended, through
// the C interface: driver calls, kernel parameters, and refusals.
#include "Driver/DeviceMemory.h"
#include "Runtime/AttentionArgs.h"
#include "Runtime/RuntimeFixture.h"

#include "gemm/RepackConfig.h"
#include "gemm/Sm90GemmParams.h"

#include <cstring>
#include <cuda.h>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// Launches of kernels with plain parameters, as the driver sees them.
class DependentLog {
public:
  struct Seen {
    bool depends;
    int early, splitK;
  };
  DependentLog() {
    kilnFakeOnLaunch("kiln_*", &DependentLog::note, this, sizeof(GemmParams));
  }
  ~DependentLog() {
    kilnFakeOnLaunch(
        "kiln_*", [](KilnFakeLaunch *, void *) {}, nullptr, 0);
  }
  DependentLog(const DependentLog &) = delete;

  Seen last() const {
    REQUIRE(!seen.empty());
    return seen.back();
  }
  std::vector<Seen> seen;

private:
  static void note(KilnFakeLaunch *launch, void *user) {
    GemmParams params;
    std::memcpy(static_cast<void *>(&params), launch->params, sizeof(params));
    static_cast<DependentLog *>(user)->seen.push_back(
        {launch->dependentLaunch != 0, params.early, params.splitK});
  }
};

/// Products that leave SMs idle do not read ahead: the GPU has few.
void limitSms(int count) {
  kilnFakeSetDeviceAttribute(0, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                             count);
}

/// A plain product with weights. D has one element, so whatever config is
/// chosen, no two of its blocks read the same part of an operand.
kiln_gemm_args dependentArgs(int64_t k = 512) {
  kiln_gemm_args args = gemmArgs(1, 1, k);
  makePlain(args);
  args.b.flags = KILN_OPERAND_CONSTANT;
  args.flags = KILN_CALL_DEPENDENT;
  return args;
}

} // namespace

TEST_CASE("a call that may depend says so, and which operands are constant") {
  RuntimeFixture fixture;
  limitSms(1);
  DependentLog log;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = dependentArgs();
  auto launched = [&] {
    CAPTURE(lastError());
    REQUIRE(kiln_gemm(engine, &args, nullptr, fixture.gpu.stream()) ==
            KILN_SUCCESS);
    return log.last();
  };
  CHECK_FALSE(launched().depends); // nothing is ahead
  CHECK(launched().depends);
  CHECK(log.last().early == kEarlyB);
  const int compiles = fixture.nvrtc.compileCount();
  args.a.flags = KILN_OPERAND_CONSTANT;
  CHECK(launched().early == (kEarlyA | kEarlyB));
  args.a.flags = args.b.flags = 0;
  CHECK_FALSE(launched().depends); // there is nothing to read before
  CHECK(log.last().early == 0);
  // Without the flag constant operands are like others.
  args = dependentArgs();
  args.flags = 0;
  CHECK_FALSE(launched().depends);
  CHECK(log.last().early == 0);
  // One kernel and one plan serve all of them.
  CHECK(fixture.nvrtc.compileCount() == compiles);
  CHECK(statisticsOf(engine).dispatch_misses == 1);
}

TEST_CASE("a plan's launch may depend") {
  RuntimeFixture fixture;
  limitSms(1);
  DependentLog log;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = dependentArgs();
  kiln_problem problem = problemOf(args);
  kiln_plan *plan = nullptr;
  REQUIRE(kiln_plan_acquire(engine, &problem, nullptr, &plan) == KILN_SUCCESS);
  for (bool depends : {false, true}) { // nothing is ahead of the first
    REQUIRE(kiln_plan_launch_call(plan, KILN_FAMILY_GEMM, &args, nullptr,
                                  nullptr) == KILN_SUCCESS);
    CHECK(log.last().depends == depends);
  }
  CHECK(log.last().early == kEarlyB);

  // The description names the constant operands, but not how to launch.
  void *operands[] = {args.a.data, args.b.data, args.c.data, args.d.data};
  kiln_arguments arguments = KILN_INIT(kiln_arguments);
  arguments.operands = operands;
  arguments.operand_count = 4;
  REQUIRE(kiln_plan_launch(plan, &arguments, nullptr, nullptr) == KILN_SUCCESS);
  CHECK_FALSE(log.last().depends);
  CHECK(log.last().early == 0);
  arguments.flags = KILN_CALL_DEPENDENT;
  REQUIRE(kiln_plan_launch(plan, &arguments, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(log.last().depends);
  CHECK(log.last().early == kEarlyB);
  arguments.constants = uint64_t(1) << KILN_GEMM_A;
  REQUIRE(kiln_run(engine, &problem, &arguments, nullptr, nullptr) ==
          KILN_SUCCESS);
  CHECK(log.last().early == (kEarlyA | kEarlyB));

  arguments.flags = KILN_CALL_DEPENDENT | 1;
  CHECK(kiln_plan_launch(plan, &arguments, nullptr, nullptr) ==
        KILN_UNSUPPORTED);
  CHECK(lastErrorHas("flags 0x1 are unknown"));
  arguments.flags = 0;
  arguments.reserved0 = 1;
  CHECK(kiln_plan_launch(plan, &arguments, nullptr, nullptr) ==
        KILN_UNSUPPORTED);
  kiln_plan_release(plan);
}

TEST_CASE("flags that nobody knows are refused beside the one that is") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = dependentArgs();
  args.flags = KILN_CALL_DEPENDENT | 1;
  CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_UNSUPPORTED);
  CHECK(lastErrorHas("flags 0x1 are unknown"));
  args.flags = KILN_CALL_DEPENDENT << 1;
  CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_UNSUPPORTED);
  CHECK(lastErrorHas("flags 0x20000 are unknown"));
}

TEST_CASE("a launch whose workspace is cleared first is ordered in full") {
  RuntimeFixture fixture;
  limitSms(4);
  DependentLog log;
  kiln_engine *engine = fixture.engine();
  kiln_gemm_args args = dependentArgs(65536);
  args.layout = KILN_LAYOUT_TN;        // no gemv, which splits no k
  for (bool depends : {false, true}) { // nothing is ahead of the first
    REQUIRE(kiln_gemm(engine, &args, nullptr, fixture.gpu.stream()) ==
            KILN_SUCCESS);
    CHECK(log.last().depends == depends); // an arena is zero
  }
  CHECK(log.last().early == kEarlyB);
  CHECK(log.last().splitK > 1);
  // This workspace is not known to be zeroed.
  auto allocated =
      DeviceMemory::allocate(fixture.gpu.driver(), uint64_t(256) << 20);
  REQUIRE(allocated);
  DeviceMemory memory = std::move(*allocated);
  kiln_workspace workspace = KILN_INIT(kiln_workspace);
  workspace.data = reinterpret_cast<void *>(memory.address());
  workspace.bytes = memory.bytes();
  REQUIRE(kiln_gemm(engine, &args, &workspace, fixture.gpu.stream()) ==
          KILN_SUCCESS);
  CHECK_FALSE(log.last().depends);
}
