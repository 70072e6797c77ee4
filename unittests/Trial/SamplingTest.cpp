#include "Trial/Sampling.h"

#include "Driver/DeviceMemory.h"
#include "Driver/Stream.h"
#include "Store/FakeDevice.h"
#include "Store/LoadedPlan.h"
#include "Store/StoreFixture.h"
#include "Trial/FakeTrials.h"

#include <set>

using namespace kiln;
using namespace kiln::fake;

namespace {

constexpr int kNotReady = 600;

/// Plans of the fake family over a few copies of its operands.
struct SamplingFixture : FakeDevice, StoreFixture {
  static constexpr uint64_t kBytes = 64 * 64 * 4;
  static constexpr unsigned kCopies = 4;

  SamplingFixture()
      : loader(*driver), stream(must(Stream::create(*driver))),
        memory(must(DeviceMemory::allocate(*driver, 2 * kCopies * kBytes))) {}

  TimedLaunch launcher(llvm::StringRef config, double ns) {
    trials.durations[config.str()] = ns;
    auto plan = must(obtainPlan(
        *artifacts, loader, makePlan(family, problem, config, device), 132));
    return [this, plan](unsigned copy, CudaStream target) -> llvm::Error {
      return plan->launch(argumentsOf(copy), {}, target);
    };
  }
  /// The same, which also says what it launches.
  TimedLaunch known(llvm::StringRef config, double ns) {
    TimedLaunch launch = launcher(config, ns);
    auto plan = must(obtainPlan(
        *artifacts, loader, makePlan(family, problem, config, device), 132));
    return TimedLaunch(launch.run,
                       [this, plan](unsigned copy, GraphBuilder &graph) {
                         return plan->addTo(graph, argumentsOf(copy), {});
                       });
  }
  Arguments argumentsOf(unsigned copy) const {
    Arguments arguments = family.defaultArguments(problem);
    DeviceAddress base = memory.address() + 2 * copy * kBytes;
    arguments.operands[kOperandX].address = base;
    arguments.operands[kOperandY].address = base + kBytes;
    return arguments;
  }
  std::vector<SampledTime> measure(std::vector<TimedLaunch> launchers) {
    return must(
        measureInterleaved(*driver, stream.handle(), launchers, options));
  }
  ErrorCode measureError(std::vector<TimedLaunch> launchers) {
    auto times =
        measureInterleaved(*driver, stream.handle(), launchers, options);
    REQUIRE_FALSE(times);
    return summarize(times.takeError()).code;
  }

  FakeTrials trials;
  KernelLoader loader;
  Stream stream;
  DeviceMemory memory;
  SamplingOptions options;
};

} // namespace

TEST_CASE("short launches are sampled in graphs of many, over all copies") {
  SamplingFixture f;
  f.options.copies = SamplingFixture::kCopies;
  auto times = f.measure({f.launcher("fast.t64", 2000)});
  REQUIRE(times.size() == 1);
  CHECK(times[0].ns.median == doctest::Approx(2000));
  CHECK(times[0].launches >= 16);
  CHECK(times[0].launches % SamplingFixture::kCopies == 0);
  CHECK(times[0].ns.count == f.options.minSamples);
  CHECK(kilnFakeCallCount("cuStreamBeginCapture") == 1);
  CHECK(kilnFakeCallCount("cuGraphLaunch") == f.options.minSamples + 1);
  std::set<DeviceAddress> inputs(f.trials.inputs.begin(),
                                 f.trials.inputs.end());
  CHECK(inputs.size() == SamplingFixture::kCopies);
  // The last launch of a sample and the first of the next use other copies.
  const auto &all = f.trials.inputs;
  CHECK(all[all.size() - times[0].launches] != all.back());
}

TEST_CASE(
    "S3: what says what it launches is sampled in graphs, but not captured") {
  SamplingFixture f;
  f.options.copies = SamplingFixture::kCopies;
  auto times = f.measure({f.known("fast.t64", 2000), f.known("pair.t64", 900)});
  for (const SampledTime &time : times) {
    CHECK(time.error.code == ErrorCode::Success);
    CHECK(time.launches >= 16);
    CHECK(time.launches % SamplingFixture::kCopies == 0);
  }
  CHECK(times[0].ns.median == doctest::Approx(2000));
  CHECK(times[1].ns.median == doctest::Approx(1800)); // two steps
  CHECK(kilnFakeCallCount("cuStreamBeginCapture") == 0);
  CHECK(kilnFakeCallCount("cuGraphInstantiateWithFlags") == 2);
  std::set<DeviceAddress> inputs(f.trials.inputs.begin(),
                                 f.trials.inputs.end());
  CHECK(inputs.size() == SamplingFixture::kCopies);
}

TEST_CASE("a host that is late once does not make the samples small") {
  SamplingFixture f;
  f.options.copies = SamplingFixture::kCopies;
  const unsigned expected =
      f.measure({f.launcher("fast.t64", 2000)})[0].launches;
  TimedLaunch fast = f.launcher("fast.t64", 2000);
  TimedLaunch late = f.launcher("plain.t64", 60e3);
  // One launch alone, then a probe of four that takes thirty times as long.
  int launched = 0;
  TimedLaunch disturbed = [&](unsigned copy, CudaStream target) {
    const bool isLate = launched > 0 && launched <= 4;
    ++launched;
    return (isLate ? late : fast).run(copy, target);
  };
  CHECK(f.measure({disturbed})[0].launches == expected);
}

