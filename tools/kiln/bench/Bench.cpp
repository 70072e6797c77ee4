//===- Bench.cpp - kiln bench: Kiln beside cuBLASLt, or a stream ----------===//
#include "Families/Families.h"
#include "Trial/TrialBuffers.h"
#include "kiln/Commands.h"
#include "kiln/Console.h"
#include "kiln/Finish.h"
#include "kiln/bench/BackgroundBench.h"
#include "kiln/bench/BenchDraw.h"
#include "kiln/bench/BenchJit.h"
#include "kiln/bench/BenchRunner.h"
#include "kiln/bench/ChainBench.h"
#include "kiln/bench/PeerLibrary.h"
#include "kiln/bench/Study.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln::cli {

/// The config that --config names, compiled.
static llvm::Expected<BenchChoice>
namedChoice(const Case &which, const std::string &text, LiveSession &session) {
  const auto &[family, problem] = which.named;
  auto config = family->parseConfig(text);
  if (!config)
    return config.takeError();
  if (auto rejection =
          config->tmpl->prune(problem, config->config, session.model()))
    return makeError(ErrorCode::InvalidArgument, "{} cannot run: {}", text,
                     rejection->text());
  BenchChoice choice;
  choice.from = "named";
  choice.plan = config->tmpl->plan(problem, config->config, session.model());
  for (const TranslationUnit &unit : choice.plan.kernels) {
    auto artifact = session.artifacts->get(unit);
    if (!artifact)
      return artifact.takeError();
    choice.artifacts.push_back(std::move(*artifact));
  }
  return choice;
}

/// What the records say, else the estimator; measured first where a budget is
/// given.
static std::vector<TuningOutcome> tunedChoices(llvm::ArrayRef<Case> cases,
                                               const TuningOptions &tuning,
                                               LiveSession &session) {
  Tuner tuner(session.model(), *session.artifacts, *session.records,
              tuning.maxTrials ? session.trials.get() : nullptr);
  return tuner.tuneAll(problemsOf(cases), tuning);
}

namespace {
/// What bench's options say.
struct BenchRequest {
  BenchOptions measuring;
  TuningOptions tuning;
  std::optional<std::string> config;
  std::string commit;
  bool wantsPeer = true;
};
} // namespace

static llvm::Expected<BenchRequest> readRequest(const ParsedOptions &options) {
  BenchRequest request;
  auto commit = commitOf(options);
  if (!commit)
    return commit.takeError();
  request.commit = std::move(*commit);
  request.measuring.allAlgorithms = options.has("--all-heuristics");
  request.measuring.hot = options.has("--hot");
  request.config = options.value("--config");
  request.wantsPeer = !options.has("--no-peer");
  request.measuring.wantsStream = request.wantsPeer;
  // Without trials the budget bounds compilation alone.
  constexpr std::chrono::minutes kCompileBudget(30);
  auto budget = options.duration("--budget", kCompileBudget);
  if (!budget)
    return budget.takeError();
  request.tuning.budget = *budget;
  if (!options.has("--budget"))
    request.tuning.maxTrials = 0;
  auto model = chooseModel(options);
  if (!model)
    return model.takeError();
  request.tuning.model = *model;
  if (request.measuring.hot)
    request.tuning.mode = MeasurementMode::Hot;
  return request;
}

/// What the peers of \p cases do.
static std::string peerProtocol(llvm::ArrayRef<Case> cases,
                                const BenchRequest &request,
                                const CublasLt *peer) {
  std::string text;
  if (peer)
    text += libraryProtocol(cases);
  if (request.measuring.wantsStream && llvm::any_of(cases, isStreamed))
    text += kStreamProtocol;
  return text;
}

static BenchSetting describeSetting(const ParsedOptions &options,
                                    const LiveSession &session,
                                    llvm::ArrayRef<Case> cases,
                                    const BenchRequest &request,
                                    const CublasLt *peer) {
  BenchSetting setting;
  setting.what = options.value("--suite").value_or("problems");
  setting.commit = request.commit;
  setting.gpu = marketingNameOf(session.model());
  setting.driver = driverVersionText(session.driver());
  setting.hot = request.measuring.hot;
  setting.peer = peer ? "cuBLASLt " + peer->versionText()
                 : request.measuring.wantsStream ? "reference stream"
                                                 : "no peer";
  setting.protocol = fmt::format(
      "{}, N(0, 1) data, short launches in CUDA graphs of 16 or more, all "
      "sides interleaved in one run{}, median of 7 to 15 samples{}.",
      setting.hot ? std::string("Hot L2 (one copy of the operands)")
                  : fmt::format("Cold L2 (operands rotate over {} times its "
                                "size, or it is flushed)",
                                kColdFactor),
      peer ? " on the same buffers" : "", peerProtocol(cases, request, peer));
  return setting;
}

