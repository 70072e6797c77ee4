//===- Tune.cpp - kiln tune: measure on this GPU within a budget ----------===//
#include "Families/Families.h"
#include "Support/Json.h"
#include "Trial/Statistics.h"
#include "cli/Console.h"
#include "cli/LiveSession.h"
#include "cli/Report.h"
#include "cli/Stopwatch.h"
#include "cli/TuneAll.h"
#include "kiln/Commands.h"
#include "kiln/RangeReport.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln::cli {

namespace {

class TuneReport final : public Report {
public:
  TuneReport(llvm::ArrayRef<Case> cases, const DeviceModel &device,
             llvm::ArrayRef<TuningOutcome> outcomes)
      : cases(cases), device(device), outcomes(outcomes) {}
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;
  int exitCode() const;

  double elapsedMs = 0;
  bool interrupted = false;
  bool wantsStored = true;     ///< there is to be a cache
  ArtifactStatistics unstored; ///< which kernels are not on disk, and why
  MemoryPeaks peaks;

private:
  size_t trialsInAll() const {
    size_t count = 0;
    for (const TuningOutcome &outcome : outcomes)
      count += outcome.result.trials.size();
    return count;
  }
  /// Problems without a measurement that supports their choice.
  size_t unmeasured() const {
    return static_cast<size_t>(
        llvm::count_if(outcomes, [](const TuningOutcome &outcome) {
          return outcome.error.code != ErrorCode::Success ||
                 outcome.result.choice.origin == ChoiceOrigin::Estimated;
        }));
  }
  /// Measured now, and the record is not on disk; a note says why.
  size_t unstoredRecords() const {
    return static_cast<size_t>(
        llvm::count_if(outcomes, [&](const TuningOutcome &outcome) {
          return wantsStored && !outcome.result.recordStored &&
                 outcome.error.code == ErrorCode::Success &&
                 outcome.result.choice.origin == ChoiceOrigin::Measured;
        }));
  }
  llvm::json::Object caseToJson(size_t index) const;
  void printRow(Table &table, size_t index) const;
  /// Geometric mean, over what was measured now, of the best time over that of
  /// the estimator's first choice; 0 where nothing was.
  double firstChoiceShare() const;

  llvm::ArrayRef<Case> cases;
  const DeviceModel &device;
  llvm::ArrayRef<TuningOutcome> outcomes;
};

} // namespace

double TuneReport::firstChoiceShare() const {
  std::vector<double> shares;
  for (const TuningOutcome &outcome : outcomes)
    for (const TuningTrial &trial : outcome.result.trials) {
      double best = outcome.result.choice.measuredNs;
      if (trial.rank == 0 && trial.result.medianNs > 0 && best > 0)
        shares.push_back(best / trial.result.medianNs);
    }
  return geomean(shares);
}

void TuneReport::printRow(Table &table, size_t index) const {
  const auto &[result, error] = outcomes[index];
  const TuningChoice &choice = result.choice;
  const auto &[family, problem] = cases[index].named;
  if (error.code != ErrorCode::Success ||
      choice.origin == ChoiceOrigin::Empty) {
    table.addRow({cases[index].name, "-", "", "", "", "",
                  fmt::format("{}", result.trials.size()),
                  error.code != ErrorCode::Success ? "failed" : "empty"});
    return;
  }
  bool measured = choice.measuredNs > 0;
  auto rate = [&](double work, double scale) {
    return measured ? formatFigure(work / choice.measuredNs * scale) : "";
  };
  table.addRow(
      {cases[index].name, choice.candidate.config.text(),
       measured ? formatUs(choice.measuredNs) : "",
       formatUs(choice.candidate.estimate.totalNs),
       isMemoryBound(cases[index]) ? "" : rate(family->flops(problem), 1e-3),
       rate(family->compulsoryBytes(problem), 1),
       fmt::format("{}", result.trials.size()),
       nameOf(choice.origin).str() +
           (measured && !choice.validated ? ", not valid" : "")});
}

void TuneReport::print(llvm::raw_ostream &os) const {
  os << fmt::format("{} ({})\n", device.name, device.archName());
  Table table({"problem", "config", ">measured us", ">predicted us", ">TFLOP/s",
               ">GB/s", ">trials", "from"});
  OutcomeNotes notes;
  for (size_t i = 0; i < cases.size(); ++i) {
    printRow(table, i);
    notes.add(cases[i].name, outcomes[i].error, outcomes[i].result.notes);
  }
  table.print(os);
  notes.print(os);
  if (size_t count = unmeasured())
    os << fmt::format(
        "{} of the problems not measured: the estimator's word alone, or "
        "none\n",
        count);
  if (size_t records = unstoredRecords(); records + unstored.notStored > 0)
    os << fmt::format("not stored: {} records, {} kernels{}\n", records,
                      unstored.notStored,
                      unstored.notStoredReason.empty()
                          ? ""
                          : ": " + onOneLine(unstored.notStoredReason));
  if (double share = firstChoiceShare())
    os << fmt::format("the estimator's first choice alone reaches {:.1f} % of "
                      "the best\n",
                      100 * share);
  os << fmt::format("{} problems, {} trials in {:.2f} s{}\n", cases.size(),
                    trialsInAll(), elapsedMs * 1e-3,
                    interrupted ? ", interrupted" : "");
  peaks.print(os);
}

