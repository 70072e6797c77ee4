// Plans that replace others and need more workspace than callers and their
// streams were told to have.
#include "Driver/DeviceMemory.h"
#include "Runtime/BackgroundFixture.h"
#include "Runtime/Captures.h"
#include "Runtime/WaitingFixture.h"

#include <cuda.h>

#include <algorithm>
#include <atomic>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// Engines whose trials find split-K kernels fastest, which need a workspace.
struct SplittingFixture : BackgroundFixture {
  SplittingFixture() {
    kilnFakeOnLaunch(
        "kiln_*",
        [](KilnFakeLaunch *launch, void *) {
          GemmParams params;
          std::memcpy(static_cast<void *>(&params), launch->params,
                      sizeof params);
          launch->durationNs = 20000.0 / std::max<double>(params.splitK, 1);
        },
        nullptr, sizeof(GemmParams));
  }
  kiln_status capture(kiln_engine *engine, const kiln_gemm_args &args,
                      kiln_stream stream) {
    REQUIRE(beginCapture(*this, stream));
    const kiln_status status = launch(engine, args, stream);
    CAPTURE(lastError());
    CHECK(endCapture(*this, stream) > 0);
    return status;
  }
  /// Launches in \p bytes of the caller's memory.
  kiln_status launchWithin(uint64_t bytes, kiln_engine *engine,
                           const kiln_gemm_args &args, kiln_stream stream) {
    auto memory =
        DeviceMemory::allocate(gpu.driver(), std::max<uint64_t>(bytes, 1));
    REQUIRE(static_cast<bool>(memory));
    kiln_workspace workspace = KILN_INIT(kiln_workspace);
    workspace.data = address(memory->address());
    workspace.bytes = bytes;
    return kiln_gemm(engine, &args, &workspace, stream);
  }
};

kiln_gemm_args plainArgs(int64_t m, int64_t n, int64_t k) {
  kiln_gemm_args args = gemmArgs(m, n, k);
  makePlain(args);
  return args;
}

kiln_prepare_options onStream(kiln_stream &stream) {
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.streams = &stream;
  options.stream_count = 1;
  return options;
}

} // namespace

TEST_CASE("background: what was prepared is captured, whatever is swapped in") {
  SplittingFixture fixture;
  kiln_engine *engine = fixture.background();
  kiln_stream stream = fixture.gpu.stream();
  const kiln_prepare_options options = onStream(stream);
  int outgrown = 0;
  for (const kiln_gemm_args &args :
       {plainArgs(512, 1024, 1024), plainArgs(64, 2048, 2048)}) {
    REQUIRE(kiln_background_pause(engine) == KILN_SUCCESS);
    const kiln_problem problem = problemOf(args);
    REQUIRE(kiln_prepare(engine, &problem, 1, &options, nullptr) ==
            KILN_SUCCESS);
    const uint64_t told = queryOf(engine, problem).workspace.bytes;
    CHECK(fixture.capture(engine, args, stream) == KILN_SUCCESS);
    REQUIRE(kiln_background_resume(engine) == KILN_SUCCESS);
    fixture.awaitQuiet(engine);
    outgrown += queryOf(engine, problem).workspace.bytes > told;
    CHECK(fixture.capture(engine, args, stream) == KILN_SUCCESS);
    // A launch in as much of the caller's memory as was told.
    CHECK(fixture.launchWithin(told, engine, args, stream) == KILN_SUCCESS);
  }
  CHECK(outgrown > 0);
}

