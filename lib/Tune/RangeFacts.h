//===- RangeFacts.h - what records say of a range -------------------------===//
//
// Portfolios hold no times. What trials found at the anchors of a range lies in
// the records of its layers, whoever made the trials. From there it comes when
// a portfolio is restored. Other points of a layer are left out: so what is
// chosen does not change with what is tuned elsewhere until the range is
// measured again, and is the same in all processes.
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

/// What trials found at an anchor of a range.
struct RangeFact {
  ExtentPoint point; ///< of the range's fields
  const Measurement *found = nullptr;
};

/// Facts about the kernels of one range. Immutable.
class RangeFacts {
public:
  RangeFacts() = default;
  /// All facts at \p anchors, which are points of \p range. Cost: parses these
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
