//===- PortfolioSession.h - the preparation of a range --------------------===//
//
// A session chooses the portfolio of a range, or takes up a stored one, has its
// kernels compiled in parallel, measures them at a few points, most valuable
// first, and stores the result. Whenever its time ends, the portfolio so far
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
  /// Returns the kernels of the signature of \p range.
  llvm::ArrayRef<KnownConfig> of(const ProblemRange &range) const;
  void add(const Portfolio &portfolio);

private:
  std::map<std::string, std::vector<KnownConfig>> bySignature;
};

/// The objects that all sessions share; they must outlive them.
struct PortfolioContext {
  const DeviceModel &device;
  ArtifactStore &artifacts;
  RecordStore &records; ///< has the verdicts, and receives the measurements
  PortfolioStore &portfolios;
  TrialRunner *runner; ///< null: nothing is measured
  std::string deviceClass;
  /// Each session adds its kernels, and among equal ones prefers the kernels
  /// here. Null: nothing is shared.
  SharedKernels *kernels = nullptr;
};

/// The progress of a session. Reported on the thread that finishes it, and
/// valid during that call.
struct PortfolioProgress {
  size_t kernels = 0, kernelsReady = 0;
  size_t anchors = 0, anchorsDone = 0;
  size_t members = 0, measured = 0;   ///< members with times
  llvm::ArrayRef<TuningTrial> trials; ///< so far, see PortfolioResult::trials
};

struct PortfolioOptions {
  using Clock = std::chrono::steady_clock;

  /// The tolerance of the estimated regret; see CoverOptions.
  double tolerance = 0.02;
  MeasurementMode mode = MeasurementMode::Cold;
  /// False: the estimator alone chooses, even if there is a runner.
  bool measures = true;
  /// The limit of a plan's workspace.
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
  /// Like `retune`, but replaces it as soon as a part is measured.
  bool replacesByParts = false;
  /// Use a stored one that was measured only in part as it is.
  bool acceptsPartial = false;
  /// The time limits trials alone: all kernels are waited for. Otherwise
  /// members that have none at the end are left out, and values that only they
  /// serve have no plan.
  bool awaitsKernels = false;
  /// Store the result in the cache.
  bool stores = true;
  /// Set by any thread: the session ends soon with the result so far.
  const std::atomic<bool> *cancel = nullptr;
  /// The cover of an earlier session with the same range and `first`, which is
  /// used if it still serves; receives the cover of this one. Then only
  /// cancelCover cancels the search, so that a session that is often cancelled
  /// gets beyond it. Null: no cover is passed on.
  std::shared_ptr<const Portfolio> *cover = nullptr;
  const std::atomic<bool> *cancelCover = nullptr; ///< null: never cancelled
  std::function<void(const PortfolioProgress &)> progress;
};

/// All that is needed to load a member.
struct MemberCode {
  Plan plan; ///< for the problem at the member's `high`
  std::vector<ArtifactPtr> artifacts; ///< of plan.kernels, in order
  /// The plan that trials loaded, if it ran in any: see TuningChoice::loaded.
  /// It was made for another problem of the range, so only its kernels can be
  /// used.
  std::shared_ptr<const LoadedPlan> loaded;
};

enum class PortfolioOrigin {
  Stored,    ///< measured before, up to date, and complete as far as asked for
  Measured,  ///< measured now, at least in part
  Estimated, ///< the estimator alone chose it, now or before
};
llvm::StringRef nameOf(PortfolioOrigin origin);

struct PortfolioResult {
  PortfolioResult() = default;
  PortfolioResult(PortfolioResult &&) = default;
  PortfolioResult &operator=(PortfolioResult &&) = default;

  Portfolio portfolio;
  /// By member. A config without kernels when the time ends is not a member.
  std::vector<MemberCode> code;
  /// Kernels that were requested and are still missing; later choices may use
  /// them.
  std::vector<PendingArtifact> late;
  PortfolioOrigin origin = PortfolioOrigin::Estimated;
  /// Recorded, Exhausted (all measurements were made), Budget, Cancelled,
  /// Device; Trials: no measurement was due.
  StopReason stop = StopReason::Trials;
  size_t kernels = 0;  ///< distinct
  size_t compiled = 0; ///< translation units, in this session
  size_t failedCompiles = 0;
  size_t rejected = 0; ///< members that trials found wrong
  size_t anchors = 0;  ///< points that were measured in this session
  /// The trials in the order in which they ran: each of a member at one anchor.
  std::vector<TuningTrial> trials;
  bool isStored = false;
  cache::PublishResult publish; ///< of storing it, if that was tried
  /// The key of its entry in the cache, if one was found or stored.
  std::optional<PortfolioKey> keptAs;
  std::vector<std::string> notes; ///< failures from which it recovered
  double coverMs = 0, elapsedMs = 0;

  /// Names the parts of it that no tier of the cache on disk has at this
  /// moment; empty if all are there. Only for a result that should be stored.
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

  /// Looks for a stored portfolio, or makes the cover: up to a second.
  void choose();
  /// The kernels of all members once they are chosen; some may be equal.
  std::vector<TranslationUnit> units() const;
  /// Chooses, unless that is done, and requests the kernels of all members with
  /// \p priority and the values after it. Waits for no compilation.
  void begin(int64_t priority);
  /// Whether finish() has something to measure.
  bool needsTrials() const;
  /// The number of priorities that begin() uses.
  int64_t priorities() const;

  /// Measures until \p deadline, and stores. Waits for kernels until then, and
  /// for one of them however long it takes. Errors: NoCandidate (no kernel can
  /// run, or all are wrong), ContextDead, Cancelled (before there was any
  /// kernel), or the reason why no kernel can be had.
  llvm::Error finish(Clock::time_point deadline);
  /// The result; after an error, the facts that were found.
  PortfolioResult takeResult();

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace kiln
