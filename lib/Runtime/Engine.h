//===- Engine.h - all state of one engine ---------------------------------===//
//
// Slow or fallible parts are made at the first need and kept: the driver, the
// cache, the state of each context, plans, arenas. A launch that hits reads two
// tables (plans, arenas) and takes no lock, except that of its stream if its
// plan has a workspace (StreamLock.h). Other locks are held over look-ups and
// insertions, and over the making of things that all threads wait for: the
// driver, the kernel of one artifact, a stream's arena. No lock is held over
// hooks or the work on a problem, which one thread does while others wait for
// its outcome.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Cache/Store.h"
#include "Call/CallReader.h"
#include "Call/ProblemSpec.h"
#include "Choice/Chooser.h"
#include "Compile/ProcessExit.h"
#include "Families/Families.h"
#include "Observe/WaitLedger.h"
#include "Observe/Watch.h"
#include "Runtime/ContextState.h"
#include "Runtime/Counter.h"
#include "Runtime/Dispatch.h"
#include "Runtime/EngineConfig.h"
#include "Runtime/Flights.h"
#include "Store/ArtifactStore.h"
#include "Store/Records.h"
#include "Support/ByteGauge.h"
#include "Workspace/Arena.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace kiln {

class Background;
class HistoryWriter;
class PrepareTask;
class StatisticsWriter;
struct RangePart;

class Engine {
public:
  /// Makes an engine; opens nothing yet. Errors: those of EngineConfig::parse.
  static llvm::Expected<std::unique_ptr<Engine>>
  create(const kiln_engine_options *options);
  /// Cancels and awaits tasks, unloads kernels, frees arenas.
  ~Engine();
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  const EngineConfig &config() const { return options; }
  const Hooks &hooks() const { return options.hooks; }
  const Registry &families() const { return registry; }

  /// Reads \p problem for this engine. Errors: those of ProblemSpec::parse;
  /// Unsupported if it wants choices to be frozen and they are not.
  llvm::Expected<ProblemSpec> readProblem(const kiln_problem *problem) const;
  /// Whether choices are frozen if \p call wants that, and the error if not.
  bool mayServe(const FamilyCall &call) const {
    return !call.wantsFrozen || freezes;
  }
  llvm::Error refuseFrozen() const;

  // Launching. The errors are those of the functions in kiln.h.
  /// Launches the problem that \p args, the struct of \p family, describes.
  llvm::Error launchCall(kiln_family family, const void *args,
                         const kiln_workspace *workspace, CudaStream stream);
  llvm::Error run(const kiln_problem *problem, const kiln_arguments *arguments,
                  const kiln_workspace *workspace, CudaStream stream);

  /// Launches \p plan. Takes the stream's arena if \p workspace is null and one
  /// is needed. Takes no lock except the stream's, and that only if the plan
  /// has a workspace; allocates nothing unless it fails or meets the stream
  /// first. If \p plan needs more room than can be had and \p key is given,
  /// launches the plan that served \p key before and fits.
  llvm::Error launchPlan(const Driver &driver, const ActivePlan &plan,
                         const StreamContext &context,
                         const Arguments &arguments,
                         const kiln_workspace *workspace, CudaStream stream,
                         const DispatchKey *key = nullptr);

  // Parts that are made at the first need. Thread-safe.
  llvm::Expected<const Driver *> driver();
  struct Services {
    std::unique_ptr<cache::Store> store;
    std::unique_ptr<ArtifactStore> artifacts;
    std::unique_ptr<RecordStore> records;
    std::unique_ptr<PortfolioStore> portfolios;
    std::unique_ptr<PoolStore> pools;
  };
  Services &services();
  /// The state of a context, made if it is new. May take some 10 ms.
  llvm::Expected<std::shared_ptr<ContextState>>
  contextState(const Driver &driver, const StreamContext &context);
  /// Returns the device of the options, for work without a GPU; nullopt if none
  /// is named.
  llvm::Expected<std::optional<DeviceModel>> namedDevice() const;

  /// Returns a chooser for \p request in \p context; both must outlive it.
  Chooser chooser(ContextState &context, const PlanRequest &request);
  /// Returns the places where a chooser looks for a device of that class. The
  /// pools must outlive it.
  ChoiceSources choiceSources(const DeviceModel &device,
                              const std::string &deviceClass, PlanPool &plans,
                              PortfolioPool &portfolios);
  /// Returns the places where the portfolios of \p context are found.
  PortfolioSources portfolioSources(const ContextState &context);

  /// Marks the plans of \p kernel in \p state as its verdict says.
  void markPlans(ContextState &state, const std::string &kernel);
  /// Reads the verdicts that other processes stored, from files.
  void recheckVerdicts();

  // Parts for the work on plans. The loader exists once the driver does.
  KernelLoader &kernelLoader() { return *loader; }
  Flights &flights() { return problemsInWork; }
  struct WorkCounts {
    std::atomic<uint64_t> dispatchMisses{0}, trials{0}, trialFailures{0},
        tuneNs{0}, loadNs{0};
  };
  WorkCounts &counts() { return workCounts; }
  observe::WaitLedger &waits() { return ledger; }

