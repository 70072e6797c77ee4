//===- Evidence.cpp -------------------------------------------------------===//
#include "Tune/Evidence.h"

#include <llvm/ADT/Hashing.h>
#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <numeric>

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

/// The covariance that two errors of one kernel have on top of those of its
/// template and bound.
static double kernelCovariance(const TimedSubject &a, const TimedSubject &b) {
  // Run-time knobs change little, and their effect differs from place to place.
  const double ofPlace =
      squared(kOfPlace) + (a.config == b.config ? squared(kOfConfig) : 0);
  return squared(kOfKernel) + ofPlace * std::exp(-squaredDistance(a, b) /
                                                 (2 * squared(kReachOfPlace)));
}

/// The covariance of the errors of both, without that of a series.
static double covarianceOf(const TimedSubject &a, const TimedSubject &b) {
  if (a.tmpl != b.tmpl)
    return 0;
  return squared(kOfTemplate) + (a.bound == b.bound ? squared(kOfBound) : 0) +
         (a.kernel == b.kernel ? kernelCovariance(a, b) : 0);
}

void Evidence::add(const TimedSubject &subject, uint32_t series,
                   double logFactor) {
  if (times.size() == kMostTimes)
    times.erase(times.begin());
  times.push_back({subject, series, logFactor});
  isFitted = false;
}

/// Adds \p factor times \p column to \p target.
static void addScaled(double *target, llvm::ArrayRef<double> column,
                      double factor) {
  for (size_t i = 0; i < column.size(); ++i)
    target[i] += factor * column[i];
}

/// The sum of products, in lanes: one sum would not be vectorised, because of
/// the order of its terms.
static double dot(llvm::ArrayRef<double> a, llvm::ArrayRef<double> b) {
  constexpr size_t kLanes = 8;
  double lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= a.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] += a[i + lane] * b[i + lane];
  for (; i < a.size(); ++i)
    lanes[i % kLanes] += a[i] * b[i];
  return std::accumulate(std::begin(lanes), std::end(lanes), 0.0);
}

/// Turns a positive definite matrix into its Cholesky factor.
static void factorise(SymmetricMatrix &matrix) {
  for (size_t j = 0; j < matrix.rows; ++j) {
    const auto column = matrix.column(j);
    const double root = std::sqrt(column[0]);
    for (double &value : column)
      value /= root;
    for (size_t k = j + 1; k < matrix.rows; ++k)
      addScaled(matrix.column(k).data(), column.drop_front(k - j),
                -column[k - j]);
  }
}

/// Turns a Cholesky factor into the inverse of its matrix: into its own inverse
/// column by column, then into the product of that with itself.
static void invert(SymmetricMatrix &factor) {
  const size_t rows = factor.rows;
  std::vector<double> unit;
  for (size_t j = 0; j < rows; ++j) {
    unit.assign(rows - j, 0);
    unit[0] = 1;
    for (size_t k = j; k < rows; ++k) {
      const auto column = factor.column(k);
      const double value = unit[k - j] /= column[0];
      addScaled(&unit[k - j] + 1, column.drop_front(), -value);
    }
    llvm::copy(unit, factor.column(j).begin()); // no later column reads it
  }
  for (size_t j = 0; j < rows; ++j) {
    const auto column = factor.column(j);
    for (size_t i = j; i < rows; ++i)
      column[i - j] = dot(column.drop_front(i - j), factor.column(i));
  }
}

void Evidence::fit() {
  const size_t count = times.size();
  inverse = {count, {}};
  inverse.values.reserve(count * (count + 1) / 2);
  for (size_t j = 0; j < count; ++j)
    for (size_t i = j; i < count; ++i) {
      double sum = covarianceOf(times[i].subject, times[j].subject);
      if (times[i].series == times[j].series)
        sum += squared(kOfSeries);
      if (i == j)
        sum += squared(kOfReading);
      inverse.values.push_back(sum);
    }
  factorise(inverse);
  invert(inverse);
  weights.assign(count, 0);
  for (size_t j = 0; j < count; ++j) {
    const llvm::ArrayRef<double> column = inverse.column(j);
    addScaled(&weights[j], column, times[j].logFactor);
    for (size_t i = j + 1; i < count; ++i)
      weights[j] += column[i - j] * times[i].logFactor;
  }
  completeGroups();
  isFitted = true;
}

int Evidence::findGroup(const Template &tmpl,
                        std::optional<llvm::StringRef> bound) const {
  auto found = llvm::find_if(groups, [&](const Group &group) {
    return group.tmpl == &tmpl && group.bound == bound;
  });
  return found == groups.end() ? -1 : static_cast<int>(found - groups.begin());
}

void Evidence::addToGroup(const Template &tmpl,
                          std::optional<llvm::StringRef> bound, uint32_t time) {
  int group = findGroup(tmpl, bound);
  if (group < 0) {
    group = static_cast<int>(groups.size());
    groups.emplace_back();
    groups.back().tmpl = &tmpl;
    groups.back().bound = bound;
  }
  groups[static_cast<size_t>(group)].members.push_back(time);
}

void Evidence::completeGroups() {
  groups.clear();
  timesOfKernel.clear();
  for (uint32_t i = 0; i < times.size(); ++i) {
    const TimedSubject &subject = times[i].subject;
    addToGroup(*subject.tmpl, std::nullopt, i);
    addToGroup(*subject.tmpl, subject.bound, i);
    timesOfKernel[subject.kernel].push_back(i);
  }
  for (Group &group : groups) {
    group.row.assign(times.size(), 0);
    for (uint32_t member : group.members) {
      group.weight += weights[member];
      for (size_t i = 0; i < times.size(); ++i)
        group.row[i] += inverse.at(i, member);
    }
    for (const Group &other : groups) {
      double product = 0;
      for (uint32_t member : other.members)
        product += group.row[member];
      group.products.push_back(product);
    }
  }
}

