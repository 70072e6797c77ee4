//===- Evidence.cpp -------------------------------------------------------===//
#include "Tune/Evidence.h"

#include <llvm/ADT/Hashing.h>
#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cmath>

namespace kiln {

// Standard deviations of logarithms. Sources: for 148 GEMM problems, 63 of
// attention and 294 of rows that were swept on an H200 (benchmarks/sweeps),
// configs within 30 % of the best of their space, components fitted side by
// side: template and bound 0.025 to 0.057, kernel 0.016 to 0.04, the rest,
// mostly of the layer, 0.055 to 0.07. Noise is that of medians of trials.
static constexpr double kOfSeries = 0.15;
static constexpr double kOfTemplate = 0.03, kOfBound = 0.03;
static constexpr double kOfKernel = 0.03, kOfPlace = 0.04, kOfConfig = 0.02;
static constexpr double kOfReading = 0.012;
/// The reach of errors of a kernel's place: an octave.
static const double kReachOfPlace = std::log(2.0);

static constexpr double squared(double x) { return x * x; }

/// The oldest times beyond this number are forgotten, because fit() costs its
/// third power.
static constexpr size_t kMostTimes = 384;

static uint64_t hashOf(llvm::ArrayRef<int64_t> values) {
  return llvm::hash_combine_range(values.begin(), values.end());
}

TimedSubject::TimedSubject(const Template &tmpl, const Values &config,
                           llvm::ArrayRef<int64_t> point, llvm::StringRef bound)
    : tmpl(&tmpl), kernel(hashOf(config.compiledKnobs())),
      config(hashOf(config.array())), bound(bound) {
  for (int64_t value : point)
    place.push_back(std::log(static_cast<float>(std::max<int64_t>(value, 1))));
}

static double squaredDistance(const TimedSubject &a, const TimedSubject &b) {
  double sum = 0;
  for (auto [x, y] : llvm::zip_equal(a.place, b.place))
    sum += squared(x - y);
  return sum;
}

/// The covariance of the errors of both, without that of a series.
static double covarianceOf(const TimedSubject &a, const TimedSubject &b) {
  if (a.tmpl != b.tmpl)
    return 0;
  double sum = squared(kOfTemplate);
  if (a.bound == b.bound)
    sum += squared(kOfBound);
  if (a.kernel != b.kernel)
    return sum;
  // Run-time knobs change little, and their effect differs from place to place.
  const double ofPlace =
      squared(kOfPlace) + (a.config == b.config ? squared(kOfConfig) : 0);
  return sum + squared(kOfKernel) +
         ofPlace *
             std::exp(-squaredDistance(a, b) / (2 * squared(kReachOfPlace)));
}

void Evidence::add(const TimedSubject &subject, uint32_t series,
                   double logFactor) {
  if (times.size() == kMostTimes)
    times.erase(times.begin());
  times.push_back({subject, series, logFactor});
}

/// The beginning of \p column in a lower triangle of \p rows, which is stored
/// by columns from the diagonal down.
static size_t columnAt(size_t column, size_t rows) {
  return column * (2 * rows + 1 - column) / 2;
}

/// Subtracts \p factor times \p column from \p target. A sum instead would not
/// be vectorised, because of the order of its terms.
static void subtract(double *target, const double *column, double factor,
                     size_t count) {
  for (size_t i = 0; i < count; ++i)
    target[i] -= factor * column[i];
}

void Evidence::fit() {
  const size_t count = times.size();
  factor.clear();
  factor.reserve(columnAt(count, count));
  for (size_t j = 0; j < count; ++j)
    for (size_t i = j; i < count; ++i) {
      double sum = covarianceOf(times[i].subject, times[j].subject);
      if (times[i].series == times[j].series)
        sum += squared(kOfSeries);
      if (i == j)
        sum += squared(kOfReading);
      factor.push_back(sum);
    }
  for (size_t j = 0; j < count; ++j) {
    double *column = &factor[columnAt(j, count)];
    const double root = std::sqrt(*column);
    for (size_t i = j; i < count; ++i)
      column[i - j] /= root;
    for (size_t k = j + 1; k < count; ++k)
      subtract(&factor[columnAt(k, count)], column + (k - j), column[k - j],
               count - k);
  }
  weights.resize(count);
  for (size_t i = 0; i < count; ++i)
    weights[i] = times[i].logFactor;
  weights = solveLower(std::move(weights));
  for (size_t j = count; j-- > 0;) {
    const double *column = &factor[columnAt(j, count)];
    for (size_t i = j + 1; i < count; ++i)
      weights[j] -= column[i - j] * weights[i];
    weights[j] /= *column;
  }
}

std::vector<double> Evidence::solveLower(std::vector<double> right) const {
  const size_t count = right.size();
  for (size_t j = 0; j < count; ++j) {
    const double *column = &factor[columnAt(j, count)];
    right[j] /= *column;
    subtract(right.data() + j + 1, column + 1, right[j], count - j - 1);
  }
  return right;
}

std::vector<double> Evidence::covariances(const TimedSubject &subject) const {
  std::vector<double> row;
  row.reserve(times.size());
  for (const Time &time : times)
    row.push_back(covarianceOf(subject, time.subject));
  return row;
}

double Evidence::expect(const TimedSubject &subject) const {
  double sum = 0;
  for (auto [time, weight] : llvm::zip_equal(times, weights))
    sum += covarianceOf(subject, time.subject) * weight;
  return sum;
}

double Evidence::uncertainty(const TimedSubject &a,
                             const TimedSubject &b) const {
  std::vector<double> contrast = covariances(a);
  for (auto [of, other] : llvm::zip_equal(contrast, covariances(b)))
    of -= other;
  double variance =
      covarianceOf(a, a) + covarianceOf(b, b) - 2 * covarianceOf(a, b);
  for (double part : solveLower(std::move(contrast)))
    variance -= squared(part);
  return std::sqrt(std::max(variance, 0.0));
}

//===----------------------------------------------------------------------===//
// The order of contenders
//===----------------------------------------------------------------------===//

/// The number of fastest configs that are compared with the estimator's first
/// choice.
static constexpr size_t kMostCompared = 8;

/// Whether \p other may go before \p first: its gain is more than the noise and
/// more than the uncertainty.
static bool isSupported(const Contender &other, const Contender &first,
                        const Evidence &evidence) {
  const double gain = std::log(first.expectedNs / other.expectedNs);
  return gain > kOfReading &&
         gain > evidence.uncertainty(first.subject, other.subject);
}

void judge(std::vector<Contender> &contenders, const Evidence &evidence,
           size_t mostLeads) {
  if (contenders.empty())
    return;
  for (Contender &contender : contenders)
    contender.expectedNs =
        contender.predictedNs * std::exp(evidence.expect(contender.subject));
  const Contender first = contenders.front();
  llvm::stable_sort(contenders, [](const Contender &a, const Contender &b) {
    return a.expectedNs < b.expectedNs;
  });
  size_t compared = 0, leads = 1;
  for (Contender &contender : contenders) {
    contender.mayLead =
        contender.place == first.place ||
        (contender.expectedNs < first.expectedNs && leads < mostLeads &&
         compared++ < kMostCompared && isSupported(contender, first, evidence));
    leads += contender.mayLead && contender.place != first.place;
  }
  llvm::stable_sort(contenders, [](const Contender &a, const Contender &b) {
    return a.mayLead && !b.mayLead;
  });
}

} // namespace kiln
