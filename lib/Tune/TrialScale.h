//===- TrialScale.h - times of several batches on one scale ---------------===//
//
// Within a batch, whose samples are interleaved, ratios of times hold to 0.5 %.
// Between batches they do not: a chip at its power cap boosts after a pause and
// slows down under load, by up to 30 % for a large GEMM on an H200. So some
// config runs in two batches, and the ratio of its times brings the times of
// one to the scale of the other.
//
// Which config that is matters. The fastest so far would bias the scale: the
// minimum of many noisy times is too low, so each batch would be scaled down a
// little. A new fastest would pass its own error on, and over 70 batches the
// errors compounded to 30 %. Therefore one reference, the first config that is
// measured well, gives the scale of every batch. The fastest runs in every
// batch as well, as a config like others: the median of its scaled times
// replaces the one that made it look best.
//
// A playoff settles the remaining error, some 1 % between configs of different
// batches: the best few are measured once more, side by side.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Trial/TrialRunner.h"

#include <llvm/ADT/ArrayRef.h>

#include <vector>

namespace kiln {

/// Whether \p trial gave a time, and nothing was found wrong with it.
bool isTimed(const TrialResult &trial);

/// Multiplies all times of \p trial by \p scale.
void scaleTimes(TrialResult &trial, double scale);

/// Returns the index of the first of \p trials that was sampled as long as any
/// and is timed, which makes it fit to be a reference; -1 if none is timed.
int chooseReference(llvm::ArrayRef<TrialResult> trials);

/// The trial of a config that ran in several batches; its time is their median.
class RepeatedTrial {
public:
  /// Sets the first result, on the common scale, and forgets earlier ones.
  void begin(const TrialResult &trial);
  /// Merges \p again, which is timed, into \p known, the trial so far:
  /// brings it to the common scale by \p scale, counts its samples, and keeps
  /// the width of the interval in proportion.
  void repeat(TrialResult &known, const TrialResult &again, double scale);

private:
  std::vector<double> medians;
};

/// Returns the indices of the least \p times, within \p band of the least of
/// all, at most \p most, the least first. Times of 0 do not count.
std::vector<size_t> findContenders(llvm::ArrayRef<double> times, double band,
                                   size_t most);

} // namespace kiln
