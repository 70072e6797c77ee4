//===- TrialSession.h - one request of trials -----------------------------===//
//
// Private to InProcessTrials.cpp.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Trial/Sampling.h"
#include "Trial/TrialContext.h"

namespace kiln {

/// One candidate of a request.
struct Attempt {
  TrialResult result;
  std::shared_ptr<const LoadedPlan> plan;
  DeviceMemory memory; ///< its own workspace, a red zone behind it
  Workspace workspace;
  bool isProven = false, isKept = false; ///< like the candidate's

  bool isUsable() const { return plan && result.status == TrialStatus::Ok; }
  void fail(TrialStatus status, std::string message) {
    std::string config = std::move(result.config);
    double ratio = result.maxErrorRatio;
    result = TrialResult();
    result.config = std::move(config);
    result.status = status;
    result.maxErrorRatio = ratio;
    result.message = std::move(message);
  }
};

/// One request: loading, measurement, validation. The
/// errors of its methods concern no candidate.
class TrialSession {
public:
  TrialSession(TrialContext &context, const TrialRequest &request,
               const std::atomic<bool> *cancel)
      : context(context), request(request), cancel(cancel),
        deadline(trialTime(context.options.pace) + request.options.timeLimit) {}

  llvm::Error run();
  std::vector<TrialResult> takeResults();

private:
  llvm::Error load(const TrialCandidate &candidate);
  void takeWorkspace(Attempt &attempt);
  llvm::Error fillWorkspace(const Attempt &attempt);
  void measure();
  void takeTime(Attempt &attempt, const SampledTime &time);
  llvm::Error validateAll();
  llvm::Error validateWinners();
  llvm::Error validate(Attempt &attempt);
  llvm::Expected<TrialVerdict> compare(Attempt &attempt, bool &hasFailed);
  /// The source of a failure: the candidate, which the device may refuse, or a
  /// cause that any candidate would have met.
  enum class FailureOf { Candidate, Surroundings };
  void blame(Attempt &attempt, const ErrorSummary &error, FailureOf what);
  void endWithDevice();
  void leaveLateWork();
  /// Whether more work may be enqueued.
  bool goesOn() const { return context.alive && !hasLateWork; }
  /// Whether no comparison may begin; \p awaitsProof: no candidate is proven
  /// yet.
  bool isLate(bool awaitsProof) const {
    const auto extra =
        awaitsProof ? request.options.extraTime : std::chrono::milliseconds(0);
    return trialTime(context.options.pace) > deadline + extra ||
           (cancel && *cancel);
  }

  using Clock = std::chrono::steady_clock;

  TrialContext &context;
  const TrialRequest &request;
  const std::atomic<bool> *cancel; ///< may be null
  const Clock::time_point deadline;
  uint64_t workspaceBytes = 0;
  bool hasLateWork = false;
  std::vector<Attempt> attempts;
};

} // namespace kiln
