//===- Jit.cpp - kiln-bench jit: how long compiling and loading take ------===//
//
// Compiles the kernels that serve the problems one at a time without any cache,
// then all at once. On a live device it also measures the way from a cached
// file to the return of the first launch, and first calls of new problems.
//
//===----------------------------------------------------------------------===//
#include "Choice/Chooser.h"
#include "Compile/CompilePool.h"
#include "Driver/Stream.h"
#include "Store/LoadedPlan.h"
#include "Trial/TrialBuffers.h"
#include "Trial/TrialTools.h"
#include "cli/Console.h"
#include "cli/Finish.h"
#include "cli/LiveSession.h"
#include "cli/Stopwatch.h"
#include "compare/BenchSetting.h"
#include "compare/Comparer.h"
#include "kiln-bench/Commands.h"
#include "kiln-bench/JitReport.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

namespace kiln::cli {

namespace {

/// The config that serves one case: a record's, else the first choice.
struct ChosenPlan {
  const Case *which = nullptr;
  const Template *tmpl = nullptr;
  Plan plan;
  bool isRecorded = false;
};

} // namespace

/// The config that an engine without trials takes from records, if any.
static llvm::Expected<std::optional<Choice>>
recordedChoice(const Case &which, const LiveSession &session) {
  const auto &[family, problem] = which.named;
  const PlanRequest request{*family, problem};
  const std::string deviceClass = deviceClassKey(session.model());
  const PortfolioStore portfolioStore(*session.cache);
  PlanPool plans;
  PortfolioPool portfolios;
  constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();
  Chooser chooser({KILN_MODE_PREDICT, session.model(), deviceClass, plans,
                   portfolios, *session.artifacts, *session.records,
                   portfolioStore, kNoLimit},
                  request);
  std::optional<Choice> recorded;
  chooser.offerMeasured([&](const Choice &choice) {
    recorded = choice;
    return true;
  });
  return recorded;
}

/// The config that serves each of \p cases; without \p session records are not
/// asked.
static llvm::Expected<std::vector<ChosenPlan>>
choosePlans(llvm::ArrayRef<Case> cases, const DeviceModel &device,
            const LiveSession *session) {
  std::vector<ChosenPlan> plans;
  for (const Case &which : cases) {
    const auto &[family, problem] = which.named;
    if (family->isEmpty(problem))
      continue;
    ChosenPlan chosen;
    chosen.which = &which;
    Values config;
    if (session) {
      auto recorded = recordedChoice(which, *session);
      if (!recorded)
        return recorded.takeError();
      if (const auto &choice = *recorded) {
        chosen.isRecorded = true;
        chosen.tmpl = choice->tmpl;
        config = choice->config;
      }
    }
    if (!chosen.isRecorded) {
      auto space = exploreSpace(*family, problem, device);
      if (!space)
        return space.takeError();
      chosen.tmpl = space->ranked.front().tmpl;
      config = std::move(space->ranked.front().config);
    }
    chosen.plan = chosen.tmpl->plan(problem, config, device);
    plans.push_back(std::move(chosen));
  }
  return plans;
}

/// Compiles each distinct kernel \p repeats times on this thread.
static llvm::Error compileAlone(Compiler &compiler,
                                llvm::ArrayRef<ChosenPlan> plans,
                                JitReport &report) {
  std::map<std::string, CompiledKernel> distinct;
  for (const ChosenPlan &chosen : plans)
    for (const TranslationUnit &unit : chosen.plan.kernels)
      distinct.try_emplace(
          artifactKey(unit),
          CompiledKernel{chosen.plan.configText(), unit, 0, {}});
  ProgressBar bar("compiling");
  for (auto &[key, kernel] : distinct) {
    bar.update(report.kernels.size(), distinct.size(), kernel.config);
    for (unsigned i = 0; i < report.repeats; ++i) {
      auto artifact = compiler.compile(kernel.unit);
      if (!artifact)
        return artifact.takeError();
      double ms = artifact->phases.totalMs;
      if (i > 0 && ms >= kernel.minMs)
        continue;
      kernel.minMs = ms;
      kernel.phases = artifact->phases;
      report.toolchain = artifact->toolchain;
    }
    report.kernels.push_back(std::move(kernel));
  }
  return llvm::Error::success();
}

/// Compiles the kernels with all threads, several times if they are few.
static void compileTogether(std::shared_ptr<Compiler> compiler,
                            const CompilePoolOptions &options,
                            JitReport &report) {
  CompilePool pool(std::move(compiler), options);
  report.threads = pool.width();
  // Each thread gets a few, so that the last ones weigh little.
  size_t wanted = 4 * static_cast<size_t>(pool.width());
  const Stopwatch watch;
  size_t count = 0;
  std::vector<std::future<CompilePool::Result>> results;
  while (count < std::max(wanted, report.kernels.size()))
    for (const CompiledKernel &kernel : report.kernels) {
      results.push_back(pool.submit(kernel.unit));
      ++count;
    }
  for (std::future<CompilePool::Result> &result : results)
    if (CompilePool::Result artifact = result.get(); !artifact)
      llvm::consumeError(artifact.takeError()); // each compiled before
  report.kernelsPerSecond = static_cast<double>(count) / watch.ms() * 1e3;
}

/// One case from a store as a new process has it to the return of its launch.
static llvm::Expected<double> timeHit(const ChosenPlan &chosen,
                                      const LiveSession &session,
                                      const cache::StoreOptions &cacheOptions,
                                      const TrialBuffers &buffers,
                                      CudaStream stream, JitReport &report) {
  const Problem &problem = chosen.which->named.problem;
  std::unique_ptr<cache::Store> cache = cache::Store::open(cacheOptions);
  ArtifactStoreOptions storeOptions;
  storeOptions.allowCompile = false;
  ArtifactStore artifacts(*cache, storeOptions);
  KernelLoader loader(session.driver());
  auto workspace =
      DeviceMemory::allocate(session.driver(), chosen.plan.workspace.bytes());
  if (!workspace)
    return workspace.takeError();
  Arguments arguments = buffers.arguments(0);

  const Stopwatch watch;
  auto loaded = obtainPlan(
      artifacts, loader,
      chosen.tmpl->plan(problem, chosen.plan.config, session.model()),
      static_cast<int32_t>(session.model().smCount), KernelLifetime::Users);
  if (!loaded)
    return loaded.takeError();
  // The workspace is not zeroed: the launch does it.
  if (llvm::Error error = (*loaded)->launch(
          arguments, {workspace->address(), workspace->bytes(), false}, stream))
    return error;
  double ms = watch.ms();
  if (llvm::Error error = synchronize(session.driver(), stream))
    return error;
  report.compilerStayedOut &= !artifacts.isCompilerLoaded();
  return ms;
}

/// Publishes what is not in the cache yet, and reads it into the page cache.
/// False where a kernel is refused: an engine would take another config.
static llvm::Expected<bool> cacheKernels(const Plan &plan,
                                         ArtifactStore &artifacts) {
  for (const TranslationUnit &unit : plan.kernels) {
    auto artifact = artifacts.get(unit);
    if (artifact)
      continue;
    ErrorSummary error = summarize(artifact.takeError());
    if (error.code == ErrorCode::CompileFailed)
      return false;
    return errorOf(error);
  }
  return true;
}

static llvm::Error timeHits(llvm::ArrayRef<ChosenPlan> plans,
                            const ParsedOptions &options,
                            const Environment &environment,
                            LiveSession &session, JitReport &report) {
  std::vector<std::string> notes;
  auto cacheOptions = chooseCache(options, environment, notes);
  if (!cacheOptions)
    return cacheOptions.takeError();
  auto trial = TrialStream::open(session);
  if (!trial)
    return trial.takeError();
  auto memory = memoryInfo(session.driver());
  if (!memory)
    return memory.takeError();
  TrialBufferOptions bufferOptions;
  bufferOptions.capBytes = memory->freeBytes / 10 * 8;
  bufferOptions.forTiming = false;
  for (const ChosenPlan &chosen : plans) {
    auto isThere = cacheKernels(chosen.plan, *session.artifacts);
    if (!isThere)
      return isThere.takeError();
    if (!*isThere) {
      ++report.refused;
      continue;
    }
    const auto &[family, problem] = chosen.which->named;
    auto buffers =
        TrialBuffers::create(session.driver(), trial->tools, *family, problem,
                             bufferOptions, trial->stream.handle());
    if (!buffers)
      return buffers.takeError();
    if (llvm::Error error = trial->stream.synchronize())
      return error;
    auto ms = timeHit(chosen, session, *cacheOptions, *buffers,
                      trial->stream.handle(), report);
    if (!ms)
      return ms.takeError();
    report.hits.push_back({chosen.which->name, chosen.plan.configText(), *ms});
  }
  return llvm::Error::success();
}

/// Figures that need a live device: hits, and first calls of \p newCount cases.
static llvm::Error timeLive(llvm::ArrayRef<Case> cases,
                            llvm::ArrayRef<ChosenPlan> plans, unsigned newCount,
                            const ParsedOptions &options,
                            const Environment &environment,
                            const Registry &registry, LiveSession &session,
                            JitReport &report) {
  report.gpu = marketingNameOf(session.model());
  report.driver = driverVersionText(session.driver());
  if (llvm::Error error =
          timeHits(plans, options, environment, session, report))
    return error;
  auto rows =
      timeNewProblems(cases, newCount, options, environment, registry, session);
  if (!rows)
    return rows.takeError();
  report.newProblems = std::move(*rows);
  return llvm::Error::success();
}

static llvm::Expected<int> runJit(const ParsedOptions &options) {
  auto subject = Subject::read(options);
  if (!subject)
    return subject.takeError();
  const auto &[environment, registry, cases, allowance] = *subject;
  if (llvm::Error error = checkOutput(options.value("--out")))
    return error;
  JitReport report;
  report.what = subjectOf(options);
  auto commit = commitOf(options);
  if (!commit)
    return commit.takeError();
  report.commit = std::move(*commit);
  auto repeats = options.number("--repeats", 5, 1, 100);
  if (!repeats)
    return repeats.takeError();
  report.repeats = *repeats;
  auto newCount = options.number("--new", 8, 0, 10000);
  if (!newCount)
    return newCount.takeError();
  auto storeOptions = artifactOptions(options, environment);
  if (!storeOptions)
    return storeOptions.takeError();
  auto device = chooseDevice(options, environment);
  if (!device)
    return device.takeError();
  report.device = device->model().name;
  if (!device->driver)
    report.noHits = "the device is not here";
  else if (options.has("--no-cache"))
    report.noHits = "there is no cache";
  std::unique_ptr<LiveSession> session;
  if (report.noHits.empty()) {
    auto opened = LiveSession::open(options, environment, "jit measures");
    if (!opened)
      return opened.takeError();
    session = std::move(*opened);
  }
  auto plans = choosePlans(cases, device->model(), session.get());
  if (!plans)
    return plans.takeError();
  report.cases = plans->size();
  report.recorded = static_cast<size_t>(llvm::count_if(
      *plans, [](const ChosenPlan &chosen) { return chosen.isRecorded; }));

  auto compiler = std::make_shared<Compiler>(storeOptions->nvrtc);
  if (llvm::Error error = compileAlone(*compiler, *plans, report))
    return error;
  compileTogether(compiler, storeOptions->pool, report);
  llvm::Error failure = session
                            ? timeLive(cases, *plans, *newCount, options,
                                       environment, registry, *session, report)
                            : llvm::Error::success();
  return finish(report, options.value("--out"), options.wantsJson(),
                std::move(failure), kExitDone);
}

static constexpr OptionSpec kJitOwnOptions[] = {
    {"--repeats", "N", "compilations of each kernel; default 5"},
    {"--new", "N", "cases timed as new problems; default 8"},
};
static constexpr auto kJitOptions = joinOptions(
    kSubjectOptions, kJitOwnOptions, kDocumentOptions, kCompilerOptions);

const CommandSpec kJitCommand = {
    "jit",
    "PROBLEM...",
    "measure compilation and the steps from the cache to a launch",
    "Compiles the kernels that serve the problems: those of their records, "
    "else the first choices. It compiles them one at a time, which gives the "
    "least of some repeats, and then all at once. On a live GPU it also times "
    "the steps from a cached file to the return of the first launch, and "
    "first calls of new problems.\n  kiln-bench jit PROBLEM --device h200-sxm",
    kJitOptions,
    runJit,
};

} // namespace kiln::cli
