//===- BenchJit.cpp -------------------------------------------------------===//
#include "kiln/bench/BenchJit.h"

#include "Choice/Chooser.h"
#include "Compile/CompilePool.h"
#include "Driver/Stream.h"
#include "Store/LoadedPlan.h"
#include "Support/Json.h"
#include "Trial/Statistics.h"
#include "Trial/TrialBuffers.h"
#include "Trial/TrialTools.h"
#include "kiln/Console.h"
#include "kiln/Finish.h"
#include "kiln/LiveSession.h"
#include "kiln/Report.h"
#include "kiln/bench/FirstCalls.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

namespace kiln::cli {

using Clock = std::chrono::steady_clock;

static double msSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start)
      .count();
}

namespace {

/// What serves one case: what a record offers, else the first choice.
struct ChosenPlan {
  const Case *which = nullptr;
  const Template *tmpl = nullptr;
  Plan plan;
  bool isRecorded = false;
};

/// One distinct kernel, compiled alone.
struct CompiledKernel {
  std::string config;
  TranslationUnit unit;
  double minMs = 0;
  PhaseTimes phases; ///< of the fastest compilation
};

/// From prepare to the return of the first launch, the file in the page cache.
struct HitTime {
  std::string name, config;
  double ms = 0;
};

class JitReport final : public Report {
public:
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;

  std::string what, commit; ///< for the document
  std::string device, toolchain;
  std::string gpu, driver; ///< empty where nothing is launched
  unsigned repeats = 0, threads = 0;
  size_t cases = 0, recorded = 0; ///< and those that a record answers
  std::vector<CompiledKernel> kernels;
  double kernelsPerSecond = 0;
  std::vector<HitTime> hits;
  size_t refused =
      0; ///< cases without a hit, since ptxas spilled or serialised
  bool compilerStayedOut = true; ///< of the way from cache to launch
  std::vector<NewProblem> newProblems;
  std::string noHits; ///< why both were not measured
};

/// Least, middle and greatest of some times.
struct Spread {
  double least = 0, median = 0, greatest = 0;

  explicit Spread(std::vector<double> values) {
    if (values.empty())
      return;
    std::sort(values.begin(), values.end());
    least = values.front();
    median = summarizeSamples(values).median;
    greatest = values.back();
  }
  std::string text() const {
    return fmt::format("median {:.1f}, least {:.1f}, greatest {:.1f} ms",
                       median, least, greatest);
  }
  llvm::json::Object toJson() const {
    return llvm::json::Object{{"median_ms", rounded(median)},
                              {"min_ms", rounded(least)},
                              {"max_ms", rounded(greatest)}};
  }
};

} // namespace

template <class T, class Get>
static Spread spreadOf(const std::vector<T> &values, Get get) {
  std::vector<double> times;
  for (const T &value : values)
    times.push_back(get(value));
  return Spread(std::move(times));
}

static Spread compileSpread(const std::vector<CompiledKernel> &kernels) {
  return spreadOf(kernels, [](const CompiledKernel &k) { return k.minMs; });
}

static Spread hitSpread(const std::vector<HitTime> &hits) {
  return spreadOf(hits, [](const HitTime &hit) { return hit.ms; });
}

/// Of the rows that have the time.
template <class Get>
static Spread newSpread(const std::vector<NewProblem> &rows, Get get) {
  std::vector<double> times;
  for (const NewProblem &row : rows)
    if (row.error.empty())
      times.push_back(get(row));
  return Spread(std::move(times));
}

static Spread ownSpread(const std::vector<NewProblem> &rows) {
  return newSpread(rows, [](const NewProblem &row) { return row.ownMs(); });
}
static Spread tuneSpread(const std::vector<NewProblem> &rows) {
  return newSpread(rows, [](const NewProblem &row) { return row.tuneMs; });
}
static Spread cachedSpread(const std::vector<NewProblem> &rows) {
  return newSpread(rows, [](const NewProblem &row) { return row.cachedMs; });
}