static llvm::Expected<BenchChoice> choiceOf(const Case &which,
                                            const BenchRequest &request,
                                            const TuningOutcome *outcome,
                                            LiveSession &session) {
  if (request.config)
    return namedChoice(which, *request.config, session);
  if (outcome->error.code != ErrorCode::Success)
    return errorOf(outcome->error);
  const TuningChoice &choice = outcome->result.choice;
  if (choice.origin == ChoiceOrigin::Empty)
    return makeError(ErrorCode::InvalidArgument, "there is nothing to compute");
  return BenchChoice{choice.plan, choice.artifacts, nameOf(choice.origin).str(),
                     choice.validated};
}

/// Measures every case; an error is one after which nothing can be.
static llvm::Error measureAll(llvm::ArrayRef<Case> cases,
                              const BenchRequest &request, LiveSession &session,
                              BenchRunner &runner, BenchReport &report) {
  InterruptGuard interrupt;
  std::vector<TuningOutcome> outcomes;
  if (!request.config)
    outcomes = tunedChoices(cases, request.tuning, session);
  ProgressBar bar("measuring");
  report.interrupted = true; // unless the end is reached
  for (size_t i = 0; i < cases.size() && !interrupt.flag()->load(); ++i) {
    bar.update(i, cases.size(), cases[i].name);
    BenchRow &row = report.rows.emplace_back();
    row.which = &cases[i];
    auto choice = choiceOf(cases[i], request,
                           request.config ? nullptr : &outcomes[i], session);
    if (!choice) {
      ErrorSummary error = summarize(choice.takeError());
      row.error = error.message;
      if (error.code == ErrorCode::CompilerMissing)
        return errorOf(error);
      continue;
    }
    if (llvm::Error error = runner.measure(*choice, row))
      return error;
  }
  report.interrupted = report.rows.size() < cases.size();
  return llvm::Error::success();
}

/// bench --chain.
static llvm::Expected<int> runChains(const ParsedOptions &options,
                                     llvm::ArrayRef<Case> cases,
                                     const BenchRequest &request,
                                     LiveSession &session) {
  if (llvm::Error error = checkOutput(options.value("--out")))
    return error;
  std::vector<TuningOutcome> outcomes;
  if (!request.config)
    outcomes = tunedChoices(cases, request.tuning, session);
  ChainReport report;
  report.setting = describeSetting(options, session, cases, request, nullptr);
  report.setting.protocol = fmt::format(
      "Chains of launches, cold L2 (the operands of each rotate over {} times "
      "its size, or it is flushed), N(0, 1) data, CUDA graphs of 16 chains or "
      "more, all sides interleaved in one run, median of 9 to 21 samples. "
      "Ordered: each launch begins when the one ahead has ended; dependent: by "
      "programmatic dependent launch; constant: the same with weights that may "
      "be read before the launch ahead has ended.",
      kColdFactor);
  llvm::Error failure = measureChains(
      session, cases,
      [&](size_t i) {
        return choiceOf(cases[i], request,
                        request.config ? nullptr : &outcomes[i], session);
      },
      report);
  return finish(report, options.value("--out"), options.wantsJson(),
                std::move(failure), report.exitCode());
}

static llvm::Expected<int> runBench(const ParsedOptions &options) {
  Environment environment = Environment::fromProcess();
  Registry registry = makeBuiltinRegistry();
  auto request = readRequest(options);
  if (!request)
    return request.takeError();
  if (options.has("--background"))
    return runBackgroundBench(options, environment, registry);
  for (const char *option : {"--permille", "--calls", "--time", "--checked"})
    if (options.has(option))
      return makeError(ErrorCode::InvalidArgument, "{} is for --background",
                       option);
  auto draw = readDraw(options, registry);
  if (!draw)
    return draw.takeError();
  if (*draw)
    return runDrawBench(options, environment, registry, **draw);
  for (const char *option : {"--state", "--prepare-budget"})
    if (options.has(option))
      return makeError(ErrorCode::InvalidArgument, "{} is for --draw", option);
  auto cases = readCases(options, registry);
  if (!cases)
    return cases.takeError();
  auto set = studySetOf(options, environment, *cases);
  if (!set)
    return set.takeError();
  if (*set)
    return runStudy(options, environment, *cases, **set);
  if (options.has("--jit"))
    return runJitBench(options, environment, registry, *cases);
  auto session = LiveSession::open(options, environment, "bench measures");
  if (!session)
    return session.takeError();
  if (options.has("--chain"))
    return runChains(options, *cases, *request, **session);
  std::shared_ptr<const CublasLt> peer;
  if (request->wantsPeer && llvm::any_of(*cases, hasLibraryPeer)) {
    auto library = loadPeerLibrary(options, environment);
    if (!library)
      return library.takeError();
    peer = std::move(*library);
  }
  auto runner = BenchRunner::create(**session, peer, request->measuring);
  if (!runner)
    return runner.takeError();
  if (llvm::Error error = checkOutput(options.value("--out")))
    return error;

  BenchReport report;
  report.setting =
      describeSetting(options, **session, *cases, *request, peer.get());
  llvm::Error failure =
      measureAll(*cases, *request, **session, **runner, report);
  for (const BenchRow &row : report.rows)
    if (!row.toolchain.empty())
      report.setting.cuda = cudaVersionOf(row.toolchain);
  return finish(report, options.value("--out"), options.wantsJson(),
                std::move(failure), report.exitCode());
}

