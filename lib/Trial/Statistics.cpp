//===- Statistics.cpp - statistics of samples -----------------------------===//
#include "Trial/Statistics.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace kiln {

/// Logarithm of the factorial of \p n.
static double logFactorial(size_t n) {
  int sign = 0; // std::lgamma writes it to a global variable
  return ::lgamma_r(static_cast<double>(n) + 1, &sign);
}

/// Probability of \p successes in \p trials fair tosses.
static double binomialHalf(size_t trials, size_t successes) {
  return std::exp(logFactorial(trials) - logFactorial(successes) -
                  logFactorial(trials - successes) -
                  static_cast<double>(trials) * std::log(2.0));
}

/// The number of \p count sorted samples that lie outside of the interval on
/// each side: the most with which it still covers the median by 95 %; 0 if not
/// even the range of all does.
static size_t samplesOutside(size_t count) {
  constexpr double kTail = 0.025;
  size_t outside = 0;
  double tail = binomialHalf(count, 0);
  // The interval from the sample of rank r + 1 to that of rank count - r misses
  // the median with probability 2 P(X <= r), X ~ B(count, 1/2).
  while (outside + 1 < (count + 1) / 2) {
    tail += binomialHalf(count, outside + 1);
    if (tail > kTail)
      break;
    ++outside;
  }
  return outside;
}

static double medianOfSorted(llvm::ArrayRef<double> sorted) {
  size_t middle = sorted.size() / 2;
  if (sorted.size() % 2 == 1)
    return sorted[middle];
  return (sorted[middle - 1] + sorted[middle]) / 2;
}

static double medianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return medianOfSorted(values);
}

SampleSummary summarizeSamples(llvm::ArrayRef<double> samples) {
  SampleSummary summary;
  if (samples.empty())
    return summary;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  size_t outside = samplesOutside(sorted.size());
  summary.median = medianOfSorted(sorted);
  summary.ciLow = sorted[outside];
  summary.ciHigh = sorted[sorted.size() - 1 - outside];
  summary.count = sorted.size();
  return summary;
}

void removeCommonDrift(std::vector<std::vector<double>> &samples,
                       double threshold) {
  std::vector<double> medians;
  size_t rounds = 0;
  for (const std::vector<double> &row : samples) {
    medians.push_back(row.empty() ? 0 : medianOf(row));
    rounds = std::max(rounds, row.size());
  }
  for (size_t round = 0; round < rounds; ++round) {
    std::vector<double> ratios;
    for (size_t i = 0; i < samples.size(); ++i)
      if (round < samples[i].size() && medians[i] > 0)
        ratios.push_back(samples[i][round] / medians[i]);
    if (ratios.size() < 2)
      continue;
    auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
    bool isSlow = *least > 1 + threshold, isFast = *most < 1 - threshold;
    double drift = medianOf(ratios);
    if ((!isSlow && !isFast) || drift <= 0)
      continue;
    for (std::vector<double> &row : samples)
      if (round < row.size())
        row[round] /= drift;
  }
}

double geomean(llvm::ArrayRef<double> values) {
  double logs = 0;
  for (double value : values) {
    assert(value > 0 && "only positive values have a logarithm");
    logs += std::log(value);
  }
  return values.empty() ? 0
                        : std::exp(logs / static_cast<double>(values.size()));
}

} // namespace kiln
