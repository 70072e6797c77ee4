#include "Trial/StreamTimer.h"

#include "Driver/DeviceMemory.h"
#include "Driver/Graph.h"
#include "Driver/Launcher.h"
#include "Driver/Module.h"
#include "Driver/Stream.h"
#include "Fakes/FakeCubin.h"
#include "Store/FakeDevice.h"
#include "Trial/GpuTrials.h"
#include "Trial/Sampling.h"
#include "Trial/TrialTools.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

using namespace kiln;
using namespace kiln::fake;

namespace {

/// Options that take all trials, also on a busy machine.
StreamTimerOptions patient() {
  StreamTimerOptions options;
  options.timeLimit = std::chrono::minutes(1);
  return options;
}

/// A kernel of a known duration on the stand-in driver.
struct TimerFixture : FakeDevice {
  llvm::Error launch() {
    ++calls;
    int parameter = 0;
    LaunchSpec spec;
    spec.addKernel(parameter);
    return kiln::launch(*driver, spec, function, stream.handle());
  }
  StreamTiming time(const StreamTimerOptions &options = patient()) {
    return must(timeCalls(
        *driver, stream.handle(), [&] { return launch(); }, options));
  }
  template <class Call> ErrorSummary timeError(const Call &call) {
    auto timing = timeCalls(*driver, stream.handle(), call, {});
    REQUIRE_FALSE(timing);
    return summarize(timing.takeError());
  }

  Module module = must(Module::load(*driver, makeFakeCubin("void work()")));
  CudaFunction function = must(module.function("work"));
  Stream stream = must(Stream::create(*driver));
  unsigned calls = 0;
};

} // namespace

TEST_CASE("a trial has as many calls as make it long, behind one ahead") {
  TimerFixture f;
  kilnFakeSetLaunchNs(2000);
  const StreamTiming timing = f.time();
  CHECK(timing.calls == 200);
  CHECK(timing.device.count == 20);
  CHECK(timing.device.median == doctest::Approx(2000));
  CHECK(timing.meanNs == doctest::Approx(2000));
  CHECK(timing.deviationNs == doctest::Approx(0));
  CHECK(timing.allCalls == 3 + 1 + 8 + 20 * 201);
  CHECK(timing.allCalls == f.calls);
  CHECK(timing.meanWallNs > 0);
  CHECK(timing.wall.median > 0);
  CHECK(timing.meanHostNs > 0);
  CHECK(timing.meanHostNs <= 1.01 * timing.meanWallNs + 1000);
  kilnFakeSetLaunchNs(1e6);
  CHECK(f.time().calls == 1);
  kilnFakeSetLaunchNs(1);
  StreamTimerOptions few = patient();
  few.trials = 2;
  CHECK(f.time(few).calls == 1000);
}

TEST_CASE("the statistics of trials are those of their samples") {
  TimerFixture f;
  double ns = 0;
  StreamTimerOptions options = patient();
  options.warmups = 0;
  options.trials = 5;
  options.calls = 1;
  const StreamTiming timing = must(timeCalls(
      *f.driver, f.stream.handle(),
      [&] {
        kilnFakeSetLaunchNs(ns += 1000);
        return f.launch();
      },
      options));
  CHECK(f.calls == 5); // one call, alone, is each trial
  CHECK(timing.device.count == 5);
  CHECK(timing.device.median == doctest::Approx(3000));
  CHECK(timing.device.ciLow == doctest::Approx(1000));
  CHECK(timing.device.ciHigh == doctest::Approx(5000));
  CHECK(timing.meanNs == doctest::Approx(3000));
  CHECK(timing.minNs == doctest::Approx(1000));
  CHECK(timing.maxNs == doctest::Approx(5000));
  CHECK(timing.deviationNs == doctest::Approx(std::sqrt(2.5e6)));
}

TEST_CASE("one trial is taken, however little time there is") {
  TimerFixture f;
  StreamTimerOptions options;
  options.timeLimit = std::chrono::milliseconds(0);
  CHECK(f.time(options).device.count == 1);
}

TEST_CASE("the L2 is flushed before each trial, in the order of the stream") {
  TimerFixture f;
  StreamTimerOptions options = patient();
  options.flushBytes = 1 << 20;
  options.gauge = std::make_shared<ByteGauge>();
  options.trials = 7;
  const StreamTiming timing = f.time(options);
  CHECK(timing.calls == 1);
  CHECK(timing.allCalls == 3 + 7);
  CHECK(timing.meanWallNs == 0);
  CHECK(timing.meanHostNs > 0);
  CHECK(kilnFakeCallCount("cuMemsetD8Async") == 7);
  CHECK(kilnFakeCallCount("cuMemFree") == 0);
  CHECK(options.gauge->read().peakBytes == 1 << 20);
  CHECK(options.gauge->read().bytes == 0);
  CHECK(kilnFakeBytesInUse() == 0);
}

