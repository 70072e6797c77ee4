//===- Background.cpp - kiln-bench background -----------------------------===//
//
// One command measures the promises of the mode background: random calls wait
// for nothing behind the first kernel of their signature, also while others are
// compiled, loaded and measured; trials take no more of the GPU than they may;
// results are right while plans are swapped, and captures of another thread
// survive; and with quiet it is as fast as an engine that was tuned.
//
//===----------------------------------------------------------------------===//
#include "Families/Families.h"
#include "Trial/TrialTools.h"
#include "cli/Console.h"
#include "cli/Finish.h"
#include "cli/LiveSession.h"
#include "cli/Stopwatch.h"
#include "kiln-bench/BackgroundCalls.h"
#include "kiln-bench/BackgroundReport.h"
#include "kiln-bench/CapturedCalls.h"
#include "kiln-bench/Commands.h"
#include "kiln-bench/HostClock.h"
#include "kiln-bench/QuietComparison.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

namespace kiln::cli {

namespace {

/// The values of the options.
struct BackgroundRequest {
  NamedRange range;
  std::vector<Layer> layers;
  uint64_t seed = 1;
  unsigned permille = 50, calls = 2000, checked = 10000;
  double seconds = 20;
  std::chrono::milliseconds tuneBudget{4000};
};

/// The parts of the measurement, in their order.
class BackgroundBench {
public:
  BackgroundBench(const BackgroundRequest &request, LiveSession &session,
                  const Stream &stream, const ScratchFolder &folder,
                  const ParsedOptions &options, const Environment &environment,
                  LayerProducts products, BackgroundReport &report)
      : request(request), session(session), stream(stream), folder(folder),
        options(options), environment(environment),
        products(std::move(products)), random(request.seed), report(report) {}

  llvm::Error run();

private:
  llvm::Expected<EnginePtr> makeEngine(kiln_mode mode, llvm::StringRef cache,
                                       unsigned permille) const;
  llvm::Error call(kiln_engine *engine, const ProductCall &which);
  llvm::Error callFor(kiln_engine *engine, CallTimes &times, double seconds,
                      unsigned calls);
  llvm::Error measureCalls(kiln_engine *engine);
  llvm::Error measureForeground(kiln_engine *engine);
  llvm::Error checkResults(kiln_engine *engine);
  llvm::Error compareSpeed(kiln_engine *engine);