  /// Returns the plan of a problem for a launch on \p stream, from the prepared
  /// ranges or by acquire(). It is not known to be wrong. Errors: NotPrepared
  /// if the stream is captured. With Haste::None the plan serves more than one
  /// launch, and a stand-in does not suffice.
  llvm::Expected<ChosenPlan>
  acquireForLaunch(const Driver &driver, const StreamContext &context,
                   const KernelFamily &family, const Problem &problem,
                   CudaStream stream, Haste haste = Haste::Launch);
  /// Like acquireForLaunch(), for a whole range.
  llvm::Expected<std::shared_ptr<const PreparedRange>>
  acquireRange(const Driver &driver, const StreamContext &context,
               const RangePart &part, CudaStream stream);
  /// Makes an arena for launches with the workspace \p needed. Errors:
  /// NotPrepared while the stream is captured; those of ArenaPool::ensure.
  llvm::Error ensureArena(const Driver &driver, const StreamContext &context,
                          const WorkspaceLayout &needed, CudaStream stream);

  /// Null: this engine writes no history.
  HistoryWriter *history() const { return historyWriter.get(); }
  /// Null in all modes but one.
  Background *background() const { return theBackground.get(); }

  const DispatchTable &plans() const { return dispatch; }
  DispatchTable &plans() { return dispatch; }

  /// Calls the hooks with the messages of the cache, unless other threads wait
  /// for the work of this one.
  void deliverMessages() const;

  // Tasks that the destructor must end.
  void addTask(std::shared_ptr<PrepareTask> task);
  void removeTask(const PrepareTask *task);

  kiln_statistics statistics();
  /// Counts the memory that this engine holds.
  const MemoryGauges &memory() const { return gauges; }

private:
  explicit Engine(EngineConfig config);

  llvm::Error enqueuePlan(const Driver &driver, const ActivePlan &plan,
                          const StreamContext &context,
                          const Arguments &arguments,
                          const kiln_workspace *workspace, CudaStream stream,
                          const DispatchKey *key);
  [[gnu::noinline]] llvm::Error
  enqueueApart(const Driver &driver, const ActivePlan &plan,
               const StreamContext &context, const Arguments &arguments,
               const kiln_workspace *workspace, CudaStream stream,
               const DispatchKey *key);
  [[gnu::noinline]] llvm::Error
  launchWatched(const Driver &driver, const ActivePlan &plan,
                const StreamContext &context, const Arguments &arguments,
                const kiln_workspace *workspace, CudaStream stream,
                const DispatchKey *key);
  [[gnu::noinline]] llvm::Error
  launchCallSlow(const KernelFamily &family, const void *args, FamilyCall &call,
                 const kiln_workspace *workspace, CudaStream stream,
                 const StreamContext *known);
  llvm::Expected<ChosenPlan> acquireOnce(const Driver &driver,
                                         const StreamContext &context,
                                         const KernelFamily &family,
                                         const Problem &problem,
                                         CudaStream stream, Haste haste);
  [[gnu::noinline]] const ActivePlan *findFitting(const DispatchKey &key,
                                                  const Workspace &room);
  ChosenPlan takePrepared(const ContextState &context, const DispatchKey &key,
                          const Problem &problem);
  ChosenPlan takeStandIn(ContextState &context, const DispatchKey &key,
                         const Problem &problem);
  ChosenPlan takeLoaded(ContextState &context, const DispatchKey &key,
                        const Problem &problem);
  void noteLaunch(ContextState *context, const KernelFamily &family,
                  const Problem &problem);
  void noteIfCaptured(const Driver &driver, CudaStream stream) const;
  llvm::Error refuseCapture(const Driver &driver, CudaStream stream,
                            llvm::function_ref<std::string()> what) const;
  llvm::Expected<DeviceModel> assembleModel(const Driver &driver,
                                            const StreamContext &context);
  void dropDeadTwin(const StreamContext &context);
  void takeVerdict(llvm::StringRef deviceClass, const Verdict &verdict,
                   bool isWrong);
  std::shared_ptr<ContextState> knownContext(uint64_t id) const;
  void closeContexts();
  void tellWait(const observe::WaitEntry &entry) const;

  const EngineConfig options;
  const Registry registry;
  const CallTable calls;
  const MemoryGauges gauges;

  const bool freezes = isFrozen(options.mode);

  // Read by launches.
  std::atomic<const Driver *> readyDriver{nullptr};
  DispatchTable dispatch;
  ArenaPool arenas;
  Counter launches, fallbackLaunches;

  WorkCounts workCounts;
  observe::WaitLedger ledger{
      [this](const observe::WaitEntry &entry) { tellWait(entry); }};
  Flights problemsInWork{*this};

  std::mutex markMutex;     ///< held while plans are marked
  mutable std::mutex mutex; ///< guards what follows
  std::shared_ptr<Driver> loadedDriver;
  std::unique_ptr<Services> madeServices;
  std::unique_ptr<KernelLoader> loader;
  std::map<uint64_t, std::shared_ptr<ContextState>> contexts;
  std::map<const PrepareTask *, std::shared_ptr<PrepareTask>> tasks;
  bool isEnding = false; ///< services made from now on compile nothing

  std::unique_ptr<Background> theBackground;
  std::unique_ptr<StatisticsWriter> statisticsWriter; ///< KILN_STATISTICS
  std::unique_ptr<HistoryWriter> historyWriter;
  ExitNotice exitNotice{options.hooks.log()};
};

} // namespace kiln
