//===- Engine.cpp - all state of one engine -------------------------------===//
#include "Runtime/Engine.h"

#include "Cache/CachePaths.h"
#include "Device/DeviceProbe.h"
#include "Kernel/Sources.h"
#include "Observe/Observe.h"
#include "Observe/Span.h"
#include "Runtime/Background.h"
#include "Runtime/HistoryWriter.h"
#include "Runtime/PrepareTask.h"
#include "Runtime/StatisticsWriter.h"
#include "Store/DeviceAssembly.h"
#include "Store/ProbeStore.h"
#include "Store/Verdicts.h"
#include "Support/OutputPath.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln {

/// The most fields that a problem of any family has.
static size_t mostFields(const Registry &registry) {
  size_t most = 0;
  for (const auto &family : registry.families())
    most = std::max(most, family->problemSchema().fields().size());
  return most;
}

/// The caller's allocator as arenas use it.
static std::optional<ArenaAllocator>
arenaAllocatorOf(const std::optional<kiln_allocator> &given) {
  if (!given)
    return std::nullopt;
  return ArenaAllocator{
      [given = *given](size_t bytes, size_t alignment, CudaStream stream) {
        return given.allocate(given.user, bytes, alignment, stream);
      },
      [given = *given](void *memory, size_t bytes, CudaStream stream) {
        given.deallocate(given.user, memory, bytes, stream);
      }};
}

Engine::Engine(EngineConfig config)
    : options(std::move(config)), registry(makeBuiltinRegistry()),
      calls(llvm::cantFail(CallTable::create(registry),
                           "two families have one number")),
      dispatch(mostFields(registry), DispatchTable::kUsualCapacity,
               gauges.host),
      arenas(options.workspaceLimit, arenaAllocatorOf(options.allocator),
             gauges.arenas) {
  if (options.mode == KILN_MODE_BACKGROUND)
    theBackground = std::make_unique<Background>(
        *this, options.backgroundShare, [this] { return launches.value(); });
}

llvm::Expected<std::unique_ptr<Engine>>
Engine::create(const kiln_engine_options *given) {
  auto config = EngineConfig::parse(given);
  if (!config)
    return config.takeError();
  observe::watchAsAsked(config->environment, config->hooks.log());
  if (config->profilerLimits)
    ProfilerWindow::open(*config->profilerLimits);
  std::unique_ptr<Engine> engine(new Engine(std::move(*config)));
  if (const auto &path = engine->options.environment.kilnStatistics)
    engine->statisticsWriter =
        std::make_unique<StatisticsWriter>(*engine, *path);
  if (const auto &path = engine->options.history)
    engine->historyWriter = std::make_unique<HistoryWriter>(
        engine->hooks(), engine->families(), absolutePath(processPath(*path)));
  return engine;
}

Engine::~Engine() {
  std::map<const PrepareTask *, std::shared_ptr<PrepareTask>> running;
  Services *made = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex);
    running.swap(tasks);
    isEnding = true;
    made = madeServices.get();
  }
  for (auto &[key, task] : running)
    task->cancel();
  if (theBackground)
    theBackground->cancel();
  // A compilation that hangs must not hold the tasks for longer than its grace.
  // A task may be making the services right now: then services() stops them.
  if ((!running.empty() || theBackground) && made)
    made->artifacts->stop();
  if (theBackground)
    theBackground->stop();
  for (auto &[key, task] : running)
    task->join();
  statisticsWriter.reset();
  historyWriter.reset();
  closeContexts();
  deliverMessages();
}

void Engine::closeContexts() {
  for (auto &[id, state] : contexts) {
    if (isAlive(*loadedDriver, state->handle, id)) {
      auto scope = ScopedContext::push(*loadedDriver, state->handle);
      if (scope) {
        CaptureModeGuard relaxed(*loadedDriver);
        if (state->closeTrials()) {
          arenas.release(*loadedDriver, id);
          loader->unloadContext(id);
          continue;
        }
        // Frees would wait for the kernel that hangs, so the context keeps its
        // memory.
        arenas.forget(id);
        loader->forgetContext(id);
        continue;
      }
      llvm::consumeError(scope.takeError());
    }
    state->abandonTrials();
    arenas.forget(id);
    loader->forgetContext(id);
  }
}

//===----------------------------------------------------------------------===//
// Made at the first need
//===----------------------------------------------------------------------===//

llvm::Expected<const Driver *> Engine::driver() {
  if (const Driver *ready = readyDriver.load(std::memory_order_acquire))
    return ready;
  std::lock_guard<std::mutex> lock(mutex);
  if (!loadedDriver) {
    auto loaded = Driver::load(options.environment);
    if (!loaded)
      return loaded.takeError();
    loader = std::make_unique<KernelLoader>(
        **loaded,
        [this] {
          if (theBackground)
            theBackground->awaitLoad();
        },
        gauges.modules);
    loadedDriver = std::move(*loaded);
    readyDriver.store(loadedDriver.get(), std::memory_order_release);
  }
  return loadedDriver.get();
}

