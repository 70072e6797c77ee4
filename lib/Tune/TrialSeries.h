//===- TrialSeries.h - trials of one problem, batch after batch -----------===//
//
// The part that the tuner and a sweep share: batches run beside a reference and
// the best so far, their times are brought to one scale (TrialScale.h), a
// reference that fails is replaced, and at the end a playoff measures the best
// few side by side. The caller decides which configs are tried, and when that
// ends.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Store/Verdicts.h"
#include "Tune/TuningCandidate.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Error.h>

#include <atomic>
#include <vector>

namespace kiln {

using CandidateRefs = std::vector<TuningCandidate *>;

struct SeriesOptions {
  /// Receives each kernel whose results are wrong, as soon as that is known,
  /// and is not read; null: wrong kernels are not kept.
  Verdicts *verdicts = nullptr;
  std::string deviceClass = {}; ///< of the device, for verdicts
  /// A kernel that is found right loses a verdict of being wrong that was found
  /// for the same problem.
  bool withdrawsVerdicts = false;
  const char *activity = "tuning"; ///< its name in errors
  MeasurementMode mode = MeasurementMode::Cold;
  const std::atomic<bool> *cancel = nullptr;
  /// A proven config is not compared again when it is carried along.
  bool trustsProofs = true;
  /// A carried config that came too late loses its time. By default it keeps
  /// it.
  bool dropsLate = false;
  /// Between requests, the code of the reference and of configs that are no
  /// further than this behind the best stays loaded. Other code is loaded again
  /// when it runs again: a space has thousands of configs.
  double loadedBand = 0;
};

/// The scale of a playoff.
enum class PlayoffScale {
  /// The mean of all finalists is kept. A finalist with too few samples undoes
  /// the playoff; a faulty one leaves it.
  Together,
  /// The first finalist, the reference, gives the scale; any time counts. If
  /// the reference has no time, or a finalist is faulty, nothing is decided.
  /// Other finalists without a time keep their earlier one.
  Reference,
};

/// The result of a playoff.
struct Playoff {
  CandidateRefs timed;  ///< the finalists that it orders; empty: it decided
                        ///< nothing
  bool hasLost = false; ///< some finalist turned out to be faulty
  /// Some finalist has no time although there was memory for it.
  bool isLate = false;
};

/// The trials of one problem. Entries belong to the caller and must outlive the
/// series; an entry that runs has its artifacts. Not thread-safe, since the
/// runner is not.
///
/// The only error of trials is ContextDead: the device died or hung. Another
/// failure of the runner, which concerns no candidate, ends the series: nothing
/// runs any more, and failure() has the reason.
class TrialSeries {
public:
  /// \p runner may be null: then nothing runs. All arguments must outlive the
  /// series.
  TrialSeries(TrialRunner *runner, const KernelFamily &family,
              const Problem &problem, SeriesOptions options)
      : runner(runner), family(family), problem(problem),
        options(std::move(options)) {}

  /// False without a runner, and once the runner has failed.
  bool mayRun() const { return runner && stop.code == ErrorCode::Success; }
  /// The failure of the runner; Success if it did not fail, or there is none.
  const ErrorSummary &failure() const { return stop; }

  /// Tries \p batch beside the carried configs; then each has a trial. If no
  /// config gave the batch its scale, none has a trial, and the batch has to
  /// run again.
  llvm::Error runBatch(const CandidateRefs &batch, TrialOptions trialOptions);

  /// Compares \p entry, which is measured, with the family's reference; its
  /// times stay. Afterwards it is proven, at fault, or set aside. Returns the
  /// verdict; NotTried if nothing ran.
  llvm::Expected<TrialStatus> prove(TuningCandidate &entry,
                                    TrialOptions trialOptions);

  /// Measures \p finalists once more, side by side, with twice the samples of
  /// \p trialOptions; with PlayoffScale::Reference the reference is the first.
  llvm::Expected<Playoff> playOff(const CandidateRefs &finalists,
                                  TrialOptions trialOptions,
                                  PlayoffScale scale);

  /// The entries with a trial, in the order in which they first ran.
  const CandidateRefs &tried() const { return all; }
  /// The tried entries that have a time and are not known to be wrong.
  CandidateRefs measured() const;
  /// The entries that run in the next batch again: the reference, then the best
  /// so far, which may be unproven.
  CandidateRefs carried() const;
  /// The config that gives the scale of each batch; null: none yet.
  TuningCandidate *reference() const { return scaling; }
  /// The fastest proven config; null if none is proven.
  const TuningCandidate *best() const;
  /// The fastest proven or, without \p areProven, measured configs, at most \p
  /// most, within \p band of the fastest of them.
  CandidateRefs contenders(double band, size_t most, bool areProven) const;
  /// Whether some config computed wrong results.
  bool hasFoundWrong() const;

private:
  llvm::Expected<std::vector<TrialResult>> run(const CandidateRefs &batch,
                                               const TrialOptions &trialOptions,
                                               size_t kept);
  void judge(const TuningCandidate &entry, const TrialResult &result) const;
  llvm::Error checkDevice(llvm::ArrayRef<TrialResult> results) const;
  double repeatCarried(const CandidateRefs &carried,
                       llvm::MutableArrayRef<TrialResult> trials);
  void take(TuningCandidate &entry, TrialResult trial, double scale);
  void lose(TuningCandidate &entry, TrialResult trial);
  void replaceReference();
  Playoff takePlayoff(const CandidateRefs &finalists,
                      llvm::MutableArrayRef<TrialResult> trials,
                      PlayoffScale by);
  void unloadSlow();

  TrialRunner *runner;
  const KernelFamily &family;
  const Problem &problem;
  const SeriesOptions options;
  CandidateRefs all;
  TuningCandidate *scaling = nullptr;
  ErrorSummary stop;
};

} // namespace kiln