static void printNew(const std::vector<NewProblem> &rows,
                     llvm::raw_ostream &os) {
  Table table({"new problem", ">predict", ">of it compiling", ">tune",
               ">cached", "ms; failed"});
  for (const NewProblem &row : rows) {
    auto ms = [](double value) { return fmt::format("{:.2f}", value); };
    table.addRow({row.name, ms(row.predictMs), ms(row.compileMs),
                  ms(row.tuneMs), ms(row.cachedMs), row.error});
  }
  table.print(os);
  os << fmt::format("new problem, mode predict without compiling: {}\n",
                    ownSpread(rows).text())
     << fmt::format("new problem, mode tune: {}\n", tuneSpread(rows).text())
     << fmt::format("new problem, prepare and launch from a warm cache: {}\n",
                    cachedSpread(rows).text());
}

static llvm::json::Object newToJson(const std::vector<NewProblem> &rows) {
  llvm::json::Array list;
  for (const NewProblem &row : rows) {
    llvm::json::Object object{{"name", row.name},
                              {"predict_ms", rounded(row.predictMs)},
                              {"compile_ms", rounded(row.compileMs)},
                              {"tune_ms", rounded(row.tuneMs)},
                              {"cached_ms", rounded(row.cachedMs)}};
    if (!row.error.empty())
      object["error"] = jsonText(row.error);
    list.push_back(std::move(object));
  }
  return llvm::json::Object{
      {"problems", std::move(list)},
      {"predict_without_compiling", ownSpread(rows).toJson()},
      {"tune", tuneSpread(rows).toJson()},
      {"cached", cachedSpread(rows).toJson()}};
}

void JitReport::print(llvm::raw_ostream &os) const {
  os << fmt::format("{}, {}; {} cases, {} chosen by records\n", device,
                    toolchain, cases, recorded);
  Table table({"kernel", ">ms", ">front end", ">nvvm", ">ptxas"});
  for (const CompiledKernel &kernel : kernels) {
    auto ms = [](double value) { return fmt::format("{:.1f}", value); };
    table.addRow({kernel.config, ms(kernel.minMs), ms(kernel.phases.frontEndMs),
                  ms(kernel.phases.nvvmMs), ms(kernel.phases.ptxasMs)});
  }
  table.print(os);
  os << fmt::format("{} kernels, one thread, least of {}: {}\n", kernels.size(),
                    repeats, compileSpread(kernels).text())
     << fmt::format("{} threads: {:.1f} kernels/s\n", threads,
                    kernelsPerSecond);
  if (!noHits.empty())
    os << fmt::format("cache to first launch: not measured, {}\n", noHits);
  else
    os << fmt::format("cache to first launch, {} cases: {}{}\n", hits.size(),
                      hitSpread(hits).text(),
                      compilerStayedOut ? "" : "; NVRTC was loaded");
  if (!newProblems.empty())
    printNew(newProblems, os);
}

llvm::json::Object JitReport::toJson() const {
  llvm::json::Array list, hitList;
  for (const CompiledKernel &kernel : kernels)
    list.push_back(
        llvm::json::Object{{"config", kernel.config},
                           {"arch", kernel.unit.arch()},
                           {"min_ms", rounded(kernel.minMs)},
                           {"front_end_ms", rounded(kernel.phases.frontEndMs)},
                           {"nvvm_ms", rounded(kernel.phases.nvvmMs)},
                           {"ptxas_ms", rounded(kernel.phases.ptxasMs)}});
  for (const HitTime &hit : hits)
    hitList.push_back(llvm::json::Object{
        {"name", hit.name}, {"config", hit.config}, {"ms", rounded(hit.ms)}});
  llvm::json::Object object{{"what", what},
                            {"commit", commit},
                            {"device", device},
                            {"toolchain", toolchain},
                            {"repeats", repeats},
                            {"threads", threads},
                            {"cases", static_cast<int64_t>(cases)},
                            {"recorded", static_cast<int64_t>(recorded)},
                            {"kernels", std::move(list)},
                            {"compile", compileSpread(kernels).toJson()},
                            {"kernels_per_s", rounded(kernelsPerSecond)}};
  if (noHits.empty()) {
    object["gpu"] = gpu;
    object["driver"] = driver;
    object["hits"] = std::move(hitList);
    object["refused"] = static_cast<int64_t>(refused);
    object["hit_to_launch"] = hitSpread(hits).toJson();
    object["nvrtc_loaded_on_hits"] = !compilerStayedOut;
    object["new_problems"] = newToJson(newProblems);
  } else {
    object["no_hits"] = noHits;
  }
  return object;
}

