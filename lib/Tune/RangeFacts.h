//===- RangeFacts.h - the facts of records about a range ------------------===//
//
// Portfolios hold no times. The facts that trials found at the anchors of a
// range are in the records of its layers, and are read from there when a
// portfolio is restored. Other points of a layer are left out, so trials
// elsewhere do not change a choice until the range is measured again, and the
// choice is the same in all processes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Call/ProblemRange.h"
#include "Store/Records.h"

#include <llvm/ADT/ArrayRef.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace kiln {

/// A fact that trials found at an anchor of a range.
struct RangeFact {
  ExtentPoint point; ///< the values of the range's fields
  const Measurement *found = nullptr;
};

/// Facts about the kernels of one range. Immutable.
class RangeFacts {
public:
  RangeFacts() = default;
  /// Finds all facts at \p anchors, which are points of \p range. Parses these
  /// points of the records.
  static RangeFacts find(const RecordStore &records, const ProblemRange &range,
                         llvm::ArrayRef<std::vector<int64_t>> anchors,
                         llvm::StringRef deviceClass,
                         MeasurementMode mode = MeasurementMode::Cold);

  llvm::ArrayRef<RangeFact> all() const { return facts; }

private:
  std::vector<RangeFact> facts;
  std::vector<std::shared_ptr<const TuningRecord>> owners; ///< of the facts
};

} // namespace kiln
