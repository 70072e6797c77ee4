//===- TrialSeries.h - trials of one problem, batch after batch -----------===//
//
// What the tuner and a sweep share: batches run beside a reference and the best
// so far, times come on one scale (TrialScale.h says how and why), a reference
// that fails is replaced, and at the end a playoff measures the best few side
// by side. What is tried, and when that ends, is for the caller to say.
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
  /// Told of each kernel whose results are wrong, as soon as that is known, and
  /// asked about none; null: nothing is kept of it.
  Verdicts *verdicts = nullptr;
  std::string deviceClass = {}; ///< of the device, for verdicts
  /// A kernel that is found right here loses the verdict that it was found
  /// wrong here.
  bool withdrawsVerdicts = false;
  const char *activity = "tuning"; ///< what errors call it
  MeasurementMode mode = MeasurementMode::Cold;
  const std::atomic<bool> *cancel = nullptr;
  /// What was proven is not compared again where it is carried along.
  bool trustsProofs = true;
  /// A carried config that came too late loses its time. By default it keeps
  /// the one that it has.
  bool dropsLate = false;
  /// Between requests, code of the reference and of what is no further behind
  /// the best stays loaded. The rest is loaded again where it runs again: a
  /// space has thousands of configs.
  double loadedBand = 0;
};

/// What gives a playoff its scale.
enum class PlayoffScale {
  /// The mean of all finalists, which stays what it was. One with too few
  /// samples undoes the playoff; one that turns out to be faulty leaves it.
  Together,
  /// The first finalist, the reference; any time counts. Where the reference
  /// has none, or one turns out to be faulty, nothing is decided. Others
  /// without a time keep the one that they had.
  Reference,
};

/// What became of a playoff.
struct Playoff {
  CandidateRefs timed;  ///< what it decides among; empty: it decided nothing
  bool hasLost = false; ///< some finalist turned out to be faulty
  /// Some finalist has no time, though there was memory for it.
  bool isLate = false;
};

/// The trials of one problem. Entries belong to the caller and must outlive the
/// series; those that run have their artifacts. Not thread-safe, as the runner
/// is not.
///
/// Errors of all that runs are ContextDead alone: the device died or hung.
/// Another failure of the runner, which concerns no candidate, ends the series:
/// nothing runs any more, and failure() says why.
class TrialSeries {
public:
  /// \p runner may be null: then nothing runs. All else must outlive it.
  TrialSeries(TrialRunner *runner, const KernelFamily &family,
              const Problem &problem, SeriesOptions options)
      : runner(runner), family(family), problem(problem),
        options(std::move(options)) {}

  /// False without a runner, and once the runner has failed.
  bool mayRun() const { return runner && stop.code == ErrorCode::Success; }
  /// How the runner failed; Success: it did not, or there is none.
  const ErrorSummary &failure() const { return stop; }

  /// Tries \p batch beside what is carried; then each has a trial. Where
  /// nothing gave the batch its scale none has, and it has to run again.
  llvm::Error runBatch(const CandidateRefs &batch, TrialOptions trialOptions);

  /// Compares \p entry, which is measured, with the family's reference; its
  /// times stay. Afterwards it is proven, at fault, or set aside. The verdict;
  /// NotTried where nothing ran.
  llvm::Expected<TrialStatus> prove(TuningCandidate &entry,
                                    TrialOptions trialOptions);

  /// Measures \p finalists once more, side by side, with twice the samples of
  /// \p trialOptions; with PlayoffScale::Reference the reference is the first.
  llvm::Expected<Playoff> playOff(const CandidateRefs &finalists,
                                  TrialOptions trialOptions,
                                  PlayoffScale scale);

  /// What has a trial, in the order in which it first ran.
  const CandidateRefs &tried() const { return all; }
  /// Of these, what has a time and is not known to be wrong.
  CandidateRefs measured() const;
  /// What runs in the next batch again: the reference, then the best so far,
  /// which may yet have to be proven.
  CandidateRefs carried() const;
  /// Gives the scale of each batch; null: none yet.
  TuningCandidate *reference() const { return scaling; }
  /// The fastest of what is proven, null: none is.
  const TuningCandidate *best() const;
  /// The fastest that are proven, or measured, at most \p most, within \p band
  /// of the fastest of them.
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