/// The places of the cache, from the options and the environment.
static cache::StoreOptions storeOptionsOf(const EngineConfig &config,
                                          std::vector<std::string> &notes) {
  cache::StoreOptions options;
  options.log = config.hooks.cacheLog();
  options.limitBytes = config.cacheLimit;
  if (config.memoryOnly)
    return options;
  options.readDirs = config.readDirs.empty()
                         ? cache::chooseReadDirs(config.environment)
                         : config.readDirs;
  std::optional<std::string> writeDir = config.cacheDir;
  if (!writeDir) {
    cache::CacheRoot root = cache::findCacheRoot(config.environment);
    writeDir = std::move(root.path);
    notes = std::move(root.notes);
  }
  if (!config.readOnly)
    options.writeDir = std::move(writeDir);
  else if (writeDir)
    options.readDirs.insert(options.readDirs.begin(), std::move(*writeDir));
  return options;
}

Engine::Services &Engine::services() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (madeServices)
      return *madeServices;
  }
  foreseeCompilation();
  // Opening the store may call the log, so no lock is held meanwhile. A second
  // thread drops its own; nothing on disk depends on it.
  std::vector<std::string> notes;
  auto made = std::make_unique<Services>();
  cache::StoreOptions storeOptions = storeOptionsOf(options, notes);
  storeOptions.gauge = gauges.host;
  made->store = cache::Store::open(std::move(storeOptions));
  if (const auto &folder = options.environment.kilnKernelSrc)
    if (llvm::Error error = overrideKernelSources(*folder))
      notes.push_back("KILN_KERNEL_SRC: " +
                      summarize(std::move(error)).message);
  for (const std::string &note : notes)
    hooks().log().warning("{}", note);
  ArtifactStoreOptions artifactOptions;
  artifactOptions.nvrtc =
      NvrtcSearch::fromEnvironment(options.environment, {buildTreeToolkit()});
  artifactOptions.pool.threads = options.threads;
  // The pool compiles beside threads that launch. A priority does not help if
  // the process has a quota of CPU time, because then all of it stops for some
  // milliseconds. So the pool leaves half of the CPUs.
  constexpr int kNiceness = 10;
  if (options.mode == KILN_MODE_BACKGROUND) {
    artifactOptions.pool.niceness = kNiceness;
    if (options.threads == 0)
      artifactOptions.pool.threads = std::max(compileConcurrency() / 2, 1u);
  }
  artifactOptions.allowCompile = hasStep(options.mode, ChoiceStep::Compile);
  artifactOptions.exactToolchain = options.exactToolchain;
  artifactOptions.looksOnce =
      isFrozen(options.mode) && !artifactOptions.allowCompile;
  made->artifacts =
      std::make_unique<ArtifactStore>(*made->store, artifactOptions);
  // In the mode background launches read the file of a layer only once, because
  // a file system may be slow; the background's thread reads it again before it
  // measures.
  RecordStoreOptions recordOptions;
  constexpr std::chrono::milliseconds kNever = std::chrono::hours(24 * 365);
  if (options.mode == KILN_MODE_BACKGROUND)
    recordOptions.recheckInterval = kNever;
  // The entries that frozen choices follow from are frozen when they are first
  // read.
  recordOptions.readsOnce = isFrozen(options.mode);
  made->records = std::make_unique<RecordStore>(*made->store, recordOptions);
  made->pools = recordOptions.readsOnce
                    ? std::make_unique<PoolStore>(*made->store, kNever)
                    : std::make_unique<PoolStore>(*made->store);
  made->portfolios =
      std::make_unique<PortfolioStore>(*made->store, recordOptions);
  deliverMessages();
  made->records->verdicts().listen(
      [this](llvm::StringRef deviceClass, const Verdict &verdict,
             bool isWrong) { takeVerdict(deviceClass, verdict, isWrong); });
  std::lock_guard<std::mutex> lock(mutex);
  if (!madeServices)
    madeServices = std::move(made);
  if (isEnding)
    madeServices->artifacts->stop();
  return *madeServices;
}

/// Marks the plans of a kernel that trials found wrong, or right again, in all
/// contexts of that device class. A thread that uses such a plan chooses again.
void Engine::takeVerdict(llvm::StringRef deviceClass, const Verdict &verdict,
                         bool isWrong) {
  std::vector<std::shared_ptr<ContextState>> states;
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (const auto &[id, state] : contexts)
      if (state->deviceClass == deviceClass)
        states.push_back(state);
  }
  for (const auto &state : states)
    markPlans(*state, verdict.kernel);
  if (isWrong)
    hooks().log().warning(
        "{} computes wrong results for {} on {} ({}): it is not launched again",
        verdict.config, verdict.problem, deviceClass, verdict.reason);
}