Evidence::View Evidence::viewOf(const TimedSubject &subject) const {
  assert(isFitted && "fit() follows add()");
  View view{subject,
            findGroup(*subject.tmpl, std::nullopt),
            findGroup(*subject.tmpl, subject.bound),
            {}};
  auto own = timesOfKernel.find(subject.kernel);
  if (own == timesOfKernel.end())
    return view;
  for (uint32_t i : own->second)
    if (times[i].subject.tmpl == subject.tmpl)
      view.ofKernel.push_back({i, kernelCovariance(subject, times[i].subject)});
  return view;
}

double Evidence::expect(const View &view) const {
  double sum = 0;
  if (view.ofTemplate >= 0)
    sum += squared(kOfTemplate) *
           groups[static_cast<size_t>(view.ofTemplate)].weight;
  if (view.ofBound >= 0)
    sum += squared(kOfBound) * groups[static_cast<size_t>(view.ofBound)].weight;
  for (auto [i, covariance] : view.ofKernel)
    sum += covariance * weights[i];
  return sum;
}

/// The variance of the difference that the times explain: with the difference
/// of the covariances of both, its product with the inverse and itself.
double Evidence::explained(const View &a, const View &b) const {
  llvm::SmallVector<std::pair<const Group *, double>, 4> shared;
  auto addShared = [&](int group, double factor) {
    if (group >= 0)
      shared.push_back({&groups[static_cast<size_t>(group)], factor});
  };
  if (a.ofTemplate != b.ofTemplate)
    for (auto [view, sign] : {std::pair(&a, 1.0), std::pair(&b, -1.0)})
      addShared(view->ofTemplate, sign * squared(kOfTemplate));
  if (a.ofBound != b.ofBound)
    for (auto [view, sign] : {std::pair(&a, 1.0), std::pair(&b, -1.0)})
      addShared(view->ofBound, sign * squared(kOfBound));
  // With one kernel, both have the same times in the same order.
  const bool sharesKernel =
      a.subject.tmpl == b.subject.tmpl && a.subject.kernel == b.subject.kernel;
  auto own = a.ofKernel;
  if (sharesKernel)
    for (auto [mine, others] : llvm::zip_equal(own, b.ofKernel))
      mine.second -= others.second;
  else
    for (auto [i, covariance] : b.ofKernel)
      own.push_back({i, -covariance});
  double sum = 0;
  for (auto [group, factor] : shared) {
    for (auto [other, otherFactor] : shared)
      sum += factor * otherFactor *
             group->products[static_cast<size_t>(other - groups.data())];
    for (auto [i, covariance] : own)
      sum += 2 * factor * covariance * group->row[i];
  }
  for (size_t p = 0; p < own.size(); ++p) {
    const auto [i, covariance] = own[p];
    double half = covariance * inverse.at(i, i) / 2;
    for (const auto &[j, other] : llvm::ArrayRef(own).take_front(p))
      half += other * inverse.at(i, j);
    sum += 2 * covariance * half;
  }
  return sum;
}

double Evidence::uncertainty(const View &a, const View &b) const {
  const double prior = covarianceOf(a.subject, a.subject) +
                       covarianceOf(b.subject, b.subject) -
                       2 * covarianceOf(a.subject, b.subject);
  return std::sqrt(std::max(prior - explained(a, b), 0.0));
}

//===----------------------------------------------------------------------===//
// The order of contenders
//===----------------------------------------------------------------------===//

/// The number of fastest configs that are compared with the estimator's first
/// choice.
static constexpr size_t kMostCompared = 8;

void judge(std::vector<Contender> &contenders, const Evidence &evidence,
           size_t mostLeads) {
  if (contenders.empty())
    return;
  std::vector<Evidence::View> views;
  views.reserve(contenders.size());
  llvm::SmallVector<size_t, 32> order;
  for (Contender &contender : contenders) {
    contender.mayLead = false;
    order.push_back(views.size());
    views.push_back(evidence.viewOf(contender.subject));
    contender.expectedNs =
        contender.predictedNs * std::exp(evidence.expect(views.back()));
  }
  llvm::stable_sort(order, [&](size_t a, size_t b) {
    return contenders[a].expectedNs < contenders[b].expectedNs;
  });
  contenders.front().mayLead = true;
  size_t compared = 0, leads = 1;
  for (size_t i : order) {
    // From the first choice on, no config is expected to be faster.
    if (i == 0 || leads >= mostLeads || compared++ >= kMostCompared)
      break;
    const double gain =
        std::log(contenders.front().expectedNs / contenders[i].expectedNs);
    contenders[i].mayLead =
        gain > kOfReading && gain > evidence.uncertainty(views[0], views[i]);
    leads += contenders[i].mayLead;
  }
  llvm::stable_sort(order, [&](size_t a, size_t b) {
    return contenders[a].mayLead && !contenders[b].mayLead;
  });
  std::vector<Contender> ordered;
  ordered.reserve(contenders.size());
  for (size_t i : order)
    ordered.push_back(std::move(contenders[i]));
  contenders = std::move(ordered);
}

} // namespace kiln
