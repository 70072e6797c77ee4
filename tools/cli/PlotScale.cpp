//===- PlotScale.cpp ------------------------------------------------------===//
#include "cli/PlotScale.h"

#include "Support/Format.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kiln::cli {

/// Ticks that an axis has about.
static constexpr double kTicks = 5;
/// Rounding errors of sums of steps.
static constexpr double kSlack = 1e-9;

/// 1, 2 or 5 times a power of ten: the least such number from \p value on.
static double roundUp(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (double digit : {1., 2., 5.})
    if (digit * power >= value * (1 - kSlack))
      return digit * power;
  return 10 * power;
}

static double roundDown(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (double digit : {5., 2.})
    if (digit * power <= value * (1 + kSlack))
      return digit * power;
  return power;
}

static double stepOf(double least, double greatest) {
  return roundUp((greatest - least) / kTicks);
}

PlotScale::PlotScale(const PlotAxis &axis, llvm::ArrayRef<double> values,
                     double from, double to)
    : isLog(axis.isLog), low(std::numeric_limits<double>::infinity()),
      high(-low), from(from), to(to), given(axis.ticks) {
  for (double value : values)
    if (std::isfinite(value) && (!isLog || value > 0)) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
  if (low > high) // nothing to show
    low = high = 1;
  if (isLog) {
    low = roundDown(low);
    high = roundUp(high);
    if (high <= low)
      high = 10 * low;
  } else {
    if (high <= low) {
      low = std::min(low, 0.0);
      high = std::max(high, low + 1);
    }
    const double step = stepOf(low, high);
    low = std::floor(low / step + kSlack) * step;
    high = std::ceil(high / step - kSlack) * step;
  }
  low = axis.least.value_or(low);
  high = axis.greatest.value_or(high);
  if (high <= low)
    high = isLog ? 10 * low : low + 1;
}

double PlotScale::at(double value) const {
  if (!isLog)
    return from + (value - low) / (high - low) * (to - from);
  value = value > 0 ? value : low;
  return from + std::log(value / low) / std::log(high / low) * (to - from);
}

std::vector<double> PlotScale::roundTicks() const {
  std::vector<double> values;
  auto add = [&](double value) {
    const double slack = (high - low) * kSlack;
    if (value >= low - slack && value <= high + slack)
      values.push_back(value);
  };
  if (isLog) {
    const int first = static_cast<int>(std::floor(std::log10(low) + kSlack));
    const int last = static_cast<int>(std::ceil(std::log10(high) - kSlack));
    const double decades = std::log10(high / low);
    const int stride = std::max(1, static_cast<int>(decades / kTicks));
    for (int power = first; power <= last; power += stride)
      for (double digit : {1., 2., 5.})
        if (digit == 1 || decades < 2)
          add(digit * std::pow(10, power));
    if (values.size() > 1)
      return values;
    values.clear(); // less than a decade without round numbers
  }
  const double step = stepOf(low, high);
  for (double count = std::ceil(low / step - kSlack);
       count * step <= high + step * kSlack; ++count)
    add(count * step);
  return values;
}

static std::string tickText(double value) {
  constexpr double kMega = 1e6, kKilo = 1e3, kManyDigits = 1e4;
  const double size = std::abs(value);
  if (size >= kMega)
    return fmt::format("{:.4g}M", value / kMega);
  if (size >= kManyDigits)
    return fmt::format("{:.4g}k", value / kKilo);
  // Not "-0" or "1e-17", where steps add up to nothing.
  return size < kSlack ? "0" : fmt::format("{:.6g}", value);
}

std::vector<PlotTick> PlotScale::ticks() const {
  std::vector<PlotTick> ticks;
  for (double value : given.empty() ? roundTicks() : given)
    ticks.push_back({value, tickText(value)});
  return ticks;
}

} // namespace kiln::cli