  const BackgroundRequest &request;
  LiveSession &session;
  const Stream &stream;
  const ScratchFolder &folder;
  const ParsedOptions &options;
  const Environment &environment;
  LayerProducts products;
  std::mt19937_64 random;
  BackgroundReport &report;
  InterruptGuard interrupt;
};

} // namespace

//===----------------------------------------------------------------------===//
// Waits of a call
//===----------------------------------------------------------------------===//

llvm::Expected<EnginePtr> BackgroundBench::makeEngine(kiln_mode mode,
                                                      llvm::StringRef cache,
                                                      unsigned permille) const {
  EngineSetup setup;
  setup.backgroundPermille = permille;
  setup.tuneBudget = request.tuneBudget;
  return cli::makeEngine(mode, folder.cache(cache), options, environment,
                         setup);
}

llvm::Error BackgroundBench::call(kiln_engine *engine,
                                  const ProductCall &which) {
  auto prepared = products.prepare(which);
  if (!prepared)
    return prepared.takeError();
  return statusError(prepared->launch(engine, stream));
}

/// Adds the times of random calls until both \p seconds and \p calls are over,
/// waiting for the device after every fourth.
llvm::Error BackgroundBench::callFor(kiln_engine *engine, CallTimes &times,
                                     double seconds, unsigned calls) {
  constexpr unsigned kPerWait = 4;
  const kiln_statistics before = statisticsOf(engine);
  kiln_statistics atWait = before;
  const Stopwatch watch;
  for (unsigned i = 0; i < calls || watch.seconds() < seconds; ++i) {
    if (interrupt.flag()->load())
      break;
    const ProductCall which = products.draw(random);
    auto prepared = products.prepare(which);
    if (!prepared)
      return prepared.takeError();
    const HostClock clock;
    const kiln_status status = prepared->launch(engine, stream);
    const HostTime time = clock.stop();
    if (llvm::Error error = statusError(status))
      return error;
    times.us.push_back(time.us);
    if (times.isSlow(time.us)) {
      const kiln_statistics now = statisticsOf(engine);
      times.addSlow({time, watch.seconds(), products.name(which),
                     now.dispatch_misses != atWait.dispatch_misses,
                     now.arena_bytes != atWait.arena_bytes});
    }
    if (i % kPerWait != kPerWait - 1)
      continue;
    if (llvm::Error error = stream.synchronize())
      return error;
    atWait = statisticsOf(engine);
  }
  if (llvm::Error error = stream.synchronize())
    return error;
  const kiln_statistics after = statisticsOf(engine);
  times.seconds += watch.seconds();
  times.trialSeconds +=
      double(after.background_gpu_ns - before.background_gpu_ns) * 1e-9;
  times.trials += after.trials - before.trials;
  times.swaps += after.background_swaps - before.background_swaps;
  times.pending = after.background_pending;
  return llvm::Error::success();
}

llvm::Error BackgroundBench::measureCalls(kiln_engine *engine) {
  // All layers have one signature, so the kernel that the first call loads
  // stands in.
  CallTimes first;
  if (llvm::Error error = callFor(engine, first, 0, 1))
    return error;
  report.firstUs = first.us;
  if (llvm::Error error =
          callFor(engine, report.fresh.emplace(), 0, request.calls))
    return error;
  return callFor(engine, report.busy.emplace(), request.seconds, 1);
}

/// The work that the foreground gets done, alternately with and without trials.
llvm::Error BackgroundBench::measureForeground(kiln_engine *engine) {
  constexpr int kTurns = 12;
  Foreground &foreground = report.foreground.emplace();
  for (int turn = 0; turn < kTurns && !interrupt.flag()->load(); ++turn) {
    const bool isPaused = turn % 2;
    if (isPaused) {
      kiln_background_pause(engine);
      if (llvm::Error error = statusError(kiln_background_wait(engine, -1)))
        return error;
    }
    CallTimes times;
    const auto seconds = request.seconds / 2 / kTurns;
    // Both get the same calls.
    const std::mt19937_64 before = random;
    llvm::Error error = callFor(engine, times, seconds, 1);
    if (!isPaused)
      random = before;
    if (isPaused)
      kiln_background_resume(engine);
    if (error)
      return error;
    foreground.calls[isPaused] += double(times.us.size());
    foreground.seconds[isPaused] += times.seconds;
    if (!isPaused)
      foreground.trialSeconds += times.trialSeconds;
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Results and captures
//===----------------------------------------------------------------------===//

llvm::Error BackgroundBench::checkResults(kiln_engine *engine) {
  CheckedCalls checked, captured;
  std::atomic<bool> ends{false};
  ErrorSummary captureError;
  std::thread capturer([&] {
    captureError =
        summarize(captureCalls(session, products, engine, ends, captured));
  });
  const Stopwatch watch;
  auto check = [&]() -> llvm::Error {
    const ProductCall which = products.draw(random);
    if (llvm::Error error = products.poison(which, stream.handle()))
      return error;
    ++checked.calls;
    if (llvm::Error error = call(engine, which)) {
      ++checked.failed;
      llvm::consumeError(std::move(error));
      return stream.synchronize();
    }
    auto right = products.isRight(which, engine, stream, random);
    if (!right)
      return right.takeError();
    checked.wrong += !*right;
    return llvm::Error::success();
  };
  // Until there is quiet, so that all swaps are seen.
  llvm::Error error = llvm::Error::success();
  while (!error && !interrupt.flag()->load()) {
    checked.isQuiet = kiln_background_wait(engine, 0) == KILN_SUCCESS;
    const bool isOver =
        checked.isQuiet || watch.seconds() >= 2 * request.seconds;
    if (isOver && checked.calls >= request.checked)
      break;
    error = check();
  }
  ends = true;
  capturer.join();
  checked.seconds = watch.seconds();
  // The rest is soon done with the GPU to itself.
  while (!error && !checked.isQuiet && !interrupt.flag()->load() &&
         watch.seconds() < 4 * request.seconds)
    checked.isQuiet = kiln_background_wait(engine, 100) == KILN_SUCCESS;
  checked.quietSeconds = checked.isQuiet ? watch.seconds() : 0;
  const kiln_statistics after = statisticsOf(engine);
  checked.swaps = after.background_swaps;
  checked.trials = after.trials;
  checked.trialSeconds = double(after.background_gpu_ns) * 1e-9;
  checked.pending = after.background_pending;
  checked.captures = captured.captures;
  checked.notPrepared = captured.notPrepared;
  checked.failedCaptures = captured.failedCaptures;
  report.checked = checked;
  if (error)
    return error;
  return captureError.code == ErrorCode::Success ? llvm::Error::success()
                                                 : errorOf(captureError);
}

//===----------------------------------------------------------------------===//
// Speed
//===----------------------------------------------------------------------===//

/// \p engine, which is quiet, beside one that measures the layers when it is
/// called.
llvm::Error BackgroundBench::compareSpeed(kiln_engine *engine) {
  constexpr int kValues = 12;
  auto tuned = makeEngine(KILN_MODE_TUNE, "tuned", 0);
  if (!tuned)
    return tuned.takeError();
  QuietComparison comparison(session.driver(), stream, products, engine,
                             tuned->get());
  for (size_t layer = 0; layer < products.count(); ++layer)
    for (int value = 0; value < kValues && !interrupt.flag()->load(); ++value) {
      auto speed = comparison.run(products.draw(layer, random));
      if (!speed)
        return speed.takeError();
      report.speeds.push_back(std::move(*speed));
    }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

llvm::Error BackgroundBench::run() {
  constexpr size_t kParts = 4;
  ProgressBar bar("measuring");
  report.interrupted = true; // unless the end is reached
  constexpr const char *kCache = "background";
  auto serving = makeEngine(KILN_MODE_BACKGROUND, kCache, request.permille);
  if (!serving)
    return serving.takeError();
  bar.update(0, kParts, "calls");
  if (llvm::Error error = measureCalls(serving->get()))
    return error;
  bar.update(1, kParts, "calls that the foreground loses");
  if (llvm::Error error = measureForeground(serving->get()))
    return error;
  serving->reset();
  // Goes on with what the cache has by now, as the next process would. Nothing
  // is timed beside it.
  constexpr unsigned kAll = 1000;
  auto eager = makeEngine(KILN_MODE_BACKGROUND, kCache, kAll);
  if (!eager)
    return eager.takeError();
  bar.update(2, kParts, "results");
  if (llvm::Error error = checkResults(eager->get()))
    return error;
  bar.update(3, kParts, "speed after quiet");
  if (report.checked->isQuiet)
    if (llvm::Error error = compareSpeed(eager->get()))
      return error;
  report.interrupted = interrupt.flag()->load();
  return llvm::Error::success();
}

static llvm::Expected<BackgroundRequest>
readBackground(const ParsedOptions &options, const Registry &registry) {
  BackgroundRequest request;
  auto ranges = readNamedRanges(options, "m=1..2048");
  if (!ranges)
    return ranges.takeError();
  if (ranges->size() != 1 || ranges->front().key != "m")
    return makeError(ErrorCode::InvalidArgument,
                     "background varies m alone: --range m=FIRST..LAST");
  request.range = ranges->front();
  auto layers = readLayers(options, *ranges, RangedExtents::Dynamic, registry);
  if (!layers)
    return layers.takeError();
  request.layers = std::move(*layers);
  struct {
    const char *name;
    unsigned *value;
    unsigned least, greatest;
  } numbers[] = {{"--permille", &request.permille, 1, 1000},
                 {"--calls", &request.calls, 1, 1u << 24},
                 {"--checked", &request.checked, 1, 1u << 24}};
  for (auto &[name, value, least, greatest] : numbers) {
    auto given = options.number(name, *value, least, greatest);
    if (!given)
      return given.takeError();
    *value = *given;
  }
  auto seed = options.number("--seed", 1, 0);
  if (!seed)
    return seed.takeError();
  request.seed = *seed;
  auto time = options.duration("--time", std::chrono::seconds(20));
  if (!time)
    return time.takeError();
  request.seconds = std::chrono::duration<double>(*time).count();
  auto budget = options.duration("--budget", request.tuneBudget);
  if (!budget)
    return budget.takeError();
  request.tuneBudget = *budget;
  return request;
}

static std::string protocolOf(const BackgroundRequest &request) {
  return fmt::format(
      "Random calls of kiln_run over {} layers, m log-uniform in {}..{}, seed "
      "{}, a wait for the device after each fourth, empty caches; host times "
      "of calls; trials have {} thousandths of the GPU; calls lost to them: "
      "12 turns, every second one paused; results: operands of integers with "
      "exact sums, four rows of each result compared bit for bit with rows "
      "that are right, while another engine goes on with the same cache and "
      "all of the GPU for trials, and captures of another thread in bursts "
      "beside them; speed after quiet: 12 values of each layer, graphs of 8 "
      "launches, alternately with an engine that tuned each layer for {} ms, "
      "median of 7.",
      request.layers.size(), request.range.first, request.range.last,
      request.seed, request.permille, request.tuneBudget.count());
}

static llvm::Expected<int> runBackground(const ParsedOptions &options) {
  Environment environment = Environment::fromProcess();
  const Registry registry = makeBuiltinRegistry();
  auto request = readBackground(options, registry);
  if (!request)
    return request.takeError();
  auto folder = ScratchFolder::make();
  if (!folder)
    return folder.takeError();
  // Earlier tuning on this machine plays no part.
  environment.kilnCacheDir = folder->cache("session");
  environment.kilnCacheReadDirs.reset();
  auto session = LiveSession::open(options, environment, "background measures");
  if (!session)
    return session.takeError();
  auto setting =
      BenchSetting::of("background: " + subjectOf(options), options, **session);
  if (!setting)
    return setting.takeError();
  auto stream = Stream::create((*session)->driver());
  if (!stream)
    return stream.takeError();
  auto products = LayerProducts::create((*session)->driver(), request->layers,
                                        request->range, stream->handle());
  if (!products)
    return products.takeError();
  if (llvm::Error error = checkOutput(options.value("--out")))
    return error;

  BackgroundReport report;
  report.setting = std::move(*setting);
  report.setting.protocol = protocolOf(*request);
  if (auto tools =
          (*session)->artifacts->get(trialToolsUnit((*session)->model())))
    report.setting.cuda = cudaVersionOf((*tools)->toolchain);
  else
    return tools.takeError();
  report.share = double(request->permille) / 1000;
  BackgroundBench bench(*request, **session, *stream, *folder, options,
                        environment, std::move(*products), report);
  llvm::Error failure = bench.run();
  return finish(report, options.value("--out"), options.wantsJson(),
                std::move(failure), report.exitCode());
}

static constexpr OptionSpec kBackgroundOwnOptions[] = {
    {"--range", "m=FIRST..LAST",
     "rows of the calls, log-uniform, both included; default m=1..2048"},
    {"--seed", "N", "of the calls; default 1"},
    {"--permille", "N",
     "share of the GPU for trials, in thousandths; default 50"},
    {"--calls", "N",
     "calls before the engine has had time to work; default 2000"},
    {"--time", "TIME",
     "of the calls while it works; half of it for calls alternately with and "
     "without trials, at most twice that for compared ones, and as long again "
     "until the engine is quiet; default 20s"},
    {"--checked", "N",
     "least number of calls with compared results; default 10000"},
    {"--budget", "TIME",
     "for each layer of the engine that it is compared with; default 4s"},
};
static constexpr OptionSpec kBackgroundEngineOptions[] = {kThreadsOption,
                                                          kNvrtcOption};
static constexpr auto kBackgroundOptions =
    joinOptions(kDeviceOptions, kSuiteOptions, kBackgroundOwnOptions,
                kDocumentOptions, kBackgroundEngineOptions);

const CommandSpec kBackgroundCommand = {
    "background",
    "",
    "measure the promises of the mode background",
    "An engine with an empty cache meets random calls of the plain products "
    "of a suite. Tells the host time of calls behind the first one, before "
    "and while kernels are compiled, loaded and measured; the share of the "
    "GPU and of the calls that trials take; whether all results are right "
    "while plans are swapped, and captures of another thread survive; and the "
    "speed of the quiet engine beside a tuned one. Ends with 1 if a result is "
    "wrong, a call or a capture fails, or the engine does not become quiet.\n  "
    "kiln-bench background --suite benchmarks/suites/background_layers.json",
    kBackgroundOptions,
    runBackground,
};

} // namespace kiln::cli
