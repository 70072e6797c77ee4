//===- TuningCandidate.h - a config from its estimate to its trial --------===//
//
// Private to the tuner and to sweeps.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Tune/TrialScale.h"
#include "Tune/Tuner.h"

#include <llvm/ADT/ArrayRef.h>

#include <string>
#include <vector>

namespace kiln {

/// A candidate from its estimate over its compilation to its trial. It is
/// moved only while it is Idle.
struct TuningCandidate {
  enum class Stage {
    Idle,      ///< nothing but an estimate
    Compiling, ///< requested
    Ready,     ///< its artifacts are here
    Failed,    ///< some artifact cannot be had
    Barred,    ///< trials found this kernel wrong, or it cannot run here
    Tried,     ///< has a trial
  };

  Candidate candidate;
  std::string config;
  int rank = 0; ///< in the estimator's order
  /// The generic config that is tried if no other is valid.
  bool isReserve = false;
  /// The first config of a generic template, a reserve or not.
  bool isLastResort = false;

  Stage stage = Stage::Idle;
  Plan plan;                          ///< from Compiling on
  std::string kernel;                 ///< kernelDigest() of the plan
  std::vector<ArtifactPtr> artifacts; ///< from Ready on
  size_t compiled = 0;     ///< of these, the number that was compiled for it
                           ///< now
  ArtifactOutcome failure; ///< Failed: the artifact's, and
  size_t failedKernel = 0; ///< which of plan.kernels it is
  TrialResult trial;       ///< Tried; its times are on the scale of all batches
  RepeatedTrial repeats;   ///< of trial, while it isMeasured()
  bool isSetAside = false; ///< measured, but it could not be validated
  /// The plan as its last trial loaded it; null: the next trial loads it again.
  std::shared_ptr<const LoadedPlan> loaded;

  TuningCandidate(Candidate given, int rank);

  /// Plans the config if it has no plan yet; it stays Idle.
  void makePlan(const Problem &problem, const DeviceModel &device);
  /// Starts to get the artifacts of its plan; Idle becomes Compiling or a later
  /// stage. In Compiling the more urgent of both priorities holds.
  void request(ArtifactStore &store, int64_t priority);
  /// Takes the results of the requests. False while they are in progress.
  bool poll();
  /// Gives its requests away if they are in progress; then it is Idle again.
  std::vector<PendingArtifact> takePending();
  /// Waits for the requests as long as a compilation takes; false if \p cancel,
  /// which may be null, ended the wait.
  bool wait(const std::atomic<bool> *cancel);

  /// Whether it is Idle, Compiling or Ready and may yet be tried or chosen.
  bool isOpen() const { return stage <= Stage::Ready; }
  bool isMeasured() const;
  /// Whether it was measured, compared with the reference, and is correct.
  bool isProven() const { return isMeasured() && trial.validated; }
  bool isAtFault() const {
    return stage == Stage::Tried && isConfigFault(trial.status);
  }
  /// Whether it was tried and computes wrong results.
  bool isWrong() const {
    return stage == Stage::Tried && isWrongResult(trial.status);
  }
  /// The data for load and launch; needs the artifacts.
  TuningChoice choice(ChoiceOrigin origin) const;

private:
  void settle();
  std::vector<PendingArtifact> pending;
};

/// The fault of \p result: its status, then the details.
std::string reasonOf(const TrialResult &result);

/// Chooses one of \p measured, which is not empty. Configs that cannot be told
/// from the fastest are tied, and the estimator's order decides among them. A
/// config is tied if its median is within kTieBand of the fastest's, or if each
/// interval holds the other's median. The rank has no noise, so two runs agree.
TuningCandidate *chooseFastest(llvm::ArrayRef<TuningCandidate *> measured);

} // namespace kiln
