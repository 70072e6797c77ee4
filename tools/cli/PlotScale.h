//===- PlotScale.h - an axis: numbers to places, and its ticks ------------===//
#pragma once

#include <llvm/ADT/ArrayRef.h>

#include <optional>
#include <string>
#include <vector>

namespace kiln::cli {

/// The options of an axis.
struct PlotAxis {
  std::string title = {}; ///< with the unit: "measured, us"
  bool isLog = false;
  /// The ends; by default round numbers around the data.
  std::optional<double> least = {}, greatest = {};
  std::vector<double> ticks = {}; ///< empty: round numbers
};

struct PlotTick {
  double value = 0;
  std::string text; ///< "0.5", "20", "1k", "3M"
};

/// Maps the numbers of an axis to places of a picture. A plain value.
class PlotScale {
public:
  /// Ends around \p values, which need not be sorted; numbers that are not
  /// finite, and on a logarithmic axis those that are not above 0, are ignored.
  /// \p from and \p to are the places of the least and the greatest number.
  PlotScale(const PlotAxis &axis, llvm::ArrayRef<double> values, double from,
            double to);

  /// The place of \p value, which may lie beyond the ends. On a logarithmic
  /// axis numbers that are not above 0 are at the least one.
  double at(double value) const;
  /// The axis's own ticks, or about five round ones, between the ends.
  std::vector<PlotTick> ticks() const;
  double least() const { return low; }
  double greatest() const { return high; }

private:
  std::vector<double> roundTicks() const;

  bool isLog;
  double low, high, from, to;
  std::vector<double> given;
};

} // namespace kiln::cli
