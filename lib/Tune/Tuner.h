//===- Tuner.h - finds the config that is fastest here --------------------===//
//
// Parameters: the knobs of all templates of the problem's family. Search: the
// estimator's order, cut short, and beside it relatives of the best so far.
// Kernels are compiled ahead in parallel while earlier ones run, in small
// batches whose samples are interleaved. Stop: when no config that is left can
// beat the best by more than the noise, by its optimistic bound (its prediction
// times the best ratio of measured to predicted that this problem has shown),
// or when the budget is spent. Comparison across batches: a reference runs in
// all of them and brings their times to one scale (TrialScale.h); then the best
// few are measured once more, side by side. Cost: some 0.1 s a compilation on
// each thread, 20 to 500 ms of GPU time a problem.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Registry.h"
#include "Kernel/Space.h"
#include "Store/ArtifactStore.h"
#include "Store/Records.h"
#include "Trial/TrialRunner.h"

#include <llvm/Support/Error.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// The progress of tuning. Reported on the thread that tunes.
struct TuningProgress {
  size_t problemsDone = 0, problems = 1;
  size_t problem = 0; ///< index of the one at hand
  size_t trials = 0;  ///< configs tried for it
  double bestNs = 0;  ///< 0: none yet
  std::string bestConfig;
};

struct TuningOptions {
  using Clock = std::chrono::steady_clock;

  std::chrono::milliseconds budget{2000};
  /// The most configs that are tried for a problem. With 0 the choice is the
  /// estimator's, unmeasured.
  unsigned maxTrials = 12;
  /// Configs considered, from the top of the ranking. Relatives of the best are
  /// considered wherever they rank.
  unsigned top = 24;
  /// New configs of a batch, whose samples are interleaved. A reference and the
  /// best so far run in it again, which does not count as a trial.
  unsigned batch = 4;
  /// Proven configs near the best that are measured once more at the end, side
  /// by side, which decides; below 2 there is no playoff.
  unsigned playoff = 3;
  MeasurementMode mode = MeasurementMode::Cold;
  /// The caller's limits of a plan: a config that needs more gets no trial, and
  /// no record answers with it.
  Allowance allowance = {};
  /// Measure although there is a record, and replace its winner.
  bool retune = false;
  /// Set by any thread: tuning ends soon with the result so far.
  const std::atomic<bool> *cancel = nullptr;
  std::function<void(const TuningProgress &)> progress;
};

/// The origin of a choice, the strongest first.
enum class ChoiceOrigin {
  Empty,     ///< there is nothing to compute
  Record,    ///< measured before
  Measured,  ///< measured now
  Estimated, ///< by the estimator alone
};
llvm::StringRef nameOf(ChoiceOrigin origin);

/// A config with everything that loads it.
struct TuningChoice {
  ChoiceOrigin origin = ChoiceOrigin::Estimated;
  /// It was compared with the reference on this device, now or for its record.
  bool validated = false;
  Candidate candidate; ///< without template if origin is Empty
  Plan plan;
  std::vector<ArtifactPtr> artifacts; ///< of plan.kernels, in order
  /// The plan as trials loaded it, if it ran in any: see TrialResult::loaded.
  /// KernelLoader::adopt() takes its kernels over, so that the winner is loaded
  /// once. Adopt it, then drop this, before other threads may make trials in
  /// the context: kernels that are not adopted are unloaded, which waits for
  /// theirs. Null if it is not loaded yet.
  std::shared_ptr<const LoadedPlan> loaded;
  double measuredNs = 0, ciLowNs = 0, ciHighNs = 0; ///< 0: not measured

  /// Takes the time of \p stored, which is right by its record.
  void take(const Measurement &stored);
};

/// The reason why tuning of a problem ended.
enum class StopReason {
  Recorded,  ///< the record answered; nothing was measured
  Exhausted, ///< all considered configs were tried
  Bound,     ///< no config that is left can be faster
  Trials,    ///< the allowed trials were made
  Budget,    ///< the time is over
  Cancelled,
  Device, ///< the context died or the device hung
};
llvm::StringRef nameOf(StopReason reason);

/// One tried config beside its prediction.
struct TuningTrial {
  TrialResult result;
  double predictedNs = 0;
  std::string bound;
  int rank = 0; ///< in the estimator's order, from 0
};

struct TuningResult {
  TuningChoice choice;
  StopReason stop = StopReason::Exhausted;
  std::vector<TuningTrial> trials; ///< in the order in which they ran
  size_t candidates = 0;           ///< that the pruner let pass
  size_t skippedByBound = 0;
  size_t failedCompiles = 0; ///< of configs, refused advisories included
  size_t rejected = 0;       ///< trials that were wrong or failed
  bool recordStored = false;
  std::vector<std::string> notes; ///< failures from which it recovered
  double elapsedMs = 0;
};

/// One problem's result, or the reason why it has none.
struct TuningOutcome {
  TuningResult result;
  ErrorSummary error; ///< Success: result.choice is usable
};

/// Tunes on one device. \p runner may be null: then nothing is measured, and a
/// record or the estimator chooses. All arguments must outlive it. Not
/// thread-safe, since its runner is not; the stores may be shared.
class Tuner {
public:
  Tuner(const DeviceModel &device, ArtifactStore &artifacts,
        RecordStore &records, TrialRunner *runner);

  /// Finds the best config of \p problem that can be had within the budget. It
  /// always waits for one compilation, because there is always a choice.
  /// Errors: NoCandidate (no kernel can compute it, or every candidate is
  /// wrong), Unsupported, ContextDead (the device died: nothing is recorded
  /// against any config), Cancelled (before there was any choice), those of
  /// ArtifactStore if no kernel can be had.
  llvm::Expected<TuningResult> tune(const KernelFamily &family,
                                    const Problem &problem,
                                    const TuningOptions &options);

  /// Like tune(); without a choice the outcome has the trials. \p known is the
  /// caller's fresh result of RecordStore::find() with RecordAge::Now, so that
  /// the record is not read again; with nullopt it is read.
  TuningOutcome attempt(const KernelFamily &family, const Problem &problem,
                        const TuningOptions &options,
                        std::optional<RecordMatch> known = std::nullopt);

private:
  const DeviceModel *device;
  ArtifactStore *artifacts;
  RecordStore *records;
  TrialRunner *runner;
};

} // namespace kiln
