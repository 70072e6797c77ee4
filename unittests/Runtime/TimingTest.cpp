// kiln_time_calls over the stand-in driver, whose events tell virtual time.
#include "Driver/Graph.h"
#include "Runtime/RuntimeFixture.h"

#include <cuda.h>

#include <cstring>

using namespace kiln;
using namespace kiln::testing;

extern "C" int kilnTimesInC(kiln_engine *engine); // InitialisersTest.c

namespace {

/// Options that take all trials, also on a busy machine.
kiln_timing_options patient() {
  kiln_timing_options options = KILN_INIT(kiln_timing_options);
  options.time_limit_ms = 60000;
  return options;
}

/// Calls a product of one kernel, until a call of a number fails.
struct TimedGemm {
  kiln_engine *engine;
  kiln_gemm_args args = gemmArgs();
  int calls = 0;
  int failsAt = 0; ///< 0: never
  kiln_status failure = KILN_SUCCESS;

  static kiln_status call(void *user, kiln_stream stream) {
    auto &self = *static_cast<TimedGemm *>(user);
    if (++self.calls == self.failsAt)
      return self.failure;
    return kiln_gemm(self.engine, &self.args, nullptr, stream);
  }
  kiln_status time(kiln_timing &timing, kiln_stream stream,
                   const kiln_timing_options *options = nullptr) {
    return kiln_time_calls(engine, &TimedGemm::call, this, stream, options,
                           &timing);
  }
};

} // namespace

TEST_CASE("a call is timed on the device and on the host") {
  RuntimeFixture fixture;
  TimedGemm gemm{fixture.engine()};
  kilnFakeSetLaunchNs(4000);
  kiln_timing timing = KILN_INIT(kiln_timing);
  CAPTURE(lastError());
  kiln_timing_options options = patient();
  REQUIRE(gemm.time(timing, fixture.gpu.stream(), &options) == KILN_SUCCESS);
  CHECK(timing.trials == 20);
  CHECK(timing.calls_per_trial == 100);
  CHECK(timing.calls == uint64_t(gemm.calls));
  CHECK(timing.median_us == doctest::Approx(4));
  CHECK(timing.median_low_us == doctest::Approx(4));
  CHECK(timing.median_high_us == doctest::Approx(4));
  CHECK(timing.mean_us == doctest::Approx(4));
  CHECK(timing.min_us == doctest::Approx(4));
  CHECK(timing.max_us == doctest::Approx(4));
  CHECK(timing.deviation_us == doctest::Approx(0));
  CHECK(timing.host_us > 0);
  CHECK(timing.wall_us > 0);
  CHECK(timing.wall_median_us > 0);
  CHECK(statisticsOf(gemm.engine).launches == timing.calls);

  options.warmups = -1;
  options.trials = 3;
  options.calls_per_trial = 1;
  gemm.calls = 0;
  REQUIRE(gemm.time(timing, nullptr, &options) == KILN_SUCCESS);
  CHECK(gemm.calls == 3);
  CHECK(timing.trials == 3);
  CHECK(timing.calls_per_trial == 1);
}

TEST_CASE("a program in C times its calls") {
  RuntimeFixture fixture;
  CHECK(kilnTimesInC(fixture.engine()));
}

TEST_CASE(
    "a flush empties the L2 before each trial and gives its memory back") {
  RuntimeFixture fixture;
  TimedGemm gemm{fixture.engine()};
  kiln_timing_options options = patient();
  options.flags = KILN_TIMING_FLUSH_L2;
  options.trials = 4;
  kiln_timing timing = KILN_INIT(kiln_timing);
  CAPTURE(lastError());
  REQUIRE(gemm.time(timing, fixture.gpu.stream(), &options) == KILN_SUCCESS);
  CHECK(timing.trials == 4);
  CHECK(timing.calls_per_trial == 1);
  CHECK(timing.wall_us == 0);
  CHECK(timing.host_us > 0);
  const kiln_statistics after = statisticsOf(gemm.engine);
  CHECK(after.scratch_bytes == 0);
  constexpr uint64_t kL2OfH200 = 60 << 20;
  CHECK(after.scratch_peak_bytes == 2 * kL2OfH200);
}