TEST_CASE("long launches are sampled without a graph") {
  SamplingFixture f;
  f.options.copies = SamplingFixture::kCopies;
  auto times = f.measure({f.launcher("fast.t64", 3e6)});
  CHECK(times[0].launches == 1);
  CHECK(times[0].ns.median == doctest::Approx(3e6));
  CHECK(kilnFakeCallCount("cuStreamBeginCapture") == 0);
  // One alone, then one a sample, each over the next copy.
  REQUIRE(f.trials.inputs.size() == 1 + f.options.minSamples);
  for (size_t i = 1; i < f.trials.inputs.size(); ++i)
    CHECK(f.trials.inputs[i] != f.trials.inputs[i - 1]);
}

TEST_CASE("with a flush no copy is used twice in a sample") {
  SamplingFixture f;
  f.options.copies = SamplingFixture::kCopies;
  int flushes = 0;
  f.options.flush = [&](CudaStream) {
    ++flushes;
    kilnFakeAdvanceClock(1e6); // must not be counted
    return llvm::Error::success();
  };
  auto times = f.measure({f.launcher("fast.t64", 2000)});
  CHECK(times[0].launches == SamplingFixture::kCopies);
  CHECK(times[0].ns.median == doctest::Approx(2000));
  CHECK(flushes == static_cast<int>(times[0].ns.count));
}

TEST_CASE("launchers take turns, and who is slower is dropped early") {
  SamplingFixture f;
  f.options.minSamples = f.options.maxSamples = 9;
  auto times =
      f.measure({f.launcher("fast.t64", 5e5), f.launcher("fast.t32", 6e5)});
  CHECK(times[0].ns.count == 9);
  CHECK_FALSE(times[0].dropped);
  CHECK(times[1].dropped);
  CHECK(times[1].ns.count == 3);
  CHECK(times[1].ns.median == doctest::Approx(6e5));
  f.trials.runs.clear();
  f.options.dropSlower = false;
  times = f.measure({f.launcher("fast.t64", 5e5), f.launcher("fast.t32", 6e5)});
  CHECK(times[1].ns.count == 9);
  // Neither runs all its samples in one go.
  size_t turns = 0;
  for (size_t i = 1; i < f.trials.runs.size(); ++i)
    turns += f.trials.runs[i] != f.trials.runs[i - 1];
  CHECK(turns >= 9);
}

TEST_CASE("a clock that drops meets all launchers alike") {
  SamplingFixture f;
  f.options.minSamples = f.options.maxSamples = 6;
  f.options.dropSlower = false;
  int round = 0;
  f.options.warm = [&](CudaStream) {
    f.trials.clockRatio = round++ % 3 == 2 ? 1.5 : 1;
    return llvm::Error::success();
  };
  auto times =
      f.measure({f.launcher("fast.t64", 5e5), f.launcher("fast.t32", 5.2e5)});
  CHECK(round == 6);
  CHECK(times[0].ns.ciHigh == doctest::Approx(5e5));
  CHECK(times[1].ns.ciHigh == doctest::Approx(5.2e5));
}

TEST_CASE("sampling goes on while an interval is wide") {
  SamplingFixture f;
  f.options.maxSamples = 12;
  int round = 0;
  f.options.warm = [&](CudaStream) {
    f.trials.clockRatio = 1 + 0.1 * (round++ % 2);
    return llvm::Error::success();
  };
  CHECK(f.measure({f.launcher("fast.t64", 5e5)})[0].ns.count == 12);
}

TEST_CASE("a launcher that fails stops no other") {
  SamplingFixture f;
  TimedLaunch broken = [](unsigned, CudaStream) {
    return makeError(ErrorCode::Unsupported, "does not fit");
  };
  TimedLaunch notInGraphs = [&, fine = f.launcher("fast.t32", 2000), calls = 0](
                                unsigned copy, CudaStream stream) mutable {
    if (++calls > 8)
      return makeError(ErrorCode::DriverError, "not in a graph");
    return fine(copy, stream);
  };
  auto times = f.measure({broken, f.launcher("fast.t64", 2000), notInGraphs});
  CHECK(times[0].error.code == ErrorCode::Unsupported);
  CHECK(times[0].ns.count == 0);
  CHECK(times[1].error.code == ErrorCode::Success);
  CHECK(times[1].ns.count == f.options.minSamples);
  CHECK(times[2].error.code == ErrorCode::DriverError);
  CHECK(times[2].ns.count == 0);
}

TEST_CASE("no round begins after the deadline") {
  SamplingFixture f;
  f.options.deadline = std::chrono::steady_clock::now();
  auto times = f.measure({f.launcher("fast.t64", 2000)});
  CHECK(times[0].ns.count == 0);
  CHECK(times[0].error.code == ErrorCode::Success);
  CHECK(f.trials.runs.empty());
}

TEST_CASE("a dead context ends all") {
  SamplingFixture f;
  f.trials.misdeeds["fast.t64"] = Misdeed::KillsContext;
  CHECK(f.measureError(
            {f.launcher("fast.t32", 2000), f.launcher("fast.t64", 2000)}) ==
        ErrorCode::ContextDead);
}

TEST_CASE("a device that hangs is not waited for forever") {
  SamplingFixture f;
  f.options.hangLimit = std::chrono::milliseconds(5);
  TimedLaunch launcher = f.launcher("fast.t64", 2000);
  kilnFakeFailCall("cuEventQuery", 1, kNotReady, KilnFakeAlways);
  CHECK(f.measureError({launcher}) == ErrorCode::InProgress);
  CHECK(summarize(waitWithLimit(*f.driver, f.stream.handle(),
                                std::chrono::milliseconds(1)))
            .code == ErrorCode::InProgress);
  kilnFakeFailCall("cuEventQuery", 1, 0, KilnFakeOnce);
  must(waitWithLimit(*f.driver, f.stream.handle(),
                     std::chrono::milliseconds(1)));
}
