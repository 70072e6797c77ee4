//===- BenchJit.cpp -------------------------------------------------------===//
#include "kiln/BenchJit.h"

#include "Compile/CompilePool.h"
#include "Driver/Stream.h"
#include "Tune/LoadedPlan.h"
#include "Tune/Statistics.h"
#include "Tune/TrialBuffers.h"
#include "Tune/TrialTools.h"
#include "kiln/Console.h"
#include "kiln/Live.h"
#include "kiln/Report.h"

#include <algorithm>
#include <map>

namespace kiln::cli {

using Clock = std::chrono::steady_clock;

static double msSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start)
      .count();
}

namespace {

/// The first choice of one case.
struct ChosenPlan {
  const Case *which = nullptr;
  Candidate candidate;
  Plan plan;
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
  llvm::json::Object toJSON() const override;

  std::string device, toolchain;
  unsigned repeats = 0, threads = 0;
  std::vector<CompiledKernel> kernels;
  double kernelsPerSecond = 0;
  std::vector<HitTime> hits;
  bool compilerStayedOut = true; ///< of the way from cache to launch
  std::string noHits;            ///< why they were not measured
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
  llvm::json::Object toJSON() const {
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

void JitReport::print(llvm::raw_ostream &os) const {
  os << fmt::format("{}, {}\n", device, toolchain);
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
}

llvm::json::Object JitReport::toJSON() const {
  llvm::json::Array list, hitList;
  for (const CompiledKernel &kernel : kernels)
    list.push_back(
        llvm::json::Object{{"config", kernel.config},
                           {"arch", kernel.unit.arch},
                           {"min_ms", rounded(kernel.minMs)},
                           {"front_end_ms", rounded(kernel.phases.frontEndMs)},
                           {"nvvm_ms", rounded(kernel.phases.nvvmMs)},
                           {"ptxas_ms", rounded(kernel.phases.ptxasMs)}});
  for (const HitTime &hit : hits)
    hitList.push_back(llvm::json::Object{
        {"name", hit.name}, {"config", hit.config}, {"ms", rounded(hit.ms)}});
  llvm::json::Object object{{"device", device},
                            {"toolchain", toolchain},
                            {"repeats", repeats},
                            {"threads", threads},
                            {"kernels", std::move(list)},
                            {"compile", compileSpread(kernels).toJSON()},
                            {"kernels_per_s", rounded(kernelsPerSecond)}};
  if (noHits.empty()) {
    object["hits"] = std::move(hitList);
    object["hit_to_launch"] = hitSpread(hits).toJSON();
    object["nvrtc_loaded_on_hits"] = !compilerStayedOut;
  } else {
    object["no_hits"] = noHits;
  }
  return object;
}

static llvm::Expected<std::vector<ChosenPlan>>
choosePlans(llvm::ArrayRef<Case> cases, const DeviceModel &device,
            ModelKind model) {
  std::vector<ChosenPlan> plans;
  for (const Case &which : cases) {
    const auto &[family, problem] = which.named;
    if (family->isEmpty(problem))
      continue;
    auto space = exploreSpace(*family, problem, device, model);
    if (!space)
      return space.takeError();
    ChosenPlan chosen;
    chosen.which = &which;
    chosen.candidate = std::move(space->ranked.front());
    chosen.plan =
        chosen.candidate.tmpl->plan(problem, chosen.candidate.config, device);
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
      DeviceMemory::allocate(session.driver(), chosen.plan.workspace.bytes);
  if (!workspace)
    return workspace.takeError();
  Arguments arguments = buffers.arguments(0);

  Clock::time_point start = Clock::now();
  auto loaded = obtainPlan(
      artifacts, loader,
      chosen.candidate.tmpl->plan(problem, chosen.candidate.config,
                                  session.model()),
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
    // Publishes what is not in the cache yet, and reads it into the page cache.
    for (const TranslationUnit &unit : chosen.plan.kernels)
      if (auto artifact = session.artifacts->get(unit); !artifact)
        return artifact.takeError();
    const auto &[family, problem] = chosen.which->named;
    auto buffers =
        TrialBuffers::create(session.driver(), *tools, *family, problem,
                             bufferOptions, DeviceMemory(), stream->handle());
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

llvm::Expected<int> runJitBench(const ParsedOptions &options,
                                const Environment &environment,
                                const Registry &registry,
                                llvm::ArrayRef<Case> cases) {
  JitReport report;
  auto repeats = options.number("--repeats", 5, 1, 100);
  if (!repeats)
    return repeats.takeError();
  report.repeats = *repeats;
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
  auto plans = choosePlans(cases, device->model(), *model);
  if (!plans)
    return plans.takeError();

  auto compiler = std::make_shared<Compiler>(storeOptions->nvrtc);
  if (llvm::Error error = compileAlone(*compiler, *plans, report))
    return error;
  compileTogether(compiler, storeOptions->pool, report);
  if (!device->driver)
    report.noHits = "the device is not here";
  else if (options.has("--no-cache"))
    report.noHits = "there is no cache";
  if (report.noHits.empty()) {
    auto session =
        LiveSession::open(options, environment, registry, "bench measures");
    if (!session)
      return session.takeError();
    if (llvm::Error error =
            timeHits(*plans, options, environment, **session, report))
      return error;
  }
  return emit(report, options.wantsJson());
}

} // namespace kiln::cli
