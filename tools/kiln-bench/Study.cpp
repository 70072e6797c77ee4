//===- Study.cpp - kiln-bench study: the gain of each decision ------------===//
//
// All configs of a set that are for one problem go through one trial: each is
// compared with the reference, then all are sampled alternately, the slowest as
// often as the fastest. A set may have configs for several problems (types of
// elements), which are measured one after the other.
//
// A profiler cannot look at that, because it repeats and slows the launches
// that it counts. So it gets a command of its own, --launch-only, which
// launches each config --runs times and nothing else.
//
//===----------------------------------------------------------------------===//
#include "Driver/DeviceMemory.h"
#include "Driver/Stream.h"
#include "Families/Families.h"
#include "Kernel/KernelName.h"
#include "Store/LoadedPlan.h"
#include "Trial/TrialBuffers.h"
#include "Trial/TrialTools.h"
#include "cli/Console.h"
#include "cli/CounterProfiler.h"
#include "cli/Finish.h"
#include "cli/LiveSession.h"
#include "compare/Comparer.h"
#include "kiln-bench/Commands.h"
#include "kiln-bench/StudyReport.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/FileSystem.h>

#include <map>

namespace kiln::cli {

namespace {

/// The values of the options.
struct StudyRequest {
  std::string set;
  unsigned runs = 1, warmups = 0, samples = 7;
  bool hot = false, launchOnly = false;
  std::optional<std::string> profiler, csv;
};

/// The measured form of one row.
struct Prepared {
  StudyRow *row;
  TrialCandidate candidate;
};

} // namespace

/// The set that --set names, else KERNELS.
static llvm::Expected<std::string> studySetOf(const ParsedOptions &options,
                                              const Environment &environment,
                                              llvm::ArrayRef<Case> cases) {
  auto given = options.value("--set");
  if (given && !given->empty())
    return std::move(*given);
  if (environment.kernels)
    return *environment.kernels;
  return makeError(ErrorCode::InvalidArgument,
                   "--set names no set, and KERNELS is not set: there are {}",
                   studySetsOf(*cases.front().named.family).str());
}

static llvm::Expected<StudyRequest> readStudy(const ParsedOptions &options,
                                              const Environment &environment,
                                              llvm::ArrayRef<Case> cases) {
  StudyRequest request;
  auto set = studySetOf(options, environment, cases);
  if (!set)
    return set.takeError();
  request.set = std::move(*set);
  request.hot = options.has("--hot");
  request.launchOnly = options.has("--launch-only");
  request.csv = options.value("--csv");
  constexpr unsigned kMost = 1000;
  auto runs = options.number("--runs", request.runs, 1, kMost);
  if (!runs)
    return runs.takeError();
  request.runs = *runs;
  auto warmups = options.number("--warmup-runs", request.warmups, 0, kMost);
  if (!warmups)
    return warmups.takeError();
  request.warmups = *warmups;
  auto samples = options.number("--samples", request.samples, 3, kMost);
  if (!samples)
    return samples.takeError();
  request.samples = *samples;
  if (options.has("--profile")) {
    auto found = findProfiler(options.value("--ncu"), environment);
    if (!found)
      return found.takeError();
    request.profiler = std::move(*found);
  }
  return request;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// A study also compiles configs that spaces leave out, because it measures the
/// cost of such a wall.
static void allowSpills(Plan &plan) {
  for (TranslationUnit &unit : plan.kernels) {
    UnitParts parts = unit.parts();
    parts.maySpill = true;
    unit = TranslationUnit(std::move(parts));
  }
}

/// A limit of the device or the problem, not of good sense.
static bool forbids(const Rejection &rejection) {
  return rejection.reason != PruneReason::Registers &&
         rejection.reason != PruneReason::Dominated;
}

static llvm::Error collectRows(llvm::ArrayRef<Case> cases,
                               const StudyRequest &request,
                               const DeviceModel &device, StudyReport &report) {
  for (const Case &which : cases) {
    const auto &[family, problem] = which.named;
    if (family->isEmpty(problem))
      return makeError(ErrorCode::InvalidArgument,
                       "{}: there is nothing to compute", which.name);
    auto configs = studySet(*family, request.set, problem, device);
    if (!configs)
      return configs.takeError();
    for (auto [place, config] : llvm::enumerate(*configs)) {
      StudyRow &row = report.rows.emplace_back();
      row.which = &which;
      row.study = std::move(config);
      row.place = place;
    }
  }
  return llvm::Error::success();
}

/// Plans and compiles all rows; a row that fails has an error.
static llvm::Expected<std::vector<Prepared>>
prepareRows(LiveSession &session, InterruptGuard &interrupt,
            StudyReport &report) {
  std::vector<Prepared> prepared;
  std::vector<TranslationUnit> units;
  for (StudyRow &row : report.rows) {
    const StudyConfig &study = row.study;
    if (auto rejection =
            study.tmpl->prune(study.problem, study.config, session.model());
        rejection && forbids(*rejection)) {
      row.error = "cannot run: " + rejection->text();
      continue;
    }
    Prepared &each = prepared.emplace_back();
    each.row = &row;
    each.candidate.plan =
        study.tmpl->plan(study.problem, study.config, session.model());
    each.candidate.isKept = true;
    allowSpills(each.candidate.plan);
    row.sharedBytes = each.candidate.plan.sharedBytes.front();
    llvm::append_range(units, each.candidate.plan.kernels);
  }
  ProgressBar bar("compiling");
  auto outcomes = session.artifacts->compileAll(
      units,
      [&](const ArtifactStore::Progress &progress) {
        bar.update(progress.done, progress.total);
      },
      interrupt.flag());
  size_t next = 0;
  for (Prepared &each : prepared)
    for (size_t i = 0; i < each.candidate.plan.kernels.size(); ++i) {
      ArtifactOutcome &outcome = outcomes[next++];
      if (!outcome.artifact) {
        each.row->error = outcome.error.message;
        if (outcome.error.code == ErrorCode::CompilerMissing)
          return errorOf(outcome.error);
        continue;
      }
      const ResourceUsage &usage = outcome.artifact->usage;
      each.row->registers =
          std::max(each.row->registers, usage.registersPerThread);
      each.row->spillBytes += usage.spillStoreBytes;
      each.row->toolchain = outcome.artifact->toolchain;
      each.candidate.artifacts.push_back(outcome.artifact);
    }
  llvm::erase_if(prepared,
                 [](const Prepared &each) { return !each.row->error.empty(); });
  return prepared;
}

/// Rows by what they compute, in the order of the set.
static std::vector<std::vector<Prepared *>>
byProblem(std::vector<Prepared> &prepared) {
  std::map<std::string, size_t> known;
  std::vector<std::vector<Prepared *>> groups;
  for (Prepared &each : prepared) {
    auto [at, isNew] =
        known.try_emplace(each.row->study.problem.text(), groups.size());
    if (isNew)
      groups.emplace_back();
    groups[at->second].push_back(&each);
  }
  return groups;
}

//===----------------------------------------------------------------------===//
// Measuring
//===----------------------------------------------------------------------===//

/// One run over all configs of one problem. The first compares them.
static llvm::Error measureGroup(llvm::ArrayRef<Prepared *> group,
                                const StudyRequest &request, unsigned run,
                                LiveSession &session,
                                InterruptGuard &interrupt) {
  TrialRequest trial;
  trial.family = group.front()->row->which->named.family;
  trial.problem = group.front()->row->study.problem;
  trial.options.mode =
      request.hot ? MeasurementMode::Hot : MeasurementMode::Cold;
  trial.options.validation =
      run == 0 ? TrialValidation::All : TrialValidation::None;
  trial.options.minSamples = trial.options.maxSamples = request.samples;
  trial.options.timeLimit = std::chrono::minutes(20);
  std::vector<Prepared *> running;
  for (Prepared *each : group)
    if (each->row->error.empty()) {
      running.push_back(each);
      trial.candidates.push_back(each->candidate);
    }
  if (running.empty())
    return llvm::Error::success();
  auto results = session.trials->run(trial, interrupt.flag());
  if (!results)
    return results.takeError();
  for (auto [each, result] : llvm::zip(running, *results)) {
    StudyRow &row = *each->row;
    each->candidate.loaded = result.loaded;
    if (run == 0)
      row.correct = result.status == TrialStatus::Ok && result.validated;
    if (result.status != TrialStatus::Ok)
      row.error =
          fmt::format("{}: {}", nameOf(result.status).str(), result.message);
    else if (run >= request.warmups && result.samples > 0)
      row.runNs.push_back(result.medianNs);
  }
  return llvm::Error::success();
}

static llvm::Error measureRows(std::vector<Prepared> &prepared,
                               const StudyRequest &request,
                               LiveSession &session, InterruptGuard &interrupt,
                               StudyReport &report) {
  auto groups = byProblem(prepared);
  ProgressBar bar("measuring");
  unsigned runs = request.warmups + request.runs;
  for (unsigned run = 0; run < runs; ++run)
    for (auto [i, group] : llvm::enumerate(groups)) {
      if (interrupt.flag()->load()) {
        report.interrupted = true;
        return llvm::Error::success();
      }
      bar.update(run * groups.size() + i, runs * groups.size());
      if (llvm::Error error =
              measureGroup(group, request, run, session, interrupt))
        return error;
    }
  return llvm::Error::success();
}

/// Launches each config --runs times, for a profiler to look at.
static llvm::Error launchRows(std::vector<Prepared> &prepared,
                              const StudyRequest &request,
                              LiveSession &session) {
  auto trial = TrialStream::open(session);
  if (!trial)
    return trial.takeError();
  KernelLoader loader(session.driver());
  for (llvm::ArrayRef<Prepared *> group : byProblem(prepared)) {
    auto memory = memoryInfo(session.driver());
    if (!memory)
      return memory.takeError();
    TrialBufferOptions bufferOptions;
    bufferOptions.capBytes = memory->freeBytes / 2;
    auto buffers =
        TrialBuffers::create(session.driver(), trial->tools,
                             *group.front()->row->which->named.family,
                             group.front()->row->study.problem, bufferOptions,
                             trial->stream.handle());
    if (!buffers)
      return buffers.takeError();
    Arguments arguments = buffers->arguments(0);
    for (Prepared *each : group) {
      const TrialCandidate &candidate = each->candidate;
      auto plan = LoadedPlan::load(
          loader, candidate.plan, candidate.artifacts,
          static_cast<int32_t>(session.model().smCount), KernelLifetime::Users);
      if (!plan)
        return plan.takeError();
      auto workspace = DeviceMemory::allocate(session.driver(),
                                              (*plan)->workspace().bytes());
      if (!workspace)
        return workspace.takeError();
      for (unsigned run = 0; run < request.runs; ++run)
        if (llvm::Error error = (*plan)->launch(
                arguments, {workspace->address(), workspace->bytes(), false},
                trial->stream.handle()))
          return error;
      if (llvm::Error error = trial->stream.synchronize())
        return error;
    }
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Profiling
//===----------------------------------------------------------------------===//

/// This command again, which only launches.
static std::vector<std::string> launchCommand(const ParsedOptions &options,
                                              const StudyRequest &request) {
  static int here; // an address of this program
  std::vector<std::string> words = {
      llvm::sys::fs::getMainExecutable("kiln-bench", &here), "study",
      "--set=" + request.set, "--launch-only",
      "--runs=" + std::to_string(request.runs)};
  for (const char *option : {"--device", "--override", "--suite", "--filter",
                             "--cache-dir", "--nvrtc", "--threads"})
    if (auto value = options.value(option))
      words.push_back(std::string(option) + "=" + *value);
  if (options.has("--no-cache"))
    words.push_back("--no-cache");
  llvm::append_range(words, options.operands());
  return words;
}

/// Adds the profiler's counters to the rows; launches come in the order of the
/// groups.
static llvm::Error profileRows(std::vector<Prepared> &prepared,
                               const ParsedOptions &options,
                               const StudyRequest &request) {
  auto launches = profile(*request.profiler, launchCommand(options, request),
                          kKernelPrefix);
  if (!launches)
    return launches.takeError();
  size_t expected = 0;
  for (const Prepared &each : prepared)
    expected += request.runs * each.candidate.plan.kernels.size();
  if (launches->size() != expected)
    return makeError(ErrorCode::Internal, "ncu saw {} launches instead of {}",
                     launches->size(), expected);
  size_t next = 0;
  for (llvm::ArrayRef<Prepared *> group : byProblem(prepared))
    for (Prepared *each : group) {
      StudyProfile mean;
      size_t kernels = each->candidate.plan.kernels.size();
      for (size_t i = 0; i < request.runs * kernels; ++i) {
        const ProfiledLaunch &launch = (*launches)[next++];
        mean.durationNs += launch.durationNs / request.runs;
        mean.cycles += launch.cycles / request.runs;
        mean.registers = std::max(mean.registers, launch.registers);
        mean.l2HitRate += launch.l2HitRate / double(request.runs * kernels);
      }
      each->row->profile = mean;
    }
  return llvm::Error::success();
}

static std::string protocolOf(const StudyRequest &request) {
  return fmt::format(
      "{} L2, N(0, 1) data, all configs of one type interleaved in one run, "
      "median of {} samples, mean of {} run{} after {} that do not count; each "
      "config is compared with the reference first.",
      request.hot ? "Hot" : "Cold", request.samples, request.runs,
      request.runs == 1 ? "" : "s", request.warmups);
}

static llvm::Expected<int> runStudy(const ParsedOptions &options) {
  const Environment environment = Environment::fromProcess();
  const Registry registry = makeBuiltinRegistry();
  auto cases = readCases(options, registry);
  if (!cases)
    return cases.takeError();
  auto request = readStudy(options, environment, *cases);
  if (!request)
    return request.takeError();
  auto session = LiveSession::open(options, environment, "study measures");
  if (!session)
    return session.takeError();
  auto setting = BenchSetting::of("study", options, **session);
  if (!setting)
    return setting.takeError();
  StudyReport report;
  report.set = request->set;
  report.runs = request->runs;
  report.setting = std::move(*setting);
  report.setting.protocol = protocolOf(*request);
  if (llvm::Error error =
          collectRows(*cases, *request, (*session)->model(), report))
    return error;
  for (const auto &path : {options.value("--out"), request->csv})
    if (llvm::Error error = checkOutput(path))
      return error;
  InterruptGuard interrupt;
  auto prepared = prepareRows(**session, interrupt, report);
  if (!prepared)
    return prepared.takeError();
  if (request->launchOnly) {
    if (llvm::Error error = launchRows(*prepared, *request, **session))
      return error;
    return kExitDone;
  }
  llvm::Error failure =
      measureRows(*prepared, *request, **session, interrupt, report);
  if (request->profiler) {
    llvm::Error error = profileRows(*prepared, options, *request);
    if (!failure)
      failure = std::move(error);
    else
      llvm::consumeError(std::move(error));
  }
  for (const StudyRow &row : report.rows)
    if (!row.toolchain.empty())
      report.setting.cuda = cudaVersionOf(row.toolchain);
  report.sort();
  if (request->csv)
    if (llvm::Error error = writeFile(*request->csv, report.toCsv()))
      failure = llvm::joinErrors(std::move(failure), std::move(error));
  return finish(report, options.value("--out"), options.wantsJson(),
                std::move(failure), report.exitCode());
}

static constexpr OptionSpec kStudyOwnOptions[] = {
    {"--set", "NAME",
     "the set; an unknown name lists the sets of the family; default: the "
     "environment variable KERNELS"},
    {"--runs", "N", "runs over all configs that are averaged; default 1"},
    {"--warmup-runs", "N", "runs before that do not count; default 0"},
    {"--samples", "N", "samples of each config in a run; default 7"},
    {"--hot", nullptr, "operands in L2 instead of cold"},
    {"--csv", "FILE", "write the table there as CSV"},
    {"--profile", nullptr, "counters of ncu for each config as well"},
    {"--ncu", "PATH", "--profile: the profiler; default: it is searched"},
    {"--launch-only", nullptr,
     "launch each config --runs times and measure nothing, for a profiler"},
};
static constexpr auto kStudyOptions =
    joinOptions(kDeviceOptions, kSuiteOptions, kStudyOwnOptions,
                kDocumentOptions, kCompilerOptions);

const CommandSpec kStudyCommand = {
    "study",
    "PROBLEM...",
    "measure a named set of configs beside each other",
    "Compares each config of the set with the reference and samples all of "
    "them alternately, so that a drift of the clock does not hide the effect "
    "of a knob. Configs that a space leaves out are measured, too, where they "
    "can run. Ends with 1 if a result is wrong.\n  kiln-bench study --suite "
    "FILE --set tune --csv tune.csv",
    kStudyOptions,
    runStudy,
};

} // namespace kiln::cli
