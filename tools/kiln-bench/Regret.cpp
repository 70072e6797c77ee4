//===- Regret.cpp ---------------------------------------------------------===//
#include "kiln-bench/Regret.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cassert>
#include <limits>

namespace kiln::cli {

static double regretOf(double ns, double bestNs) {
  return std::max(ns / bestNs - 1, 0.0);
}

std::vector<double> regretCurve(llvm::ArrayRef<double> order, double bestNs,
                                size_t choices) {
  std::vector<double> curve;
  double fastest = std::numeric_limits<double>::infinity();
  for (size_t k = 0; k < choices && !order.empty(); ++k) {
    if (k < order.size())
      fastest = std::min(fastest, order[k]);
    curve.push_back(regretOf(fastest, bestNs));
  }
  return curve;
}

/// The mean of \p value over the fastest of \p count of the sorted \p times, in
/// all draws without repetition; 0 without times.
static double meanOfFastest(llvm::ArrayRef<double> times, size_t count,
                            llvm::function_ref<double(double)> value) {
  const size_t size = times.size();
  count = std::min(count, size);
  // The fastest of those drawn is the i-th if it is drawn and none before it:
  // with chance * (the rest's chance to hold all others).
  double expected = 0, none = 1;
  for (size_t i = 0; i + count <= size && count > 0; ++i) {
    const double chance =
        static_cast<double>(count) / static_cast<double>(size - i);
    expected += none * chance * value(times[i]);
    none *= 1 - chance;
  }
  return expected;
}

std::vector<double> expectedRegretCurve(std::vector<double> times,
                                        double bestNs, size_t choices) {
  llvm::sort(times);
  std::vector<double> curve;
  for (size_t k = 1; k <= choices && !times.empty(); ++k)
    curve.push_back(meanOfFastest(
        times, k, [&](double ns) { return regretOf(ns, bestNs); }));
  return curve;
}

double expectedShare(std::vector<double> times, double bestNs, size_t count) {
  llvm::sort(times);
  return meanOfFastest(times, count,
                       [&](double ns) { return std::min(bestNs / ns, 1.0); });
}

std::vector<double> meanCurve(llvm::ArrayRef<std::vector<double>> curves) {
  std::vector<double> mean;
  for (const std::vector<double> &curve : curves) {
    mean.resize(curve.size());
    assert(curve.size() == curves.front().size() && "of equal length");
    for (size_t k = 0; k < curve.size(); ++k)
      mean[k] += curve[k] / static_cast<double>(curves.size());
  }
  return mean;
}

} // namespace kiln::cli
