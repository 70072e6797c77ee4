//===- Regret.h - the cost of choosing by an order ------------------------===//
//
// A regret is how much longer than the best the best of some choices takes: its
// time over the least, minus 1.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <llvm/ADT/ArrayRef.h>

#include <cstddef>
#include <vector>

namespace kiln::cli {

/// The choices of an order that curves follow.
inline constexpr size_t kRegretChoices = 32;

/// Regrets of the fastest of the first k, for k = 1 to \p choices. \p order has
/// the measured times, first choice first; once it ends, the regret stays.
/// Empty without times. Times below \p bestNs count as equal to it: a playoff
/// has measured them as no better.
std::vector<double> regretCurve(llvm::ArrayRef<double> order, double bestNs,
                                size_t choices = kRegretChoices);

/// The expected regrets of the fastest of k that are drawn from \p times
/// without repetition. Exact: computed from the chance of each to be the
/// fastest, and not by drawing.
std::vector<double> expectedRegretCurve(std::vector<double> times,
                                        double bestNs,
                                        size_t choices = kRegretChoices);

/// The share that a random order is expected to reach: the mean of best over
/// the fastest of \p count configs drawn from \p times.
double expectedShare(std::vector<double> times, double bestNs, size_t count);

/// The mean of \p curves, of equal length, at each k. Empty without curves.
std::vector<double> meanCurve(llvm::ArrayRef<std::vector<double>> curves);

} // namespace kiln::cli