static llvm::json::Object trialToJson(const TuningTrial &trial) {
  const TrialResult &result = trial.result;
  llvm::json::Object object{{"config", result.config},
                            {"status", nameOf(result.status)},
                            {"validated", result.validated},
                            {"rank", trial.rank + 1},
                            {"predicted_us", rounded(trial.predictedNs * 1e-3)},
                            {"bound", trial.bound},
                            {"measured_us", rounded(result.medianNs * 1e-3)},
                            {"samples", result.samples},
                            {"max_error_ratio", rounded(result.maxErrorRatio)}};
  if (!result.message.empty())
    object["message"] = jsonText(result.message);
  return object;
}

llvm::json::Object TuneReport::caseToJson(size_t index) const {
  const auto &[result, error] = outcomes[index];
  const TuningChoice &choice = result.choice;
  const auto &[family, problem] = cases[index].named;
  llvm::json::Object object{{"name", cases[index].name},
                            {"problem", cases[index].text()},
                            {"elapsed_ms", rounded(result.elapsedMs, 4)}};
  llvm::json::Array trials;
  for (const TuningTrial &trial : result.trials)
    trials.push_back(trialToJson(trial));
  object["trials"] = std::move(trials);
  if (error.code != ErrorCode::Success) {
    object["error"] = jsonText(error.message);
    return object;
  }
  object["from"] = nameOf(choice.origin);
  object["stop"] = nameOf(result.stop);
  object["candidates"] = static_cast<int64_t>(result.candidates);
  object["rejected"] = static_cast<int64_t>(result.rejected);
  object["failed_compiles"] = static_cast<int64_t>(result.failedCompiles);
  object["notes"] = textsToJson(result.notes);
  if (choice.origin == ChoiceOrigin::Empty)
    return object;
  object["config"] = choice.candidate.config.text();
  object["validated"] = choice.validated;
  object["predicted_us"] = rounded(choice.candidate.estimate.totalNs * 1e-3);
  object["bound"] = choice.candidate.estimate.bound;
  if (choice.measuredNs > 0) {
    object["measured_us"] = rounded(choice.measuredNs * 1e-3);
    object["ci_us"] = llvm::json::Array{rounded(choice.ciLowNs * 1e-3),
                                        rounded(choice.ciHighNs * 1e-3)};
    object["tflops"] =
        rounded(family->flops(problem) / choice.measuredNs * 1e-3);
    object["gb_per_s"] =
        rounded(family->compulsoryBytes(problem) / choice.measuredNs);
  }
  return object;
}

llvm::json::Object TuneReport::toJson() const {
  llvm::json::Array list;
  for (size_t i = 0; i < cases.size(); ++i)
    list.push_back(caseToJson(i));
  return llvm::json::Object{
      {"device", device.name},
      {"class", deviceClassKey(device)},
      {"cases", std::move(list)},
      {"trials", static_cast<int64_t>(trialsInAll())},
      {"first_choice_share", rounded(firstChoiceShare())},
      {"unmeasured", static_cast<int64_t>(unmeasured())},
      {"unstored_records", static_cast<int64_t>(unstoredRecords())},
      {"unstored_kernels", static_cast<int64_t>(unstored.notStored)},
      {"elapsed_ms", rounded(elapsedMs, 4)},
      {"peak_bytes", peaks.toJson()},
      {"interrupted", interrupted}};
}

int TuneReport::exitCode() const {
  if (!outcomes.empty() &&
      outcomes.front().error.code == ErrorCode::CompilerMissing)
    return kExitNoDevice;
  return interrupted ||
                 unmeasured() + unstoredRecords() + unstored.notStored > 0
             ? kExitSomeFailed
             : kExitDone;
}

/// Reads all options of the tuner. Tuning ahead has more time than a first
/// launch, so the search goes further.
static llvm::Error readTuning(const ParsedOptions &options,
                              TuningOptions &tuning) {
  tuning.maxTrials = 64;
  tuning.top = 400;
  tuning.playoff = 8;
  constexpr std::chrono::seconds kDefaultBudget(60);
  auto budget = options.duration("--budget", kDefaultBudget);
  if (!budget)
    return budget.takeError();
  tuning.budget = *budget;
  auto top = options.number("--top", tuning.top);
  if (!top)
    return top.takeError();
  tuning.top = *top;
  auto trials = options.number("--max-trials", tuning.maxTrials);
  if (!trials)
    return trials.takeError();
  tuning.maxTrials = *trials;
  tuning.retune = options.has("--retune");
  tuning.mode =
      options.has("--hot") ? MeasurementMode::Hot : MeasurementMode::Cold;
  return llvm::Error::success();
}

