//===- HistoryValues.h - the lines that values of launches need -----------===//
//
// A layer is a problem without the values of its dynamic extents. A line for
// each value would fill a history in minutes: attention meets another length of
// the sequences in each step. So a layer has lines for its first values, and
// then a range over all that it met, rounded to powers of two: it is noted
// again only when a value is outside, which is some tens of times at most.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Call/ProblemSpec.h"
#include "Kernel/Registry.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringMap.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

/// Not thread-safe.
class HistoryValues {
public:
  /// Values of a layer that have a line each.
  static constexpr size_t kMostSingle = 16;

  /// \p families outlives it.
  explicit HistoryValues(const Registry &families) : families(families) {}

  /// Values within the ranges of \p spec need no line from here on.
  void cover(const ProblemSpec &spec);
  /// The line that a launch of \p problem, without incidental fields, needs:
  /// its own, or that of a range. Empty: earlier ones cover it.
  std::string lineOf(const Problem &problem);

private:
  struct Bounds {
    int64_t first = 0, last = 0;
  };
  /// Bounds for each dynamic extent, in the schema's order.
  using Box = llvm::SmallVector<Bounds, 4>;
  struct Layer {
    std::vector<Box> covered;
    Box seen; ///< all values that were launched
    size_t single = 0;
  };

  static Box boxOf(const Values &values);
  static bool covers(const Layer &layer, const Box &box);
  Layer &layerOf(const Values &values);
  std::string rangeLine(const Problem &problem, const Box &box) const;

  const Registry &families;
  llvm::StringMap<Layer> layers;
};

} // namespace kiln
