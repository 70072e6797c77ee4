//===- PrepareTask.h - kiln_prepare, synchronous or as a task -------------===//
#pragma once

#include "Kernel/PoolDraws.h"
#include "Observe/WaitLedger.h"
#include "Runtime/Engine.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace kiln {

struct PoolCover;
struct RangePart;

/// One kiln_prepare: its arguments are copied when it is made, run() does the
/// work, and any thread may watch it.
class PrepareTask : public std::enable_shared_from_this<PrepareTask> {
public:
  /// Reads the arguments. A problem that cannot be read counts as failed.
  /// Errors: InvalidArgument, Unsupported (the options), those of the driver
  /// for a stream.
  static llvm::Expected<std::shared_ptr<PrepareTask>>
  create(Engine &engine, const kiln_problem *problems, size_t count,
         const kiln_prepare_options *options);

  /// Does the work on the calling thread, once. \p ledger notes how long that
  /// takes; null where no caller waits for it.
  void run(observe::WaitLedger *ledger = nullptr) noexcept;
  /// Does the work on a thread of the executor or of Kiln.
  void start();

  void cancel() { cancelled.store(true); }
  /// Waits until the work has ended and, if the thread is Kiln's, until that
  /// has ended as well and is in no code of the library. Called by one thread
  /// at a time.
  void join();
  /// Waits for at most \p timeoutMs, for ever if it is negative. True if the
  /// work has ended.
  bool wait(int64_t timeoutMs);
  kiln_progress progress() const;
  /// Success, or the first failed problem's error; only when it has ended.
  llvm::Error result() const;

private:
  /// One stream, or the current context if there is no stream.
  struct Target {
    StreamContext context;
    CudaStream stream = nullptr;
    bool hasStream = false;
  };
  struct Item {
    std::optional<ProblemSpec> spec;
    std::optional<PoolSubject> pool; ///< instead of spec
    ErrorSummary error;
  };

  explicit PrepareTask(Engine &engine) : engine(engine) {}

  llvm::Error readOptions(const kiln_prepare_options *options);
  llvm::Error findTargets(const kiln_prepare_options *options);
  std::string subject() const;
  void work();
  /// Whether nothing is loaded or measured.
  bool onlyCompiles() const;
  void readItem(const kiln_problem &problem, Item &item) const;
  void compileOnly();
  llvm::Expected<DeviceModel> deviceToCompileFor();
  llvm::Error prepareProblem(const ProblemSpec &spec);
  llvm::Error prepareIn(const Driver &driver, ContextState &state,
                        const ProblemSpec &spec, const Target &target,
                        std::chrono::milliseconds budget);
  llvm::Expected<WorkspaceLayout>
  prepareRange(ContextState &state, const RangePart &part,
               std::chrono::milliseconds budget);
  llvm::Expected<WorkspaceLayout>
  prepareValue(ContextState &state, const ProblemSpec &spec,
               std::chrono::milliseconds budget);
  WorkspaceLayout workspaceOf(const ContextState &state,
                              const ProblemRange &range) const;
  void measureLater(ContextState &state, const RangePart &part,
                    const PreparedRange &prepared);
  AcquireOptions acquireOptions(std::chrono::milliseconds budget);
  void compileAhead();
  std::chrono::milliseconds budgetForNext(const ProblemSpec &spec) const;
  void compileRequests(const DeviceModel &device);
  void compilePools(const DeviceModel &device);
  llvm::Error loadPool(const PoolCover &cover);
  llvm::Error loadPool(const PoolCover &cover, ContextState &state);
  void noteCompiles(size_t done, size_t total);
  void finishProblem(size_t index, ErrorSummary error);
  void callProgress();

  Engine &engine;
  std::vector<Item> items;
  std::vector<Target> targets;
  uint32_t flags = 0;
  std::chrono::milliseconds totalBudget{0}; ///< 0: one for each problem
  kiln_progress_fn progressHook = nullptr;
  void *progressUser = nullptr;
  std::chrono::steady_clock::time_point startTime;
  std::thread thread; ///< Kiln's own, if it has one
  std::atomic<bool> cancelled{false};
  std::atomic<uint64_t> trialsDone{0};
  /// Kernels that later problems will need, in flight.
  std::vector<PendingArtifact> ahead;

  mutable std::mutex mutex; ///< guards what follows
  std::condition_variable ended;
  bool done = false;
  kiln_progress counts = KILN_INIT(kiln_progress);
  ErrorSummary firstError;
};

} // namespace kiln
