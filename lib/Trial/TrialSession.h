//===- TrialSession.h - what trials in this process do inside -------------===//
//
// Private to InProcessTrials.cpp and TrialSession.cpp.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/Event.h"
#include "Driver/Stream.h"
#include "Store/LoadedPlan.h"
#include "Trial/InProcessTrials.h"
#include "Trial/Sampling.h"
#include "Trial/TrialBuffers.h"
#include "Trial/TrialTools.h"
#include "Trial/TrialValidator.h"

#include <optional>

namespace kiln {

/// One part in this many of the scratch memory is for workspaces.
inline constexpr uint64_t kWorkspaceShare = 4;

/// What stays while requests are about one problem.
struct ProblemState {
  const KernelFamily *family = nullptr;
  Problem problem;
  bool forTiming = false;
  TrialData data = TrialData::Usual;
  std::optional<TrialBuffers> buffers;
  std::optional<TrialValidator> validator; ///< made when first needed
};

/// One candidate of a request.
struct Attempt {
  TrialResult result;
  std::shared_ptr<const LoadedPlan> plan;
  DeviceMemory memory; ///< its own workspace, a red zone behind it
  Workspace workspace;
  bool isProven = false, isKept = false; ///< as the candidate's

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

/// What work that was given up may still reach: a launch that did not end
/// within the hang limit, and all that was enqueued behind it.
struct LateWork {
  Event end; ///< behind all of it
  std::unique_ptr<ProblemState> state;
  std::vector<std::shared_ptr<const LoadedPlan>> plans;
  std::vector<DeviceMemory> workspaces;
};

struct InProcessTrials::Impl {
  Impl(const Driver &driver, const Registry &registry,
       const DeviceModel &device, ArtifactStore &artifacts,
       InProcessTrialsOptions options, Stream stream)
      : driver(driver), registry(registry), device(device),
        artifacts(artifacts), options(options), stream(std::move(stream)),
        loader(driver) {}

  /// Makes everything that concerns the problem and no candidate.
  llvm::Error setUp(const TrialRequest &request);
  llvm::Error makeState(const KernelFamily &family, Problem problem,
                        bool forTiming, TrialData data);
  llvm::Error makeValidator();
  llvm::Expected<uint64_t> scratchCap() const;
  /// Whether late work still runs; what it held is freed once it does not.
  /// Error (ContextDead): it killed the context.
  llvm::Expected<bool> isBusy();
  /// Gives up everything on the device: freeing would wait for it.
  void abandon();

  const Driver &driver;
  const Registry &registry;
  const DeviceModel device;
  ArtifactStore &artifacts;
  const InProcessTrialsOptions options;
  Stream stream;
  KernelLoader loader;
  std::optional<TrialTools> tools;
  uint64_t capBytes = 0; ///< for the state that is there
  bool alive = true;
  std::optional<LateWork> late;
  std::unique_ptr<ProblemState> state;
};

/// One request on its way through loading, measurement and validation. The
/// errors of its methods concern no candidate.
class InProcessTrials::Session {
public:
  Session(Impl &impl, const TrialRequest &request,
          const std::atomic<bool> *cancel)
      : impl(impl), request(request), cancel(cancel),
        deadline(Clock::now() + request.options.timeLimit) {}

  llvm::Error run();
  std::vector<TrialResult> takeResults();

private:
  llvm::Error load(const TrialCandidate &candidate);
  void takeWorkspace(Attempt &attempt);
  void measure();
  void takeTime(Attempt &attempt, const SampledTime &time);
  llvm::Error validateAll();
  llvm::Error validateWinners();
  llvm::Error validate(Attempt &attempt);
  /// What failed: something of the candidate, which the device may refuse, or
  /// something that any candidate would have met.
  enum class FailureOf { Candidate, Surroundings };
  void blame(Attempt &attempt, const ErrorSummary &error, FailureOf what);
  void endWithDevice();
  void leaveLateWork();
  /// Whether more may be enqueued.
  bool goesOn() const { return impl.alive && !hasLateWork; }
  /// Whether no comparison may begin; \p awaitsProof: nothing is proven yet.
  bool isLate(bool awaitsProof) const {
    const auto extra =
        awaitsProof ? request.options.extraTime : std::chrono::milliseconds(0);
    return Clock::now() > deadline + extra || (cancel && *cancel);
  }

  using Clock = std::chrono::steady_clock;

  Impl &impl;
  const TrialRequest &request;
  const std::atomic<bool> *cancel; ///< may be null
  const Clock::time_point deadline;
  uint64_t workspaceBytes = 0;
  bool hasLateWork = false;
  std::vector<Attempt> attempts;
};

} // namespace kiln