/// Prepares ranges: one portfolio for all values of each layer.
static llvm::Expected<int> runTuneRanges(const ParsedOptions &options) {
  const Stopwatch watch;
  const Registry registry = makeBuiltinRegistry();
  for (const char *other : {"--top", "--max-trials"})
    if (options.has(other))
      return makeError(ErrorCode::InvalidArgument,
                       "{} is not for --range, which has a search of its own",
                       other);
  auto allowance = chooseAllowance(options);
  if (!allowance)
    return allowance.takeError();
  auto cases = readRanges(options, registry);
  if (!cases)
    return cases.takeError();
  constexpr std::chrono::seconds kBudgetOfLayer(12);
  auto budget = options.duration(
      "--budget", kBudgetOfLayer * static_cast<int64_t>(cases->size()));
  if (!budget)
    return budget.takeError();
  auto session =
      LiveSession::open(options, Environment::fromProcess(), "tune measures");
  if (!session)
    return session.takeError();
  LiveSession &live = **session;
  InterruptGuard interrupt;
  PortfolioStore portfolios(*live.cache);
  PortfolioContext context{live.model(),      *live.artifacts,
                           *live.records,     portfolios,
                           live.trials.get(), deviceClassKey(live.model())};
  PortfolioOptions preparation;
  preparation.mode =
      options.has("--hot") ? MeasurementMode::Hot : MeasurementMode::Cold;
  preparation.retune = options.has("--retune");
  preparation.workspaceBytes = allowance->workspaceBytes;
  preparation.cancel = interrupt.flag();
  RangeReport report(
      *cases, live.model(),
      prepareRanges(context, *cases, preparation, *budget, "tuning"),
      /*wantsTrials=*/true, /*wantsStored=*/!options.has("--no-cache"));
  report.interrupted = interrupt.flag()->load();
  report.artifacts = live.artifacts->statistics();
  report.peaks = MemoryPeaks::of(live.memory);
  report.elapsedMs = watch.ms();
  return emit(report, options.wantsJson(), report.exitCode());
}

static llvm::Expected<int> runTune(const ParsedOptions &options) {
  const Stopwatch watch;
  if (options.has("--range"))
    return runTuneRanges(options);
  TuningOptions tuning;
  if (llvm::Error error = readTuning(options, tuning))
    return error;
  auto subject = Subject::read(options);
  if (!subject)
    return subject.takeError();
  tuning.allowance = subject->allowance;
  const auto &cases = subject->cases;
  auto session =
      LiveSession::open(options, subject->environment, "tune measures");
  if (!session)
    return session.takeError();
  LiveSession &live = **session;

  InterruptGuard interrupt;
  tuning.cancel = interrupt.flag();
  std::vector<TuningOutcome> outcomes;
  {
    ProgressBar bar("tuning");
    tuning.progress = [&](const TuningProgress &progress) {
      std::string text = cases[progress.problem].name;
      if (progress.bestNs > 0)
        text = fmt::format("{}: {} us {}", text, formatUs(progress.bestNs),
                           progress.bestConfig);
      bar.update(progress.problemsDone, progress.problems, text);
    };
    outcomes = tuneAll(live.tuningContext(), problemsOf(cases), tuning);
  }
  TuneReport report(cases, live.model(), outcomes);
  report.interrupted = interrupt.flag()->load();
  report.wantsStored = !options.has("--no-cache");
  if (report.wantsStored)
    report.unstored = live.artifacts->statistics();
  report.peaks = MemoryPeaks::of(live.memory);
  report.elapsedMs = watch.ms();
  return emit(report, options.wantsJson(), report.exitCode());
}

static constexpr OptionSpec kTuneOwnOptions[] = {
    kRangesOption,
    {"--budget", "TIME",
     "for all problems together; default 60s, with --range 12s a layer"},
    {"--top", "N",
     "consider the N first candidates of each, and relatives of the "
     "best; default 400"},
    {"--max-trials", "N", "measure at most N configs of each; default 64"},
    {"--retune", nullptr, "measure although there is a record"},
    {"--hot", nullptr, "measure with operands in L2 instead of cold"},
};
static constexpr auto kTuneOptions = joinOptions(
    kSubjectOptions, kTuneOwnOptions, kAllowanceOptions, kCompilerOptions);

const CommandSpec kTuneCommand = {
    "tune",
    "PROBLEM...",
    "measure candidates on this GPU within a budget",
    "Compiles candidates in the estimator's order while earlier ones run, "
    "validates configs that may win and records the best. Measurements that "
    "are recorded already are not repeated. Ends with 1 if a problem could "
    "not be measured, or a record or kernel is not on disk at the end. With "
    "--range it prepares each layer for all values: it measures a few kernels "
    "at a few of them.\n  kiln tune --suite "
    "benchmarks/suites/memory_bound.json --budget 120s\n  kiln tune --suite "
    "benchmarks/suites/layers.json --range m=1..8192",
    kTuneOptions,
    runTune,
};

} // namespace kiln::cli
