//===- TrialScale.h - times of several batches on one scale ---------------===//
//
// Within a batch, whose samples are interleaved, ratios of times hold to 0.5 %.
// Between batches they do not: a chip at its power cap boosts after a pause and
// slows down under load, by up to 30 % for a large GEMM on an H200. So some
// config runs in two batches, and what it took in both brings the times of one
// to those of the other.
//
// Which config that is matters. The fastest so far is the wrong one: the least
// of many measured times is too low, by its share of the noise, so each batch
// would be scaled down a little; a new fastest would hand its own error on,
// and over 70 batches the errors compounded to 30 %. Therefore one reference,
// the first config that is measured well, gives the scale of every batch. The
// fastest runs along too, as a config like others: the median of its scaled
// times takes the place of the one that made it look best.
//
// What is left, some 1 % between configs of different batches, a playoff
// settles: the best few are measured once more, side by side.
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

/// The first of \p trials that was sampled as long as any, at least one of
/// which is timed: fit to be a reference. Its place; -1: none is timed.
int chooseReference(llvm::ArrayRef<TrialResult> trials);

/// A config's trial, whose time is the median of those of several batches.
class RepeatedTrial {
public:
  /// The first result, on the common scale; forgets what was before.
  void begin(const TrialResult &trial);
  /// Merges \p again, which is timed, into \p known, the trial so far:
  /// brings it to the common scale by \p scale, counts its samples, and keeps
  /// the width of the interval in proportion.
  void repeat(TrialResult &known, const TrialResult &again, double scale);

private:
  std::vector<double> medians;
};

/// Places of the least of \p times, within \p band of the least of all, \p most
/// of them, the least first. Times of 0 are none.
std::vector<size_t> findContenders(llvm::ArrayRef<double> times, double band,
                                   size_t most);

} // namespace kiln
