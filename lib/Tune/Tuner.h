//===- Tuner.h - from a problem to the config that is fastest here --------===//
//
// Which parameters: the knobs of all templates of the problem's family. Which
// search: the estimator's order, cut short, and beside it relatives of the best
// so far; kernels are compiled ahead in parallel while earlier ones run, in
// small batches whose samples are interleaved. When does it stop: when the
// optimistic bound of what is left, the prediction times the best ratio of
// measured to predicted that this problem has shown, cannot beat the best by
// more than the noise; or when the budget is spent. How are configs of
// different batches compared: a reference runs in all of them and brings their
// times to one scale (TrialScale.h); then the best few are measured once more,
// side by side. What does it cost: some 0.1 s a compilation on each thread, 20
// to 500 ms of GPU time a problem.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/ModelKind.h"
#include "Kernel/Registry.h"
#include "Store/ArtifactStore.h"
#include "Store/Records.h"
#include "Trial/TrialRunner.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Error.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// How far tuning is. Given from the thread that tunes.
struct TuningProgress {
  size_t problemsDone = 0, problems = 1;
  size_t problem = 0; ///< index of the one at hand
  size_t trials = 0;  ///< configs tried for it
  double bestNs = 0;  ///< 0: none yet
  std::string bestConfig;
};

struct TuningOptions {
  using Clock = std::chrono::steady_clock;

  /// tune(): for this problem; tuneAll(): for all of them.
  std::chrono::milliseconds budget{2000};
  /// Configs tried a problem at most. 0 tries none: the choice is the
  /// estimator's, unmeasured.
  unsigned maxTrials = 12;
  /// Configs considered, from the top of the ranking; relatives of the best are
  /// wherever they rank.
  unsigned top = 24;
  /// New configs of a batch, whose samples are interleaved. A reference and the
  /// best so far run in it again, which is no trial.
  unsigned batch = 4;
  /// Proven configs near the best that are measured once more at the end, side
  /// by side, which decides; below 2: none are.
  unsigned playoff = 3;
  MeasurementMode mode = MeasurementMode::Cold;
  ModelKind model = ModelKind::Main;
  /// What the caller may give a plan: no trial goes to a config that needs
  /// more, nor does a record answer with one.
  Allowance allowance = {};
  /// Measure although there is a record, and replace its winner.
  bool retune = false;
  /// Becomes true from any thread: tuning ends soon with what it has.
  const std::atomic<bool> *cancel = nullptr;
  std::function<void(const TuningProgress &)> progress;
};

/// Where a choice comes from, the strongest first.
enum class ChoiceOrigin {
  Empty,     ///< there is nothing to compute
  Record,    ///< measured before
  Measured,  ///< measured now
  Estimated, ///< the estimator's word alone
};
llvm::StringRef nameOf(ChoiceOrigin origin);

/// A config with everything that loads it.
struct TuningChoice {
  ChoiceOrigin origin = ChoiceOrigin::Estimated;
  /// Compared with the reference on this device, now or for its record.
  bool validated = false;
  Candidate candidate; ///< without template if origin is Empty
  Plan plan;
  std::vector<ArtifactPtr> artifacts; ///< of plan.kernels, in order
  /// The plan as trials loaded it, if it ran in any: see TrialResult::loaded.
  /// KernelLoader::adopt() takes its kernels over, so that the winner is loaded
  /// once. Adopt it, then drop this, before others may make trials in the
  /// context: what is not adopted is unloaded, and that waits for their
  /// kernels. Null where it is yet to be loaded, and after tuneAll().
  std::shared_ptr<const LoadedPlan> loaded;
  double measuredNs = 0, ciLowNs = 0, ciHighNs = 0; ///< 0: not measured

  /// Takes the time of \p stored, which a record says is right.
  void take(const Measurement &stored);
};

/// Why tuning of a problem ended.
enum class StopReason {
  Recorded,  ///< the record answered; nothing was measured
  Exhausted, ///< all that was considered was tried
  Bound,     ///< what is left cannot be faster
  Trials,    ///< as many trials as were allowed
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
  std::vector<std::string> notes; ///< what went wrong and was mended
  double elapsedMs = 0;
};

/// One problem's result or why it has none.
struct TuningOutcome {
  TuningResult result;
  ErrorSummary error; ///< Success: result.choice is usable
};

/// Tunes on one device. \p runner may be null: then nothing is measured, and a
/// record or the estimator chooses. Everything given must outlive it. Not
/// thread-safe, since its runner is not; the stores may be shared.
class Tuner {
public:
  Tuner(const DeviceModel &device, ArtifactStore &artifacts,
        RecordStore &records, TrialRunner *runner);

  /// The best config of \p problem that can be had within the budget; one
  /// compilation is always waited for, because there is always a choice.
  /// Errors: NoCandidate (nothing can compute it, or every candidate is
  /// wrong), Unsupported, ContextDead (the device died: nothing is recorded
  /// against any config), Cancelled (before there was any choice), those of
  /// ArtifactStore when not a single kernel can be had.
  llvm::Expected<TuningResult> tune(const KernelFamily &family,
                                    const Problem &problem,
                                    const TuningOptions &options);

  /// The same; without a choice it says what was tried. \p known is what the
  /// caller just heard from RecordStore::find() with RecordAge::Now, so that
  /// the record is not asked for again; nullopt: it is asked.
  TuningOutcome attempt(const KernelFamily &family, const Problem &problem,
                        const TuningOptions &options,
                        std::optional<RecordMatch> known = std::nullopt);

  /// Tunes all \p problems within one budget: the first choices of all compile
  /// in parallel first, then the time that is left is shared out, what is
  /// cheap to measure first; for its first batches a problem waits up to half
  /// of its share. One outcome a problem, in their order; no failure
  /// but a dead context stops the others.
  std::vector<TuningOutcome>
  tuneAll(llvm::ArrayRef<Registry::NamedProblem> problems,
          const TuningOptions &options);

private:
  const DeviceModel *device;
  ArtifactStore *artifacts;
  RecordStore *records;
  TrialRunner *runner;
};

} // namespace kiln