TEST_CASE("a stream in capture is refused before anything is called") {
  RuntimeFixture fixture;
  TimedGemm gemm{fixture.engine()};
  const Driver &driver = fixture.gpu.driver();
  REQUIRE(!Graph::beginCapture(driver, fixture.gpu.stream()));
  kiln_timing timing = KILN_INIT(kiln_timing);
  CHECK(gemm.time(timing, fixture.gpu.stream()) == KILN_NOT_PREPARED);
  CHECK(gemm.calls == 0);
  auto graph = Graph::endCapture(driver, fixture.gpu.stream());
  REQUIRE(static_cast<bool>(graph)); // it is still good
  CHECK(graph->nodeCount() == 0);
}

TEST_CASE(
    "a call that fails gives its status, and its message if there is one") {
  RuntimeFixture fixture;
  TimedGemm gemm{fixture.engine()};
  kiln_timing timing = KILN_INIT(kiln_timing);
  // An earlier message is not taken for that of a foreign status.
  CHECK(kiln_gemm(gemm.engine, nullptr, nullptr, nullptr) ==
        KILN_INVALID_ARGUMENT);
  gemm.failsAt = 7;
  gemm.failure = KILN_IO;
  CHECK(gemm.time(timing, fixture.gpu.stream()) == KILN_IO);
  CHECK(gemm.calls == 7);
  CHECK(lastError() == "the timed call returned the status 160 (io)");
  gemm.failsAt = 0;
  gemm.args.k = -1;
  CHECK(gemm.time(timing, fixture.gpu.stream()) == KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("the timed call: "));
  CHECK(lastErrorHas("k is -1"));
}

TEST_CASE("options that are not sound are refused by name") {
  RuntimeFixture fixture;
  TimedGemm gemm{fixture.engine()};
  auto refusal = [&](auto set) {
    kiln_timing_options options = KILN_INIT(kiln_timing_options);
    set(options);
    kiln_timing timing = KILN_INIT(kiln_timing);
    return gemm.time(timing, fixture.gpu.stream(), &options);
  };
  using Options = kiln_timing_options;
  CHECK(refusal([](Options &o) { o.flags = 2; }) == KILN_UNSUPPORTED);
  CHECK(refusal([](Options &o) { o.reserved0 = 1; }) == KILN_UNSUPPORTED);
  CHECK(refusal([](Options &o) { o.reserved[4] = 1; }) == KILN_UNSUPPORTED);
  CHECK(refusal([](Options &o) { o.struct_size = 8; }) ==
        KILN_INVALID_ARGUMENT);
  CHECK(refusal([](Options &o) { o.trials = 100001; }) ==
        KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("100001 trials of 0 calls"));
  CHECK(refusal([](Options &o) { o.calls_per_trial = 100001; }) ==
        KILN_INVALID_ARGUMENT);
  CHECK(refusal([](Options &o) { o.warmups = 100001; }) ==
        KILN_INVALID_ARGUMENT);
  CHECK(refusal([](Options &o) { o.time_limit_ms = -1; }) ==
        KILN_INVALID_ARGUMENT);
  CHECK(gemm.calls == 0);

  kiln_timing timing = KILN_INIT(kiln_timing);
  CHECK(kiln_time_calls(nullptr, &TimedGemm::call, &gemm, nullptr, nullptr,
                        &timing) == KILN_INVALID_ARGUMENT);
  CHECK(kiln_time_calls(gemm.engine, nullptr, &gemm, nullptr, nullptr,
                        &timing) == KILN_INVALID_ARGUMENT);
  CHECK(kiln_time_calls(gemm.engine, &TimedGemm::call, &gemm, nullptr, nullptr,
                        nullptr) == KILN_INVALID_ARGUMENT);
  timing.struct_size = 4;
  CHECK(gemm.time(timing, nullptr) == KILN_INVALID_ARGUMENT);
}

TEST_CASE("the timing of a context that dies ends with its death") {
  RuntimeFixture fixture;
  TimedGemm gemm{fixture.engine()};
  kiln_timing timing = KILN_INIT(kiln_timing);
  REQUIRE(gemm.time(timing, fixture.gpu.stream()) == KILN_SUCCESS);
  kilnFakeKillContext(CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(gemm.time(timing, fixture.gpu.stream()) == KILN_CONTEXT_DEAD);
  CHECK(kiln_last_driver_error() == CUDA_ERROR_ILLEGAL_ADDRESS);
}
