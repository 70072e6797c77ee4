//===- SweepCommand.cpp - kiln-bench sweep: measure whole spaces ----------===//
#include "Families/Families.h"
#include "cli/Console.h"
#include "cli/Finish.h"
#include "cli/LiveSession.h"
#include "cli/Stopwatch.h"
#include "compare/BenchSetting.h"
#include "kiln-bench/Commands.h"
#include "kiln-bench/Draw.h"
#include "kiln-bench/SweepRecord.h"
#include "kiln-bench/SweepReport.h"

#include <deque>

namespace kiln::cli {

using Clock = SweepOptions::Clock;

/// Reads which configs of each space are measured.
static llvm::Error readChosen(const ParsedOptions &options,
                              SweepOptions &sweep) {
  auto top = options.number("--top", 0);
  if (!top)
    return top.takeError();
  sweep.top = *top;
  // The rest is what tells where the estimate is blind.
  constexpr unsigned kSampleShare = 4;
  auto sample = options.number("--sample", *top / kSampleShare, 0);
  if (!sample)
    return sample.takeError();
  sweep.sample = *sample;
  if (sweep.top == 0 && options.has("--sample"))
    return makeError(ErrorCode::InvalidArgument, "--sample is for --top");
  return llvm::Error::success();
}

/// Reads everything of a sweep that has an option.
static llvm::Expected<SweepOptions> readSweep(const ParsedOptions &options,
                                              Clock::time_point start) {
  SweepOptions sweep;
  constexpr unsigned kMostBatch = 64;
  auto batch = options.number("--batch", sweep.batch, 2, kMostBatch);
  if (!batch)
    return batch.takeError();
  sweep.batch = *batch;
  if (options.has("--hot"))
    sweep.mode = MeasurementMode::Hot;
  if (llvm::Error error = readChosen(options, sweep))
    return error;
  if (options.has("--time-limit")) {
    auto limit = options.duration("--time-limit", {});
    if (!limit)
      return limit.takeError();
    sweep.deadline = start + *limit;
  }
  return sweep;
}

/// Sweeps one case into \p row; an error is one after which nothing can be
/// measured.
static llvm::Error sweepCase(SweepRow &row, const SweepOptions &options,
                             LiveSession &session) {
  const auto &[family, problem] = row.which->named;
  row.result.isComplete = true;
  if (family->isEmpty(problem))
    return llvm::Error::success();
  auto result = sweepSpace(*family, problem, session.model(),
                           *session.artifacts, *session.trials, options);
  if (result) {
    row.result = std::move(*result);
    return llvm::Error::success();
  }
  ErrorSummary error = summarize(result.takeError());
  row.error = error.message;
  if (error.code == ErrorCode::ContextDead ||
      error.code == ErrorCode::CompilerMissing) {
    row.result.isComplete = false;
    return errorOf(error);
  }
  return llvm::Error::success();
}

namespace {

/// Has what later cases need compiled while earlier ones run.
class Ahead {
public:
  Ahead(llvm::ArrayRef<Case> cases, const SweepOptions &options,
        LiveSession &session)
      : cases(cases), options(options), session(session) {}

  /// From now on \p current runs.
  void advance(size_t current) {
    // The first of these requests are done when their turn comes; all kernels
    // of a long sweep would not fit into memory.
    constexpr size_t kCasesAhead = 3;
    while (!waiting.empty() && waiting.front().first <= current)
      waiting.pop_front();
    for (; next < cases.size() && next <= current + kCasesAhead; ++next) {
      const auto &[family, problem] = cases[next].named;
      if (family->isEmpty(problem))
        continue;
      auto requests = requestSwept(*family, problem, session.model(),
                                   *session.artifacts, options, next);
      if (requests)
        waiting.emplace_back(next, std::move(*requests));
      else // the sweep itself will tell
        llvm::consumeError(requests.takeError());
    }
  }

private:
  llvm::ArrayRef<Case> cases;
  const SweepOptions &options;
  LiveSession &session;
  size_t next = 0;
  std::deque<std::pair<size_t, std::vector<PendingArtifact>>> waiting;
};

} // namespace

/// Writes the measurements, which `quality` replays.
static llvm::Error writeRecord(const SweepReport &report,
                               const DeviceModel &device,
                               const std::string &path) {
  SweepRecord record;
  record.what = report.what;
  record.commit = report.commit;
  record.gpu = report.gpu;
  record.driver = report.driver;
  record.toolchain = report.toolchain;
  record.mode = report.mode;
  record.device = device.name;
  for (const SweepRow &row : report.rows)
    if (row.error.empty() && row.result.measured() > 0)
      record.spaces.push_back(
          RecordedSpace::of(row.which->name, row.which->text(), row.result));
  return writeFile(path, record.text());
}

namespace {

/// Keeps the file of --record up to what is measured, so that a sweep that is
/// killed after hours leaves what it had.
class RecordKeeper {
public:
  RecordKeeper(std::optional<std::string> path, const DeviceModel &device)
      : path(std::move(path)), device(device) {}

