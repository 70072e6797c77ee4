//===- Figures.cpp --------------------------------------------------------===//
#include "kiln-bench/Figures.h"

#include "Trial/Statistics.h"
#include "cli/Report.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <vector>

namespace kiln::cli {

double quantile(llvm::ArrayRef<double> values, double share) {
  if (values.empty())
    return 0;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

static double shareBelow(llvm::ArrayRef<double> values, double limit) {
  const auto below =
      llvm::count_if(values, [&](double value) { return value < limit; });
  return static_cast<double>(below) / static_cast<double>(values.size());
}

RatioFigures RatioFigures::of(llvm::ArrayRef<double> ratios) {
  RatioFigures figures;
  if (ratios.empty())
    return figures;
  figures.count = ratios.size();
  figures.geomean = kiln::geomean(ratios);
  figures.least = *std::min_element(ratios.begin(), ratios.end());
  figures.greatest = *std::max_element(ratios.begin(), ratios.end());
  figures.tenth = quantile(ratios, 0.1);
  figures.below95 = shareBelow(ratios, 0.95);
  figures.below90 = shareBelow(ratios, 0.90);
  return figures;
}

llvm::json::Object RatioFigures::toJson() const {
  constexpr int kDigits = 4;
  return llvm::json::Object{{"cases", static_cast<int64_t>(count)},
                            {"geomean", rounded(geomean, kDigits)},
                            {"least", rounded(least, kDigits)},
                            {"greatest", rounded(greatest, kDigits)},
                            {"tenth_percentile", rounded(tenth, kDigits)},
                            {"below_0.95", rounded(below95, kDigits)},
                            {"below_0.90", rounded(below90, kDigits)}};
}

TimeFigures TimeFigures::of(llvm::ArrayRef<double> times) {
  TimeFigures figures;
  if (times.empty())
    return figures;
  figures.count = times.size();
  figures.sum = std::accumulate(times.begin(), times.end(), 0.0);
  figures.median = quantile(times, 0.5);
  figures.p99 = quantile(times, 0.99);
  figures.most = *std::max_element(times.begin(), times.end());
  return figures;
}

llvm::json::Object TimeFigures::toJson() const {
  return llvm::json::Object{{"count", static_cast<int64_t>(count)},
                            {"sum", rounded(sum)},
                            {"median", rounded(median)},
                            {"p99", rounded(p99)},
                            {"most", rounded(most)}};
}

std::string percent(double share) {
  return share > 0 ? fmt::format("{:.1f}", 100 * share) : "n/a";
}

/// Ranks from 1, equal values share the mean of their ranks.
static std::vector<double> ranksOf(llvm::ArrayRef<double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(),
            [&](size_t i, size_t j) { return values[i] < values[j]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]])
      ++end;
    for (size_t i = begin; i < end; ++i)
      ranks[order[i]] = static_cast<double>(begin + 1 + end) / 2;
    begin = end;
  }
  return ranks;
}

double rankCorrelation(llvm::ArrayRef<double> a, llvm::ArrayRef<double> b) {
  assert(a.size() == b.size() && "a pair for each");
  std::vector<double> x = ranksOf(a), y = ranksOf(b);
  const double mean = (static_cast<double>(x.size()) + 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

} // namespace kiln::cli
