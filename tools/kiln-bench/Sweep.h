//===- Sweep.h - every config of a space, measured ------------------------===//
//
// The tuner stops when it knows enough; a sweep goes on. It tells how good the
// estimator's order is: the share of the best config's speed that its first
// choices reach.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Space.h"
#include "Store/ArtifactStore.h"
#include "Trial/TrialRunner.h"

#include <llvm/Support/Error.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kiln::cli {

/// How far the sweep of one problem is; given from the thread that sweeps.
struct SweepProgress {
  bool isCompiling = false;
  size_t done = 0, total = 0; ///< kernels, then configs
};

struct SweepOptions {
  using Clock = std::chrono::steady_clock;

  /// Configs of a batch, whose samples are interleaved, what is measured again
  /// included; a new one is always among them.
  unsigned batch = 8;
  /// Configs of the playoff, besides the first choice and the reference; 0:
  /// there is none.
  unsigned playoff = 12;
  MeasurementMode mode = MeasurementMode::Cold;
  /// Measures the first so many of the ranking and `sample` configs of the
  /// rest, drawn with `seed`; 0: everything.
  unsigned top = 0, sample = 0;
  uint64_t seed = 0;
  /// No batch begins after it.
  Clock::time_point deadline = Clock::time_point::max();
  /// Becomes true from any thread: the sweep ends soon with what it has.
  const std::atomic<bool> *cancel = nullptr;
  std::function<void(const SweepProgress &)> progress;
};

/// One config. Its times are brought to those of the first batch by what the
/// reference took in both (TrialScale.h).
struct SweptConfig {
  int rank = 0; ///< in the estimator's order, from 0
  double predictedNs = 0;
  std::string bound;
  /// samples 0 and Timeout or NotTried: not tried. A config that did not
  /// compile is LaunchFailed, with the compiler's words.
  TrialResult result;
  /// Took part in the playoff: its time is that of the playoff, or, where there
  /// was no time or room for it there, that from before.
  bool inPlayoff = false;

  /// Has a time, and nothing was found wrong with it.
  bool isMeasured() const {
    return result.status == TrialStatus::Ok && result.samples > 0;
  }
};

struct SweepResult {
  std::vector<SweptConfig> configs; ///< in the estimator's order
  size_t spaceSize = 0;             ///< configs that pass pruning
  size_t failedCompiles = 0;
  std::string toolchain; ///< that compiled the kernels
  /// Every config that was to be measured has a time or is to blame for having
  /// none, and no playoff was left out.
  bool isComplete = true;

  /// The fastest that was found right, of those of the playoff if there was
  /// one; null: none was.
  const SweptConfig *best() const;
  /// The best time over that of the fastest among the first \p count of the
  /// ranking: 1 is perfect; 0 where there is no such time.
  double share(size_t count) const;
  size_t measured() const;
  /// Configs that are to blame for having no time: wrong, out of bounds, not
  /// compiled. A space that prunes well has none.
  size_t faulty() const;
  /// Spearman's correlation of predicted and measured times.
  double correlation() const;
};

/// Compiles and measures every config of \p problem's space that passes
/// pruning, or those that \p options choose of them, in the estimator's order,
/// with no rule that stops early; samples of a config that is clearly slower
/// than the fastest of its batch end early. One reference config runs in every
/// batch and gives the scale of its times; the best so far runs in it to be
/// measured again. Should either fail there, that is its result; where the
/// reference does, the best takes its place, or the batch runs again beside the
/// next fastest. At the end those that may be the best, and the first choice,
/// run once more side by side with twice the samples: this playoff sets their
/// times. Configs that may be the best are compared with the family's reference
/// kernel. Records nothing. Takes some 0.1 s a compilation on each thread and
/// some 10 ms a config. A launch that does not end in time ends the sweep with
/// what was measured before. Errors: NoCandidate, ContextDead, CompilerMissing,
/// those of the runner that concern no config; InProgress where such a launch
/// leaves nothing measured.
llvm::Expected<SweepResult>
sweepSpace(const KernelFamily &family, const Problem &problem,
           const DeviceModel &device, ArtifactStore &artifacts,
           TrialRunner &runner, const SweepOptions &options);

/// Starts to compile what sweepSpace() compiles for the same arguments, behind
/// all that sweeps with a lower \p turn asked for. The requests last as long as
/// the answer. Errors: NoCandidate.
llvm::Expected<std::vector<PendingArtifact>>
requestSwept(const KernelFamily &family, const Problem &problem,
             const DeviceModel &device, ArtifactStore &artifacts,
             const SweepOptions &options, size_t turn);

} // namespace kiln::cli
