//===- RangeGrid.cpp - the samples of a range -----------------------------===//
#include "Tune/RangeGrid.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kiln {

/// The rule by which the values of one field are chosen.
namespace {
struct AxisRule {
  int64_t dense;     ///< every value up to it
  double step;       ///< then geometric steps
  size_t mostValues; ///< steps are longer if there would be more
  int64_t edge; ///< both sides of its multiples up to 16 times that; 0: none
};
} // namespace

static constexpr AxisRule kOneField = {256, 0.015, 640, 64};
/// For several fields: the least step, the factor by which it grows until the
/// product is small enough, and the number of steps of the dense values.
static constexpr double kLeastStep = 0.18, kStepGrowth = 1.15;
static constexpr double kDenseSteps = 3;

static std::vector<int64_t> axisOf(int64_t low, int64_t high,
                                   const AxisRule &rule) {
  std::vector<int64_t> values;
  const int64_t denseEnd = std::min(high, std::max(low, rule.dense));
  for (int64_t value = low; value <= std::min(denseEnd, rule.dense); ++value)
    values.push_back(value);
  const double octaves =
      std::log(static_cast<double>(high) / static_cast<double>(denseEnd));
  const double step = std::max(std::log1p(rule.step),
                               octaves / static_cast<double>(rule.mostValues));
  for (double at = 0; at < octaves; at += step)
    values.push_back(static_cast<int64_t>(
        std::llround(static_cast<double>(denseEnd) * std::exp(at))));
  // Multiples grow with the values, as tiles do.
  constexpr int64_t kMultiples = 16;
  for (int64_t edge = rule.edge; edge && edge <= rule.edge * 4; edge *= 2)
    for (int64_t i = 1; i <= kMultiples * (edge == rule.edge * 4 ? 2 : 1); ++i)
      for (int64_t value : {edge * i, edge * i + 1})
        if (value > low && value < high)
          values.push_back(value);
  values.push_back(high);
  llvm::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

RangeGrid::RangeGrid(const ProblemRange &range, size_t mostPoints) {
  auto make = [&](const AxisRule &rule) {
    axes.clear();
    for (auto [low, high] : llvm::zip_equal(range.low, range.high))
      axes.push_back(axisOf(low, high, rule));
  };
  if (range.fields.size() == 1) {
    make(kOneField);
    return;
  }
  const size_t least = size_t(1) << range.fields.size(); // both ends of each
  for (double step = kLeastStep;; step *= kStepGrowth) {
    make({static_cast<int64_t>(kDenseSteps / step), step,
          std::numeric_limits<size_t>::max(), 0});
    if (size() <= std::max(mostPoints, least))
      return;
  }
}

size_t RangeGrid::size() const {
  size_t size = axes.empty() ? 0 : 1;
  for (const auto &axis : axes)
    size *= axis.size();
  return size;
}

ExtentPoint RangeGrid::at(size_t index) const {
  ExtentPoint point;
  for (const auto &axis : axes) {
    point.push_back(axis[index % axis.size()]);
    index /= axis.size();
  }
  return point;
}

double RangeGrid::weightOf(size_t index) const {
  double weight = 1;
  for (const auto &axis : axes) {
    const size_t i = index % axis.size();
    index /= axis.size();
    const auto below = static_cast<double>(axis[i ? i - 1 : i]);
    const auto here = static_cast<double>(axis[i]);
    const auto above =
        static_cast<double>(axis[std::min(i + 1, axis.size() - 1)]);
    // The step between the middles; a lone value counts as itself.
    weight *= std::log((here + above + 1) / (here + below));
  }
  return weight;
}

llvm::SmallVector<size_t, 8>
RangeGrid::around(llvm::ArrayRef<int64_t> point) const {
  llvm::SmallVector<size_t, 8> places = {0};
  size_t stride = 1;
  for (auto [axis, value] : llvm::zip_equal(axes, point)) {
    const auto above = llvm::lower_bound(axis, value);
    const auto last = static_cast<size_t>(axis.end() - axis.begin()) - 1;
    const size_t upper =
        std::min(static_cast<size_t>(above - axis.begin()), last);
    const size_t lower = upper && axis[upper] != value ? upper - 1 : upper;
    const size_t count = places.size();
    for (size_t i = 0; i < count; ++i) {
      if (lower != upper)
        places.push_back(places[i] + upper * stride);
      places[i] += lower * stride;
    }
    stride *= axis.size();
  }
  return places;
}

void RangeGrid::widen(ExtentPoint &low, ExtentPoint &high) const {
  for (auto [field, axis] : llvm::enumerate(axes)) {
    auto below = llvm::lower_bound(axis, low[field]);
    if (below != axis.begin())
      low[field] = std::min(low[field], *std::prev(below) + 1);
    auto above = llvm::upper_bound(axis, high[field]);
    if (above != axis.end())
      high[field] = std::max(high[field], *above - 1);
  }
}

} // namespace kiln