TEST_CASE("a call that fails ends the timing, and leaves nothing in flight") {
  TimerFixture f;
  kilnFakeSetBlockLimit(60000);
  kilnFakeHoldWork("void work()");
  std::atomic<bool> isReleased{false};
  std::thread releaser([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    isReleased = true;
    kilnFakeReleaseWork();
  });
  const ErrorSummary error = f.timeError([&]() -> llvm::Error {
    if (f.calls == 2)
      return makeError(ErrorCode::Missing, "no third call");
    return f.launch();
  });
  CHECK(isReleased);
  releaser.join();
  CHECK(error.code == ErrorCode::Missing);
  CHECK(error.message == "no third call");
  CHECK(f.calls == 2);
}

TEST_CASE("timing and captures of others do not disturb each other") {
  TimerFixture f;
  Stream other = must(Stream::create(*f.driver));
  std::atomic<int> step{0};
  auto reach = [&](int wanted) {
    while (step < wanted)
      std::this_thread::yield();
  };
  bool isGood = false;
  std::thread capturer([&] {
    auto scope = ScopedContext::push(*f.driver, f.primary->handle());
    isGood = scope && !Graph::beginCapture(*f.driver, other.handle());
    step = 1;
    reach(2);
    auto graph = Graph::endCapture(*f.driver, other.handle());
    isGood &= bool(graph);
    llvm::consumeError(graph.takeError());
  });
  reach(1);
  StreamTimerOptions options = patient();
  options.flushBytes = 4096;
  CHECK(f.time(options).device.count == 20);
  CHECK(f.time().device.count == 20);
  step = 2;
  capturer.join();
  CHECK(isGood);
}

TEST_CASE("a context that dies is told as such") {
  TimerFixture f;
  constexpr int kIllegalAddress = 700;
  const ErrorSummary error = f.timeError([&]() -> llvm::Error {
    if (f.calls == 10)
      kilnFakeKillContext(kIllegalAddress);
    return f.launch();
  });
  CHECK(error.code == ErrorCode::ContextDead);
  CHECK(error.driverCode == kIllegalAddress);
}

TEST_CASE("work that is enqueued once is timed by events") {
  TimerFixture f;
  kilnFakeSetLaunchNs(1500);
  auto twice = [&]() -> llvm::Error {
    if (llvm::Error error = f.launch())
      return error;
    return f.launch();
  };
  CHECK(must(timeOnce(*f.driver, f.stream.handle(), twice)) ==
        doctest::Approx(3000));
}

TEST_SUITE("gpu") {
  TEST_CASE("the timer tells the time that interleaved samples tell") {
    GpuTrials gpu((Registry()));
    const TrialTools tools =
        must(TrialTools::load(*gpu.driver, *gpu.artifacts, gpu.device));
    const Stream stream = must(Stream::create(*gpu.driver));
    constexpr uint64_t kBytes = 512 << 20; // some 0.2 ms on an H200
    const DeviceMemory memory =
        must(DeviceMemory::allocate(*gpu.driver, kBytes));
    FillPatternParams fill;
    fill.data = reinterpret_cast<void *>(memory.address());
    fill.bytes = kBytes;
    auto run = [&](unsigned, CudaStream on) {
      return tools.fillPattern(fill, on);
    };
    SamplingOptions sampling;
    sampling.minSamples = 15;
    const std::vector<SampledTime> sampled = must(measureInterleaved(
        *gpu.driver, stream.handle(), {TimedLaunch(run)}, sampling));
    StreamTimerOptions options;
    options.trials = 50;
    const StreamTiming timing = must(timeCalls(
        *gpu.driver, stream.handle(), [&] { return run(0, stream.handle()); },
        options));
    MESSAGE("timer " << timing.device.median << " ns, sampling "
                     << sampled[0].ns.median << " ns, host "
                     << timing.meanHostNs << " ns, wall " << timing.meanWallNs
                     << " ns");
    CHECK(timing.device.median ==
          doctest::Approx(sampled[0].ns.median).epsilon(0.03));
    CHECK(timing.meanHostNs < timing.device.median);
    CHECK(timing.meanWallNs ==
          doctest::Approx(timing.device.median).epsilon(0.1));
    // Alone on an idle stream a call takes no less.
    options.calls = 1;
    CHECK(must(timeCalls(
                   *gpu.driver, stream.handle(),
                   [&] { return run(0, stream.handle()); }, options))
              .device.median > 0.97 * timing.device.median);
  }
}
