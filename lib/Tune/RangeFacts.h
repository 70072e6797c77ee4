//===- RangeFacts.h - what records say of a range -------------------------===//
//
// Portfolios hold no times. What trials found at the points of a range lies in
// the records of its layers, whoever made the trials: of the range, of a value,
// in the background. From there it comes when a portfolio is restored.
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

/// What trials found at a point of a range.
struct RangeFact {
  ExtentPoint point; ///< of the range's fields
  const Measurement *found = nullptr;
  bool isAtAnchor = false;
};

/// Facts about the kernels of one range. Immutable.
class RangeFacts {
public:
  RangeFacts() = default;
  /// All facts at \p anchors, which are points of \p range, and a few of the
  /// best at other points where trials ran. Cost: parses the points of records
  /// that it takes.
  static RangeFacts find(const RecordStore &records, const ProblemRange &range,
                         llvm::ArrayRef<std::vector<int64_t>> anchors,
                         llvm::StringRef deviceClass,
                         MeasurementMode mode = MeasurementMode::Cold);

  /// Those at anchors first.
  llvm::ArrayRef<RangeFact> all() const { return facts; }

private:
  void addAnchor(const std::shared_ptr<const TuningRecord> &record,
                 const ProblemRange &range, const ExtentPoint &point,
                 const Problem &problem, MeasurementMode mode);
  void addOthers(const std::shared_ptr<const TuningRecord> &record,
                 const ProblemRange &range,
                 llvm::ArrayRef<std::vector<int64_t>> anchors,
                 MeasurementMode mode);

  std::vector<RangeFact> facts;
  std::vector<std::shared_ptr<const TuningRecord>> owners; ///< of the facts
};

} // namespace kiln
