//===- Sweep.cpp - kiln sweep: measure whole spaces -----------------------===//
#include "Tune/Sweep.h"

#include "Families/Families.h"
#include "kiln/Commands.h"
#include "kiln/Console.h"
#include "kiln/Finish.h"
#include "kiln/LiveSession.h"
#include "kiln/SweepReport.h"

#include <chrono>

namespace kiln::cli {

using Clock = SweepOptions::Clock;

/// Reads everything of a sweep that has an option.
static llvm::Expected<SweepOptions> readSweep(const ParsedOptions &options,
                                              Clock::time_point start) {
  SweepOptions sweep;
  constexpr unsigned kMostBatch = 64;
  auto batch = options.number("--batch", sweep.batch, 2, kMostBatch);
  if (!batch)
    return batch.takeError();
  sweep.batch = *batch;
  auto model = chooseModel(options);
  if (!model)
    return model.takeError();
  sweep.model = *model;
  if (options.has("--hot"))
    sweep.mode = MeasurementMode::Hot;
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

/// Sweeps all cases, one after another.
static llvm::Error sweepAll(llvm::ArrayRef<Case> cases, SweepOptions options,
                            LiveSession &session, SweepReport &report) {
  InterruptGuard interrupt;
  options.cancel = interrupt.flag();
  ProgressBar bar("sweeping");
  for (const Case &one : cases) {
    SweepRow &row = report.rows.emplace_back();
    row.which = &one;
    row.result.isComplete = false; // until its turn comes
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    if (interrupt.flag()->load() || Clock::now() >= options.deadline)
      break;
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
  }
  return llvm::Error::success();
}

static llvm::Expected<int> runSweep(const ParsedOptions &options) {
  Clock::time_point start = Clock::now();
  Environment environment = Environment::fromProcess();
  Registry registry = makeBuiltinRegistry();
  auto sweep = readSweep(options, start);
  if (!sweep)
    return sweep.takeError();
  auto cases = readCases(options, registry);
  if (!cases)
    return cases.takeError();
  auto session = LiveSession::open(options, environment, "sweep measures");
  if (!session)
    return session.takeError();
  if (llvm::Error error = checkOutput(options.value("--out")))
    return error;

  SweepReport report;
  report.what = options.value("--suite").value_or("problems");
  report.commit = options.value("--commit").value_or("");
  report.gpu = marketingNameOf((*session)->model());
  report.driver = driverVersionText((*session)->driver());
  report.model = nameOf(sweep->model).str();
  report.mode = sweep->mode == MeasurementMode::Hot ? "hot L2" : "cold L2";
  llvm::Error failure = sweepAll(*cases, *sweep, **session, report);
  report.elapsedMs =
      std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  return finish(report, options.value("--out"), options.wantsJson(),
                std::move(failure), report.exitCode());
}

static constexpr OptionSpec kOptions[] = {
    kDeviceOption,
    kOverrideOption,
    kModelOption,
    kSuiteOption,
    kFilterOption,
    {"--out", "FILE", "write the JSON document, with every config, there"},
    {"--time-limit", "TIME", "for all problems together; default: none"},
    {"--batch", "N", "configs whose samples are interleaved; default 8"},
    {"--hot", nullptr, "measure with operands in L2 instead of cold"},
    {"--commit", "TEXT", "commit that the document names"},
    kThreadsOption,
    kCacheDirOption,
    kNoCacheOption,
    kNvrtcOption,
};

const CommandSpec kSweepCommand = {
    "sweep",
    "PROBLEM...",
    "measure every config of problems' spaces",
    "Compiles and measures all that passes pruning, with no rule that stops "
    "early, and tells what the estimator's first choice and its first five "
    "reach of the best. Records nothing. Ends with 1 if a space was not "
    "measured to its end, or if a config is wrong or does not compile.\n  kiln "
    "sweep --suite "
    "benchmarks/suites/memory_bound.json --out sweep.json",
    kOptions,
    runSweep,
};

} // namespace kiln::cli
