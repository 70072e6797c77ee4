//===- MeasurementIndex.h - measurements of a point, by their kind --------===//
//
// Private to the records. A point of any origin may hold any number of
// measurements, so reading and merging must not search all of them for each.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Store/Records.h"

#include <llvm/ADT/StringMap.h>

#include <utility>

namespace kiln {

/// Finds measurements of one point. While it is used it alone may add to the
/// point. Pointers are valid until the next append().
class MeasurementIndex {
public:
  explicit MeasurementIndex(RecordPoint &point) : point(point) {
    for (size_t i = 0; i < point.measurements.size(); ++i)
      note(i);
  }

  /// Returns the measurement of the config and mode of \p like, by the same
  /// kind of trials; null if absent.
  Measurement *find(const Measurement &like) {
    auto found = places.find(keyOf(like));
    return found == places.end() ? nullptr : &point.measurements[found->second];
  }

  /// Adds a measurement that find() does not find.
  void append(Measurement measurement) {
    point.measurements.push_back(std::move(measurement));
    note(point.measurements.size() - 1);
  }

private:
  static std::string keyOf(const Measurement &measurement) {
    std::string key = measurement.config;
    key += measurement.mode == MeasurementMode::Cold ? '\n' : '\r';
    if (!measurement.isOfValue())
      key += measurement.how;
    return key;
  }
  void note(size_t place) {
    places.try_emplace(keyOf(point.measurements[place]), place);
  }

  RecordPoint &point;
  llvm::StringMap<size_t> places;
};

} // namespace kiln