static constexpr OptionSpec kOptions[] = {
    kDeviceOption,
    kOverrideOption,
    kModelOption,
    kSuiteOption,
    kFilterOption,
    {"--config", "TEXT", "measure this config instead of the chosen one"},
    {"--budget", "TIME",
     "tune first, for so long; default: not at all. With --draw, for each "
     "problem of the state tuned; default 800ms. With --background, for each "
     "layer of the tuned engine; default 4s"},
    kDrawOption,
    kRangeOption,
    kBytesOption,
    kSeedOption,
    {"--state", "NAME,...",
     "--draw: how problems are met: first, met, tuned, prepared; default "
     "first,prepared, or first,tuned where a range cannot be prepared"},
    {"--prepare-budget", "TIME",
     "--draw: of each layer of the state prepared; default: the engine's"},
    {"--all-heuristics", nullptr,
     "measure every algorithm that cuBLASLt's heuristic answers, too"},
    {"--no-peer", nullptr, "measure Kiln alone"},
    {"--chain", nullptr,
     "measure the problems one after the other, with and without dependent "
     "launch; cases named CHAIN/STEP are chains of their own"},
    kBackgroundOption,
    kPermilleOption,
    kCallsOption,
    kTimeOption,
    kCheckedOption,
    {"--set", "NAME",
     "measure a named set of configs beside each other; an unknown name lists "
     "those that the family has, an empty one is that of KERNELS"},
    {"--runs", "N",
     "--set: runs over all configs that are averaged; default 1"},
    {"--warmup-runs", "N", "--set: runs before that do not count; default 0"},
    {"--samples", "N", "--set: samples of each config in a run; default 7"},
    {"--csv", "FILE", "--set: write the table there as CSV"},
    {"--profile", nullptr, "--set: counters of ncu for each config as well"},
    {"--ncu", "PATH", "--profile: the profiler; default: it is searched"},
    {"--launch-only", nullptr,
     "--set: launch each config --runs times and measure nothing, for a "
     "profiler"},
    {"--hot", nullptr, "operands in L2 instead of cold"},
    {"--out", "FILE", "write the JSON document there as well"},
    kCommitOption,
    {"--jit", nullptr,
     "measure compilation and the way from the cache to a launch instead"},
    {"--repeats", "N", "--jit: compilations of each kernel; default 5"},
    {"--new", "N", "--jit: cases timed as new problems; default 8"},
    kThreadsOption,
    kCacheDirOption,
    kNoCacheOption,
    kNvrtcOption,
};

const CommandSpec kBenchCommand = {
    "bench",
    "PROBLEM...",
    "compare with cuBLASLt or a stream, interleaved in one run",
    "Measures what the records, else the estimator choose beside cuBLASLt's "
    "own choice, and checks that both are right. A ratio is the peer's time "
    "over Kiln's: above 1, Kiln is faster. KILN_CUBLASLT names the peer's "
    "library.\nMemory-bound cases are compared with a reference stream that "
    "moves the same bytes with as many reads and writes: the fastest of the "
    "driver's copy and plain kernels. A fraction is the stream's time over "
    "Kiln's: at 1, nothing is left to gain.\nWith --draw the problems are "
    "layers of the suite with drawn values, in the order of the draw, as an "
    "engine meets them: first is the first call of mode predict with an empty "
    "cache, met that of mode tune, tuned is tuned by itself ahead of time, and "
    "in prepared the range of each layer was prepared once for all seeds. "
    "Ranges may name extents that are fixed in an engine, too: columns, n, k. "
    "Caches are empty ones unless --cache-dir names one. Ends with 1 if a "
    "result is wrong.\nWith --background an engine of the mode background "
    "meets random calls of plain products, with an empty cache: how long calls "
    "take of the host behind the first one, before and while kernels are "
    "compiled, loaded and measured; what trials take of the GPU, and of the "
    "calls; whether all results are right while plans are swapped, and "
    "captures of another thread survive; and how fast it is with quiet beside "
    "an engine that was tuned. Ends with 1 if a result is wrong, a call or a "
    "capture fails, or there is no quiet.\n  kiln bench --suite "
    "benchmarks/suites/memory_bound.json --commit COMMIT --out "
    "benchmarks/results/memory_bound.json",
    kOptions,
    runBench,
};

} // namespace kiln::cli
