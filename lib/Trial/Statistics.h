//===- Statistics.h - statistics of samples -------------------------------===//
#pragma once

#include <llvm/ADT/ArrayRef.h>

#include <cstddef>
#include <vector>

namespace kiln {

/// A location and its uncertainty, in the unit of the samples.
struct SampleSummary {
  double median = 0;
  /// The confidence interval of the median, at least 95 % with 6 or more
  /// samples; with fewer, the range of all.
  double ciLow = 0, ciHigh = 0;
  size_t count = 0;
};

/// Returns the median and its nonparametric confidence interval from order
/// statistics: the ranks come from the binomial distribution with p = 1/2 (e.g.
/// Conover, "Practical Nonparametric Statistics", section 3.2), so that no
/// distribution of the times is assumed. No samples give zeros.
SampleSummary summarizeSamples(llvm::ArrayRef<double> samples);

/// Removes changes that affect all candidates of a round alike, such as a drop
/// of the clock. \p samples holds a row a candidate and a column a round; a
/// candidate that was dropped has a shorter row. A round in which every
/// candidate (at least two) is off its own median to the same side by more than
/// \p threshold is scaled back by the median of these ratios.
void removeCommonDrift(std::vector<std::vector<double>> &samples,
                       double threshold = 0.03);

/// The geometric mean of positive values. It suits ratios, since the mean of
/// the inverses is its inverse. 0 if there are none.
double geomean(llvm::ArrayRef<double> values);

} // namespace kiln