/// What an engine that makes no trials takes from records, if anything.
static llvm::Expected<std::optional<Choice>>
recordedChoice(const Case &which, const LiveSession &session) {
  const auto &[family, problem] = which.named;
  const PlanRequest request{*family, problem};
  const std::string deviceClass = deviceClassKey(session.model());
  const DecisionStore decisions(*session.cache);
  const PortfolioStore portfolioStore(*session.cache);
  PlanPool plans;
  PortfolioPool portfolios;
  constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();
  Chooser chooser({KILN_MODE_PREDICT, session.model(), deviceClass, plans,
                   portfolios, *session.artifacts, *session.records, decisions,
                   portfolioStore, kNoLimit},
                  request);
  std::optional<Choice> recorded;
  if (llvm::Error error =
          chooser.offer(ChoiceStep::Record, [&](const Choice &choice) {
            recorded = choice;
            return true;
          }))
    return error;
  return recorded;
}

/// What serves each of \p cases; without \p session no record does.
static llvm::Expected<std::vector<ChosenPlan>>
choosePlans(llvm::ArrayRef<Case> cases, const DeviceModel &device,
            ModelKind model, const LiveSession *session) {
  std::vector<ChosenPlan> plans;
  for (const Case &which : cases) {
    const auto &[family, problem] = which.named;
    if (family->isEmpty(problem))
      continue;
    ChosenPlan chosen;
    chosen.which = &which;
    Record config;
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
      auto space = exploreSpace(*family, problem, device, model);
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
  Clock::time_point start = Clock::now();
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
  report.kernelsPerSecond = static_cast<double>(count) / msSince(start) * 1e3;
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

  Clock::time_point start = Clock::now();
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
  double ms = msSince(start);
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
  auto stream = Stream::create(session.driver());
  if (!stream)
    return stream.takeError();
  auto tools =
      TrialTools::load(session.driver(), *session.artifacts, session.model());
  if (!tools)
    return tools.takeError();
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
        TrialBuffers::create(session.driver(), *tools, *family, problem,
                             bufferOptions, stream->handle());
    if (!buffers)
      return buffers.takeError();
    if (llvm::Error error = stream->synchronize())
      return error;
    auto ms = timeHit(chosen, session, *cacheOptions, *buffers,
                      stream->handle(), report);
    if (!ms)
      return ms.takeError();
    report.hits.push_back({chosen.which->name, chosen.plan.configText(), *ms});
  }
  return llvm::Error::success();
}

/// What only a live device shows: hits, and first calls of \p newCount cases.
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

llvm::Expected<int> runJitBench(const ParsedOptions &options,
                                const Environment &environment,
                                const Registry &registry,
                                llvm::ArrayRef<Case> cases) {
  if (llvm::Error error = checkOutput(options.value("--out")))
    return error;
  JitReport report;
  report.what = options.value("--suite").value_or("problems");
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
  auto model = chooseModel(options);
  if (!model)
    return model.takeError();
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
    auto opened = LiveSession::open(options, environment, "bench measures");
    if (!opened)
      return opened.takeError();
    session = std::move(*opened);
  }
  auto plans = choosePlans(cases, device->model(), *model, session.get());
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

} // namespace kiln::cli