/// Verdicts come from many threads, so the marking thread reads the current
/// one.
void Engine::markPlans(ContextState &state, const std::string &kernel) {
  const Verdicts &verdicts = services().records->verdicts();
  std::lock_guard<std::mutex> lock(markMutex);
  state.plans.mark(kernel, verdicts.isKnownWrong(state.deviceClass, kernel));
}

void Engine::recheckVerdicts() {
  std::vector<std::string> classes;
  Verdicts *verdicts = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!madeServices)
      return;
    verdicts = &madeServices->records->verdicts();
    for (const auto &[id, state] : contexts)
      classes.push_back(state->deviceClass);
  }
  llvm::sort(classes);
  classes.erase(llvm::unique(classes), classes.end());
  for (const std::string &one : classes)
    verdicts->recheck(one);
}

/// Limits \p model to the SMs of a green context, which has fewer than its
/// device. Plans are made for those, and records of other contexts do not
/// apply.
static void limitToContext(const Driver &driver, CudaContext context,
                           DeviceModel &model) {
  auto count = smCountOf(driver, context);
  if (!count) { // all of them, as far as is known
    llvm::consumeError(count.takeError());
    return;
  }
  if (*count <= 0 || *count >= model.smCount)
    return;
  if (model.uncalibrated) {
    auto before = std::make_shared<DeviceModel>(*model.uncalibrated);
    limitToContext(driver, context, *before);
    model.uncalibrated = std::move(before);
  }
  const double share = double(*count) / double(model.smCount);
  model.smCount = *count;
  for (int64_t *clusters :
       {&model.maxClusters2, &model.maxClusters4, &model.maxClusters8})
    *clusters = static_cast<int64_t>(double(*clusters) * share);
}

llvm::Expected<DeviceModel>
Engine::assembleModel(const Driver &driver, const StreamContext &context) {
  auto ordinal = deviceOf(driver, context.handle);
  if (!ordinal)
    return ordinal.takeError();
  DeviceSelection selection;
  selection.catalogName = options.catalogName;
  selection.overridePath = options.deviceFile;
  selection.ordinal = *ordinal;
  selection.believeProbes = true;
  ProbeStore probes(*services().store);
  auto assembled =
      assembleDevice(&driver, options.environment, selection, &probes);
  if (!assembled)
    return assembled.takeError();
  addCalibration(*assembled, *services().store);
  for (const std::string &note : assembled->notes)
    hooks().log().debug("device {}: {}", *ordinal, note);
  limitToContext(driver, context.handle, assembled->model);
  return std::move(assembled->model);
}

llvm::Expected<std::optional<DeviceModel>> Engine::namedDevice() const {
  if (!options.deviceFile.empty()) {
    std::vector<std::string> notes;
    auto model = assembleDeviceModel({}, options.deviceFile, notes);
    if (!model)
      return model.takeError();
    return std::optional<DeviceModel>(std::move(*model));
  }
  if (options.catalogName.empty())
    return std::optional<DeviceModel>();
  DeviceSelection selection;
  selection.catalogName = options.catalogName;
  auto assembled = assembleDevice(nullptr, options.environment, selection);
  if (!assembled)
    return assembled.takeError();
  return std::optional<DeviceModel>(std::move(assembled->model));
}

/// Drops the context that had this handle before. The driver reuses handles, so
/// destroyed contexts leave no more state behind than there were contexts at
/// one time.
void Engine::dropDeadTwin(const StreamContext &context) {
  for (auto it = contexts.begin(); it != contexts.end();) {
    bool isDead =
        it->second->handle == context.handle && it->first != context.id;
    if (!isDead) {
      ++it;
      continue;
    }
    dispatch.forgetContext(it->first);
    it->second->abandonTrials();
    arenas.forget(it->first);
    loader->forgetContext(it->first);
    it = contexts.erase(it);
  }
}

std::shared_ptr<ContextState> Engine::knownContext(uint64_t id) const {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = contexts.find(id);
  return found == contexts.end() ? nullptr : found->second;
}

llvm::Expected<std::shared_ptr<ContextState>>
Engine::contextState(const Driver &driver, const StreamContext &context) {
  if (auto known = knownContext(context.id))
    return known;
  const observe::Span span(observe::Phase::Lookup,
                           "a context is met for the first time");
  auto model = assembleModel(driver, context);
  if (!model)
    return model.takeError();
  auto made = std::make_shared<ContextState>(context.id, context.handle,
                                             std::move(*model));
  if (theBackground)
    theBackground->watch();
  std::lock_guard<std::mutex> lock(mutex);
  dropDeadTwin(context);
  return contexts.try_emplace(context.id, std::move(made)).first->second;
}