  void keep(const SweepReport &report) {
    if (!path || *path == "-" || hasFailed)
      return;
    if (llvm::Error error = writeRecord(report, device, *path)) {
      printWarning(summarize(std::move(error)).message);
      hasFailed = true; // the end tells whether it still does
    }
  }
  llvm::Error finish(const SweepReport &report) const {
    return path ? writeRecord(report, device, *path) : llvm::Error::success();
  }

private:
  std::optional<std::string> path;
  const DeviceModel &device;
  bool hasFailed = false;
};

} // namespace

/// Sweeps all cases, one after another.
static llvm::Error sweepAll(llvm::ArrayRef<Case> cases, SweepOptions options,
                            LiveSession &session, RecordKeeper &keeper,
                            SweepReport &report) {
  InterruptGuard interrupt;
  options.cancel = interrupt.flag();
  ProgressBar bar("sweeping");
  for (const Case &one : cases) {
    SweepRow &row = report.rows.emplace_back();
    row.which = &one;
    row.result.isComplete = false; // until its turn comes
  }
  Ahead ahead(cases, options, session);
  for (size_t i = 0; i < cases.size(); ++i) {
    if (interrupt.flag()->load() || Clock::now() >= options.deadline)
      break;
    ahead.advance(i);
    options.progress = [&](const SweepProgress &progress) {
      bar.update(i, cases.size(),
                 fmt::format("{}: {} {} of {}", cases[i].name,
                             progress.isCompiling ? "kernel" : "config",
                             progress.done, progress.total));
    };
    SweepRow &row = report.rows[i];
    if (llvm::Error error = sweepCase(row, options, session))
      return error;
    if (!row.result.toolchain.empty())
      report.toolchain = row.result.toolchain;
    keeper.keep(report);
  }
  return llvm::Error::success();
}

/// The problems of the command: a draw, or those that are named.
static llvm::Expected<std::vector<Case>>
readProblems(const ParsedOptions &options, const Registry &registry,
             SweepOptions &sweep, std::string &what) {
  what = subjectOf(options);
  if (!options.has("--draw")) {
    for (const OptionSpec &option : kDrawnOptions)
      if (options.has(option.name))
        return makeError(ErrorCode::InvalidArgument, "{} is for --draw",
                         option.name);
    return readCases(options, registry);
  }
  auto count = options.number("--draw", 0);
  if (!count)
    return count.takeError();
  auto draw = readDraw(options, *count, registry);
  if (!draw)
    return draw.takeError();
  what = draw->text(what);
  sweep.seed = draw->seeds.front();
  return std::move(draw->cases);
}

static llvm::Expected<int> runSweep(const ParsedOptions &options) {
  const Stopwatch watch;
  Environment environment = Environment::fromProcess();
  Registry registry = makeBuiltinRegistry();
  auto sweep = readSweep(options, watch.start());
  if (!sweep)
    return sweep.takeError();
  SweepReport report;
  auto cases = readProblems(options, registry, *sweep, report.what);
  if (!cases)
    return cases.takeError();
  auto session = LiveSession::open(options, environment, "sweep measures");
  if (!session)
    return session.takeError();
  for (const char *file : {"--out", "--record"})
    if (llvm::Error error = checkOutput(options.value(file)))
      return error;

  report.commit = options.value("--commit").value_or("");
  report.gpu = marketingNameOf((*session)->model());
  report.driver = driverVersionText((*session)->driver());
  report.mode = sweep->mode == MeasurementMode::Hot ? "hot L2" : "cold L2";
  RecordKeeper keeper(options.value("--record"), (*session)->model());
  llvm::Error failure = sweepAll(*cases, *sweep, **session, keeper, report);
  report.elapsedMs = watch.ms();
  int code = report.exitCode();
  if (llvm::Error unwritten = keeper.finish(report)) {
    printError(summarize(std::move(unwritten)).message);
    code = code ? code : kExitSomeFailed;
  }
  return finish(report, options.value("--out"), options.wantsJson(),
                std::move(failure), code);
}

static constexpr OptionSpec kDrawOption[] = {
    {"--draw", "N", "N problems of the suite's layers, with drawn values"}};
static constexpr OptionSpec kSweepOwnOptions[] = {
    {"--top", "N",
     "measure the N best-ranked configs of each space, and a sample of the "
     "rest; default: all"},
    {"--sample", "N", "configs of that sample; default a quarter of --top"},
    {"--record", "FILE",
     "write the time of every config there after each space, for kiln-bench "
     "quality"},
    {"--out", "FILE", "write the JSON document, with every config, there"},
    {"--commit", "TEXT", "commit that the document names"},
    {"--time-limit", "TIME", "for all problems together; default: none"},
    {"--batch", "N", "configs whose samples are interleaved; default 8"},
    {"--hot", nullptr, "measure with operands in L2 instead of cold"},
};
static constexpr auto kSweepOptions =
    joinOptions(kSubjectOptions, kDrawOption, kDrawnOptions, kSweepOwnOptions,
                kCompilerOptions);

const CommandSpec kSweepCommand = {
    "sweep",
    "PROBLEM...",
    "measure every config of problems' spaces",
    "Compiles and measures all that passes pruning, with no rule that stops "
    "early, and tells what the estimator's first choice and its first five "
    "reach of the best. Records nothing in the cache. Ends with 1 if a space "
    "was not measured to its end, or if a config is wrong or does not "
    "compile.\nWith --draw the problems are layers of the suite with values of "
    "--range, --bytes and --seed.\n  kiln-bench sweep --suite "
    "benchmarks/suites/memory_bound.json "
    "--out sweep.json",
    kSweepOptions,
    runSweep,
};

} // namespace kiln::cli
