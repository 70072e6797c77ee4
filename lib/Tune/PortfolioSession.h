//===- PortfolioSession.h - the preparation of a range --------------------===//
//
// A session chooses the portfolio of a range, or takes up a stored one, has its
// kernels compiled in parallel, measures them at a few points, most valuable
// first, and stores what it found. Whenever its time ends, what is there
// serves. A session is begun, which requests the kernels, and is finished
// later, so that those of many layers compile while one is measured.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Tune/Portfolio.h"
#include "Tune/RangeCover.h"
#include "Tune/Tuner.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Error.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// Kernels that sessions asked for, by signature. Not thread-safe.
class SharedKernels {
public:
  /// Those of the signature of \p range.
  llvm::ArrayRef<KnownConfig> of(const ProblemRange &range) const;
  void add(const Portfolio &portfolio);

private:
  std::map<std::string, std::vector<KnownConfig>> bySignature;
};

/// What all sessions share. All of it must outlive them.
struct PortfolioContext {
  const DeviceModel &device;
  ArtifactStore &artifacts;
  RecordStore &records; ///< of verdicts, and gets what trials measure
  PortfolioStore &portfolios;
  TrialRunner *runner; ///< null: nothing is measured
  std::string deviceClass;
  /// Each session adds its kernels, and of equal ones prefers those that are
  /// there. Null: nothing is shared.
  SharedKernels *kernels = nullptr;
};

/// How far a session is. Given from the thread that finishes it, and valid
/// during that call.
struct PortfolioProgress {
  size_t kernels = 0, kernelsReady = 0;
  size_t anchors = 0, anchorsDone = 0;
  size_t members = 0, measured = 0;   ///< members with times
  llvm::ArrayRef<TuningTrial> trials; ///< so far, see PortfolioResult::trials
};

struct PortfolioOptions {
  using Clock = std::chrono::steady_clock;

  /// Of the estimated regret; see CoverOptions.
  double tolerance = 0.02;
  MeasurementMode mode = MeasurementMode::Cold;
  /// False: the estimator alone chooses, also where there is a runner.
  bool measures = true;
  /// Of the workspace of a plan.
  uint64_t workspaceBytes = Allowance::kUnlimited;
  /// See CoverOptions.
  std::vector<KnownConfig> atHand;
  unsigned coverThreads = 0;
  /// Values that callers wait for: the estimator's choices there are members,
  /// compiled and measured first.
  std::vector<ExtentPoint> first;
  /// Measure although there is a stored portfolio, and replace it once all is
  /// measured.
  bool retune = false;
  /// The same as soon as a part is.
  bool replacesByParts = false;
  /// Take up a stored one that was measured only in part as it is.
  bool acceptsPartial = false;
  /// Keep what was found in the cache.
  bool stores = true;
  /// Becomes true from any thread: the session ends soon with what it has.
  const std::atomic<bool> *cancel = nullptr;
  /// The cover that an earlier session of the same range and `first` searched,
  /// which is taken where it still serves; receives that of this one. Its
  /// search is cancelled by cancelCover alone then, so that who is cancelled
  /// again and again gets beyond it. Null: nobody goes on with it.
  std::shared_ptr<const Portfolio> *cover = nullptr;
  const std::atomic<bool> *cancelCover = nullptr; ///< null: nobody does
  std::function<void(const PortfolioProgress &)> progress;
};

/// What loads a member.
struct MemberCode {
  Plan plan; ///< for the problem at the member's `high`
  std::vector<ArtifactPtr> artifacts; ///< of plan.kernels, in order
  /// As trials loaded it, if it ran in any: see TuningChoice::loaded. Made for
  /// another problem of the range, so only its kernels are of use.
  std::shared_ptr<const LoadedPlan> loaded;
};

enum class PortfolioOrigin {
  Stored,    ///< measured before, of today, and complete as far as asked for
  Measured,  ///< measured now, at least in part
  Estimated, ///< the estimator alone chose it, now or before
};
llvm::StringRef nameOf(PortfolioOrigin origin);

struct PortfolioResult {
  PortfolioResult() = default;
  PortfolioResult(PortfolioResult &&) = default;
  PortfolioResult &operator=(PortfolioResult &&) = default;

  Portfolio portfolio;
  /// By member. What has no kernels when the time ends is no member.
  std::vector<MemberCode> code;
  /// Kernels that were requested and are not there: later choices may take
  /// them.
  std::vector<PendingArtifact> late;
  PortfolioOrigin origin = PortfolioOrigin::Estimated;
  /// Recorded, Exhausted (all was measured that was to be), Budget, Cancelled,
  /// Device; Trials: nothing was to be measured.
  StopReason stop = StopReason::Trials;
  size_t kernels = 0;  ///< distinct
  size_t compiled = 0; ///< translation units, just now
  size_t failedCompiles = 0;
  size_t rejected = 0; ///< members that trials found wrong
  size_t anchors = 0;  ///< points at which something was measured now
  /// What ran, in its order: a member at one anchor each.
  std::vector<TuningTrial> trials;
  bool isStored = false;
  cache::PublishResult publish; ///< of storing, where that was tried
  /// The key of the entry that has it, where one was found or stored.
  std::optional<PortfolioKey> keptAs;
  std::vector<std::string> notes; ///< what went wrong and was mended
  double coverMs = 0, elapsedMs = 0;

  /// Says which parts of it no layer of the cache on disk has at this moment;
  /// empty: all are there. Only for a result that was to be stored.
  std::string missingOnDisk(const ArtifactStore &artifacts,
                            const PortfolioStore &portfolios) const;
};

/// Not thread-safe, as the runner is not.
class PortfolioSession {
public:
  using Clock = PortfolioOptions::Clock;

  /// \p context and \p options must outlive the session.
  PortfolioSession(const PortfolioContext &context, ProblemRange range,
                   const PortfolioOptions &options);
  ~PortfolioSession();
  PortfolioSession(const PortfolioSession &) = delete;
  PortfolioSession &operator=(const PortfolioSession &) = delete;

  /// Looks for a stored portfolio, or makes the cover, and requests the kernels
  /// of all members with \p priority and the values after it. Waits for no
  /// compilation; up to a second for the cover.
  void begin(int64_t priority);
  /// Whether finish() has something to measure.
  bool needsTrials() const;
  /// How many priorities begin() uses.
  int64_t priorities() const;

  /// Measures until \p deadline, and stores. Waits for kernels until then, and
  /// for one of them however long it takes. Errors: NoCandidate (nothing can
  /// run, or all is wrong), ContextDead, Cancelled (before there was any
  /// kernel), or why not a single kernel can be had.
  llvm::Error finish(Clock::time_point deadline);
  /// The result; after an error, what was found.
  PortfolioResult takeResult();

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace kiln