ChoiceSources Engine::choiceSources(const DeviceModel &device,
                                    const std::string &deviceClass,
                                    PlanPool &plans,
                                    PortfolioPool &portfolios) {
  Services &made = services();
  return {options.mode,    device,           deviceClass,
          plans,           portfolios,       *made.artifacts,
          *made.records,   *made.portfolios, options.workspaceLimit,
          made.pools.get()};
}

Chooser Engine::chooser(ContextState &context, const PlanRequest &request) {
  return Chooser(choiceSources(context.model, context.deviceClass,
                               context.plans, context.portfolios),
                 request);
}

PortfolioSources Engine::portfolioSources(const ContextState &context) {
  const Services &made = services();
  return {*made.portfolios, *made.records, context.model, context.deviceClass,
          options.workspaceLimit};
}

//===----------------------------------------------------------------------===//
// Tasks and statistics
//===----------------------------------------------------------------------===//

/// An event of a call that waited.
void Engine::tellWait(const observe::WaitEntry &entry) const {
  if (!hooks().hasEvents())
    return;
  constexpr double kMsPerNs = 1e-6;
  EventInfo info;
  info.kind = KILN_EVENT_WAIT;
  info.problem = entry.problem;
  info.key = entry.call;
  info.message = fmt::format(
      "{}: {} for {:.1f} ms{}{}", entry.call, nameOf(entry.phase).str(),
      double(entry.phaseNs[static_cast<size_t>(entry.phase)]) * kMsPerNs,
      *entry.reason ? ": " : "", entry.reason);
  info.elapsedMs = double(entry.elapsedNs) * kMsPerNs;
  hooks().emit(info);
}

void Engine::deliverMessages() const {
  if (!Flights::isWorking())
    hooks().deliver();
}

void Engine::addTask(std::shared_ptr<PrepareTask> task) {
  std::lock_guard<std::mutex> lock(mutex);
  const PrepareTask *key = task.get();
  tasks.emplace(key, std::move(task));
}

void Engine::removeTask(const PrepareTask *task) {
  std::lock_guard<std::mutex> lock(mutex);
  tasks.erase(task);
}

static void tellMemory(const MemoryGauges &gauges, kiln_statistics &result) {
  auto tell = [](const ByteGauge &gauge, uint64_t &bytes, uint64_t &peak) {
    const ByteGauge::Reading reading = gauge.read();
    bytes = reading.bytes;
    peak = reading.peakBytes;
  };
  tell(*gauges.arenas, result.arena_bytes, result.arena_peak_bytes);
  tell(*gauges.modules, result.module_bytes, result.module_peak_bytes);
  tell(*gauges.scratch, result.scratch_bytes, result.scratch_peak_bytes);
  tell(*gauges.host, result.host_bytes, result.host_peak_bytes);
}

kiln_statistics Engine::statistics() {
  kiln_statistics result = KILN_INIT(kiln_statistics);
  const observe::WaitLedger::Totals waited = ledger.totals();
  result.waits = waited.count;
  result.wait_ns = waited.ns;
  result.longest_wait_ns = waited.longestNs;
  result.launches = launches.value();
  result.fallback_launches = fallbackLaunches.value();
  result.dispatch_misses = workCounts.dispatchMisses.load();
  result.trials = workCounts.trials.load();
  result.trial_failures = workCounts.trialFailures.load();
  result.tune_ns = workCounts.tuneNs.load();
  result.load_ns = workCounts.loadNs.load();
  result.plans = dispatch.planCount();
  if (theBackground) {
    const Background::Counts work = theBackground->counts();
    result.background_pending = work.pending;
    result.background_done = work.done;
    result.background_swaps = work.swaps;
    result.background_gpu_ns = work.gpuNs;
    result.background_paused = work.isPaused;
    result.background_held_ns = work.heldNs;
  }
  tellMemory(gauges, result);
  Services *made = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex);
    made = madeServices.get();
  }
  if (!made)
    return result;
  ArtifactStatistics artifacts = made->artifacts->statistics();
  result.cache_hits = artifacts.diskHits;
  result.cache_misses = artifacts.compiled + artifacts.failed;
  result.compiles = artifacts.compiled;
  result.compile_failures = artifacts.failed;
  constexpr double kNsPerMs = 1e6;
  result.compile_ns = static_cast<uint64_t>(artifacts.compileMs * kNsPerMs);
  cache::Statistics store = made->store->statistics();
  result.cache_evictions = store.evicted;
  result.cache_faults = store.damaged + store.refused + store.readErrors;
  if (!options.memoryOnly && !options.readOnly)
    result.cache_faults += store.keptInMemory + store.dropped;
  return result;
}

} // namespace kiln
