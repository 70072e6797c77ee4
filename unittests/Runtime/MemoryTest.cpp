// The memory that an engine holds: device memory of arenas, modules and trials,
// and host memory of stores. The stand-in driver's books are the truth.
#include "Runtime/RuntimeFixture.h"

#include <cuda.h>

#include <atomic>
#include <thread>

using namespace kiln;
using namespace kiln::testing;

namespace {

kiln_engine *tuner(RuntimeFixture &fixture) {
  judgeTrials();
  return fixture.engine(KILN_MODE_TUNE);
}

} // namespace

TEST_CASE("the books of a tuned first call are the driver's") {
  RuntimeFixture fixture;
  kiln_engine *engine = tuner(fixture);
  const kiln_statistics fresh = statisticsOf(engine);
  CHECK(fresh.module_bytes == 0);
  CHECK(fresh.scratch_peak_bytes == 0);
  CHECK(fresh.arena_peak_bytes == 0);
  // The table of plans has its first index.
  CHECK(fresh.host_bytes > 0);
  CHECK(fresh.host_peak_bytes == fresh.host_bytes);

  const uint64_t before = kilnFakeBytesInUse();
  const kiln_gemm_args args = splitArgs();
  CAPTURE(lastError());
  REQUIRE(tuneValue(engine, args) == KILN_SUCCESS);
  const kiln_statistics tuned = statisticsOf(engine);
  const uint64_t operands =
      uint64_t(args.m * args.k + args.n * args.k + args.m * args.n) * 4;
  CHECK(tuned.trials > 0);
  CHECK(tuned.scratch_peak_bytes >= operands);
  CHECK(tuned.scratch_peak_bytes + tuned.arena_peak_bytes >=
        kilnFakePeakBytes() - before);
  // Trials gave everything back, and arenas are all that is left.
  CHECK(tuned.scratch_bytes == 0);
  CHECK(tuned.arena_bytes == kilnFakeBytesInUse() - before);
  // Many candidates were loaded, of which one was kept beside the tools.
  CHECK(tuned.module_bytes > 0);
  CHECK(tuned.module_peak_bytes > tuned.module_bytes);
  CHECK(tuned.host_bytes > fresh.host_bytes);

  REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  const kiln_statistics launched = statisticsOf(engine);
  CHECK(launched.arena_bytes > 0);
  CHECK(launched.arena_bytes == kilnFakeBytesInUse() - before);
  CHECK(launched.arena_peak_bytes == launched.arena_bytes);
}

TEST_CASE("a peak is reset to what is held, and a hit counts nothing") {
  RuntimeFixture fixture;
  kiln_engine *engine = tuner(fixture);
  const kiln_gemm_args args = splitArgs();
  REQUIRE(tuneValue(engine, args) == KILN_SUCCESS);
  REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  const kiln_statistics before = statisticsOf(engine);
  REQUIRE(kiln_reset_peaks(engine) == KILN_SUCCESS);
  for (int i = 0; i < 10; ++i)
    REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  const kiln_statistics after = statisticsOf(engine);
  CHECK(after.arena_peak_bytes == before.arena_bytes);
  CHECK(after.module_peak_bytes == before.module_bytes);
  CHECK(after.scratch_peak_bytes == 0);
  CHECK(after.host_peak_bytes == before.host_bytes);
  CHECK(after.arena_bytes == before.arena_bytes);
  CHECK(after.module_bytes == before.module_bytes);
  CHECK(after.host_bytes == before.host_bytes);
  CHECK(kiln_reset_peaks(nullptr) == KILN_INVALID_ARGUMENT);
}

TEST_CASE("peaks are reset while threads launch what is new") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  std::atomic<int> running{2};
  auto launchAll = [&](int64_t first) {
    for (int64_t m = first; m < first + 40; ++m) {
      kiln_gemm_args args = gemmArgs(m);
      CHECK(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
    }
    --running;
  };
  bool isSound = true;
  onThreads(fixture, {[&] { launchAll(1); }, [&] { launchAll(1000); },
                      [&] {
                        while (running) {
                          isSound &= kiln_reset_peaks(engine) == KILN_SUCCESS;
                          const kiln_statistics now = statisticsOf(engine);
                          isSound &= now.module_peak_bytes >= now.module_bytes;
                          isSound &= now.host_peak_bytes >= now.host_bytes;
                          isSound &= now.host_bytes < uint64_t(1) << 40;
                        }
                      }});
  CHECK(isSound);
}

TEST_CASE("a destroyed context takes its memory out of the books") {
  RuntimeFixture fixture;
  kiln_engine *engine = tuner(fixture);
  CUcontext context = kilnFakeCreateContext(0);
  const kiln_gemm_args args = splitArgs();
  auto call = [&] {
    auto scope = ScopedContext::push(fixture.gpu.driver(), context);
    REQUIRE(static_cast<bool>(scope));
    CAPTURE(lastError());
    REQUIRE(tuneValue(engine, args) == KILN_SUCCESS);
    REQUIRE(kiln_gemm(engine, &args, nullptr, nullptr) == KILN_SUCCESS);
  };
  call();
  const kiln_statistics one = statisticsOf(engine);
  kilnFakeDestroyContext(context);
  context = kilnFakeCreateContext(0); // the handle comes again
  call();
  const kiln_statistics other = statisticsOf(engine);
  CHECK(other.arena_bytes == one.arena_bytes);
  CHECK(other.scratch_bytes == one.scratch_bytes);
  // The second has the record of the first, and needs no tools of trials.
  CHECK(other.module_bytes > 0);
  CHECK(other.module_bytes < one.module_bytes);
}
