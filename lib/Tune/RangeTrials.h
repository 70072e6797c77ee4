//===- RangeTrials.h - members of a portfolio, measured at anchors --------===//
//
// Private to the session.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Tune/AnchorPlan.h"
#include "Tune/PortfolioSession.h"
#include "Tune/TrialSeries.h"

#include <map>

namespace kiln {

/// A session's state of a member, in addition to the portfolio's.
struct MemberWork {
  /// Its kernels, from their request on, with the plan for the member's `high`.
  std::unique_ptr<TuningCandidate> code;
  /// It was found wrong, or has no kernels: it is not a member when the session
  /// ends.
  bool isLost = false;
  /// It could not be launched at some point: it may be measured only in its
  /// interval, which no longer holds that point.
  bool isConfined = false;
};

/// Results of the trials at one anchor.
struct AnchorFacts {
  Problem problem;
  RecordPoint point;
};

/// The state that the parts of a session share.
struct RangeTask {
  const PortfolioContext &context;
  const PortfolioOptions &options;
  Portfolio portfolio;
  std::vector<MemberWork> work; ///< by member
  PortfolioResult result;       ///< except the portfolio and its code
  PortfolioProgress progress;
  std::vector<AnchorFacts> facts = {}; ///< the results of trials, for the
                                       ///< records

  bool isCancelled() const { return options.cancel && *options.cancel; }
  bool measures() const { return context.runner && options.measures; }
  void tellProgress();
  /// Notes that \p member is lost for a fault of its own, described by \p
  /// reason.
  void lose(uint32_t member, llvm::StringRef reason);
  /// Cuts \p point, where \p member could not be launched, and the shorter side
  /// beyond it off the member's interval. False if nothing is left of it.
  bool confine(uint32_t member, const ExtentPoint &point);
  /// Whether \p member may run at \p point.
  bool runsAt(uint32_t member, const ExtentPoint &point) const;
};

/// Measures at anchors and compares with the reference. Each plan is the one
/// that will be launched, made for the highest point of its member. Errors are
/// ContextDead alone; another failure of the runner ends trials with a note.
class RangeTrials {
public:
  using Clock = PortfolioOptions::Clock;

  explicit RangeTrials(RangeTask &task) : task(task) {}

  /// False without a runner, and once it has failed.
  bool mayRun() const { return task.measures() && !hasFailed; }
  /// Waits for kernels of \p anchor until \p deadline, and measures the ones
  /// that are there. Compares unproven ones with the reference if computing it
  /// is affordable here: its time grows with the extents.
  llvm::Error measureAt(const Anchor &anchor, Clock::time_point deadline);
  /// Measures other configs of the kernel that is the best at \p anchor, which
  /// differ in run-time knobs alone and cost no compilation. A faster one
  /// becomes a member around \p anchor.
  llvm::Error tryVariants(const Anchor &anchor, Clock::time_point deadline);
  /// Compares unproven members with the reference at points where it is cheap.
  llvm::Error proveRest(Clock::time_point deadline);

private:
  struct Round;
  void await(const std::vector<uint32_t> &members,
             Clock::time_point deadline) const;
  void noteFacts(const Round &round);
  void take(Round &round);
  llvm::Error run(Round &round, Clock::time_point deadline);
  llvm::Error prove(Round &round, Clock::time_point deadline);
  bool isAffordable(const Problem &problem) const;
  std::map<ExtentPoint, std::vector<uint32_t>>
  unproven(const std::vector<ExtentPoint> &points) const;
  std::vector<ExtentPoint> proofPoints() const;
  const ExtentPoint *proofPointOf(uint32_t member,
                                  const std::vector<ExtentPoint> &points) const;
  std::vector<Values> variantsOf(const PortfolioMember &member,
                                 const Problem &problem) const;
  uint32_t addVariant(uint32_t sibling, const Values &config,
                      const ExtentPoint &point);

  uint64_t seriesAt(const ExtentPoint &point);

  RangeTask &task;
  /// Rounds at one point follow each other at once, so their times are of one
  /// series.
  std::map<ExtentPoint, uint64_t> series;
  bool hasFailed = false;
};

} // namespace kiln