TEST_CASE(
    "values of a prepared range are captured though a wider one takes its "
    "place") {
  SplittingFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_stream stream = fixture.gpu.stream();
  const kiln_prepare_options options = onStream(stream);
  kiln_range range = rangeOf("m", 1, 64);
  const kiln_gemm_args args = plainArgs(64, 2048, 8192);
  kiln_problem problem = problemOf(args);
  problem.ranges = &range;
  problem.range_count = 1;
  REQUIRE(kiln_prepare(engine, &problem, 1, &options, nullptr) == KILN_SUCCESS);
  const uint64_t told = queryOf(engine, problem).workspace.bytes;
  range.last = 8192;
  REQUIRE(kiln_prepare(engine, &problem, 1, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(queryOf(engine, problem).workspace.bytes > told);
  int outgrown = 0;
  for (int64_t m : {1, 16, 40, 64}) { // which were never launched
    CAPTURE(m);
    const kiln_gemm_args value = plainArgs(m, 2048, 8192);
    outgrown += queryOf(engine, problemOf(value)).workspace.bytes > told;
    CHECK(fixture.capture(engine, value, stream) == KILN_SUCCESS);
  }
  CHECK(outgrown > 0);
}

TEST_CASE("a range that others prepare takes no room from what was captured") {
  SplittingFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_stream stream = fixture.gpu.stream();
  const kiln_prepare_options options = onStream(stream);
  const kiln_range range = rangeOf("m", 1, 8192);
  int outgrown = 0;
  for (bool isPrepared : {true, false}) {
    // Each case is a layer of its own.
    const kiln_gemm_args args = plainArgs(16, isPrepared ? 1024 : 512, 8192);
    const kiln_problem alone = problemOf(args);
    if (isPrepared)
      REQUIRE(kiln_prepare(engine, &alone, 1, &options, nullptr) ==
              KILN_SUCCESS);
    else
      REQUIRE(launch(engine, args, stream) == KILN_SUCCESS);
    CHECK(fixture.capture(engine, args, stream) == KILN_SUCCESS);
    const uint64_t told = queryOf(engine, alone).workspace.bytes;
    kiln_problem all = alone;
    all.ranges = &range;
    all.range_count = 1;
    REQUIRE(kiln_prepare(engine, &all, 1, nullptr, nullptr) == KILN_SUCCESS);
    outgrown += queryOf(engine, alone).workspace.bytes > told;
    CHECK(fixture.capture(engine, args, stream) == KILN_SUCCESS);
  }
  CHECK(outgrown > 0);
}

TEST_CASE("a value that was captured is captured again once its layer is "
          "measured") {
  int outgrown = 0;
  for (auto [m, n, k] : {std::array<int64_t, 3>{512, 1024, 1024},
                         {1000, 512, 4096},
                         {300, 512, 2048}}) {
    CAPTURE(m);
    SplittingFixture fixture;
    kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
    kiln_stream stream = fixture.gpu.stream();
    const kiln_gemm_args args = plainArgs(m, n, k);
    // While another layer is in work, it gets the estimator's choice.
    kiln_status beside = KILN_INTERNAL;
    prepareWith(engine, problemOf(plainArgs(64, 256, 256)),
                [&] { beside = launch(engine, args, stream); });
    REQUIRE(beside == KILN_SUCCESS);
    const uint64_t told = queryOf(engine, problemOf(args)).workspace.bytes;
    CHECK(fixture.capture(engine, args, stream) == KILN_SUCCESS);
    const kiln_gemm_args next = plainArgs(m - 1, n, k);
    REQUIRE(launch(engine, next) == KILN_SUCCESS);
    outgrown += queryOf(engine, problemOf(next)).workspace.bytes > told;
    CHECK(fixture.capture(engine, args, stream) == KILN_SUCCESS);
    CHECK(fixture.launchWithin(told, engine, args, stream) == KILN_SUCCESS);
  }
  CHECK(outgrown > 0);
}

TEST_CASE("values of a prepared range are captured while others widen it") {
  SplittingFixture fixture;
  kiln_engine *engine = fixture.engine();
  kiln_stream stream = fixture.gpu.stream();
  const kiln_prepare_options options = onStream(stream);
  kiln_range range = rangeOf("m", 1, 64);
  const kiln_gemm_args args = plainArgs(64, 2048, 8192);
  kiln_problem problem = problemOf(args);
  problem.ranges = &range;
  problem.range_count = 1;
  REQUIRE(kiln_prepare(engine, &problem, 1, &options, nullptr) == KILN_SUCCESS);
  const uint64_t told = queryOf(engine, problem).workspace.bytes;
  std::atomic<bool> isDone{false};
  std::atomic<int> failures{0};
  std::thread other = onThread(fixture, [&] {
    for (int64_t last = 128; last <= 8192; last *= 4) {
      kiln_range wider = rangeOf("m", 1, last);
      kiln_problem all = problemOf(args);
      all.ranges = &wider;
      all.range_count = 1;
      failures +=
          kiln_prepare(engine, &all, 1, nullptr, nullptr) != KILN_SUCCESS;
    }
    isDone = true;
  });
  bool isLast = false;
  for (int64_t m = 1; !isLast; m = m % 64 + 1) {
    CAPTURE(m);
    isLast = isDone && m == 64;
    CHECK(fixture.capture(engine, plainArgs(m, 2048, 8192), stream) ==
          KILN_SUCCESS);
  }
  other.join();
  CHECK(failures == 0);
  CHECK(queryOf(engine, problem).workspace.bytes > told);
}

TEST_CASE("a value of a prepared range is captured though it was measured "
          "since") {
  SplittingFixture fixture;
  kiln_stream stream = fixture.gpu.stream();
  const kiln_prepare_options options = onStream(stream);
  const kiln_range range = rangeOf("m", 1, 512);
  auto refuseTrials = [](CUresult result) {
    kilnFakeFailCall("cuStreamCreate", 1, result, KilnFakeAlways);
  };
  int outgrown = 0;
  for (int64_t n : {512, 1024, 2048}) {
    kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
    const kiln_gemm_args args = plainArgs(512, n, 1024);
    kiln_problem all = problemOf(args);
    all.ranges = &range;
    all.range_count = 1;
    // Without trials it is the estimator's choice, which splits less.
    refuseTrials(CUDA_ERROR_OUT_OF_MEMORY);
    REQUIRE(kiln_prepare(engine, &all, 1, &options, nullptr) == KILN_SUCCESS);
    refuseTrials(CUDA_SUCCESS);
    const uint64_t told = queryOf(engine, all).workspace.bytes;
    for (int64_t m : {300, 512}) {
      CAPTURE(m);
      const kiln_gemm_args value = plainArgs(m, n, 1024);
      REQUIRE(tuneValue(engine, value) == KILN_SUCCESS);
      outgrown += queryOf(engine, problemOf(value)).workspace.bytes > told;
      CHECK(fixture.capture(engine, value, stream) == KILN_SUCCESS);
      CHECK(fixture.launchWithin(told, engine, value, stream) == KILN_SUCCESS);
    }
    // With the stream prepared again there is room for these as well.
    REQUIRE(kiln_prepare(engine, &all, 1, &options, nullptr) == KILN_SUCCESS);
    CHECK(fixture.capture(engine, args, stream) == KILN_SUCCESS);
  }
  CHECK(outgrown > 0);
}

TEST_CASE("background: a wider range has room for what goes before it") {
  SplittingFixture fixture;
  kiln_engine *engine = fixture.background();
  kiln_stream stream = fixture.gpu.stream();
  const kiln_prepare_options options = onStream(stream);
  kiln_range range = rangeOf("m", 1, 512);
  const kiln_gemm_args args = plainArgs(512, 1024, 1024);
  kiln_problem problem = problemOf(args);
  problem.ranges = &range;
  problem.range_count = 1;
  REQUIRE(kiln_prepare(engine, &problem, 1, nullptr, nullptr) == KILN_SUCCESS);
  fixture.awaitQuiet(engine);
  const uint64_t measured = queryOf(engine, problem).workspace.bytes;
  CHECK(measured > 0);
  REQUIRE(kiln_background_pause(engine) == KILN_SUCCESS);
  range.last = 600;
  REQUIRE(kiln_prepare(engine, &problem, 1, &options, nullptr) == KILN_SUCCESS);
  const uint64_t told = queryOf(engine, problem).workspace.bytes;
  CHECK(told >= measured);
  for (int64_t m : {16, 512, 600}) {
    CAPTURE(m);
    const kiln_gemm_args value = plainArgs(m, 1024, 1024);
    CHECK(fixture.capture(engine, value, stream) == KILN_SUCCESS);
    CHECK(fixture.launchWithin(told, engine, value, stream) == KILN_SUCCESS);
  }
}
