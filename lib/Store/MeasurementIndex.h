//===- MeasurementIndex.h - a point's measurements by config and mode -----===//
//
// Private to the records. A point of any origin may hold any number of them, so
// that neither reading nor merging may look at all for each.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Store/Records.h"

#include <llvm/ADT/StringMap.h>

#include <utility>

namespace kiln {

/// Finds measurements of one point, to which it alone adds while it is used.
/// Pointers hold until the next append().
class MeasurementIndex {
public:
  explicit MeasurementIndex(RecordPoint &point) : point(point) {
    for (size_t i = 0; i < point.measurements.size(); ++i)
      note(i);
  }

  Measurement *find(llvm::StringRef config, MeasurementMode mode) {
    auto &places = mapOf(mode);
    auto found = places.find(config);
    return found == places.end() ? nullptr : &point.measurements[found->second];
  }

  /// Adds what find() does not find.
  void append(Measurement measurement) {
    point.measurements.push_back(std::move(measurement));
    note(point.measurements.size() - 1);
  }

private:
  llvm::StringMap<size_t> &mapOf(MeasurementMode mode) {
    return mode == MeasurementMode::Cold ? cold : hot;
  }
  void note(size_t place) {
    const Measurement &measurement = point.measurements[place];
    mapOf(measurement.mode).try_emplace(measurement.config, place);
  }

  RecordPoint &point;
  llvm::StringMap<size_t> cold, hot;
};

} // namespace kiln
