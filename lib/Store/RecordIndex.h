//===- RecordIndex.h - a parsed record, ready to be asked -----------------===//
//
// Private to the records.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Store/Records.h"
#include "Support/Hash.h"

#include <llvm/ADT/StringSet.h>

#include <memory>
#include <vector>

namespace kiln {

/// What a point says in one mode.
struct IndexedPoint {
  std::vector<RecordedConfig> configs; ///< as RecordMatch::configs
  size_t validatedCount = 0;
  bool foundNoneRight = false;
  uint64_t skipped = 0; ///< configs that the family does not know
};

/// A record with its configs parsed. Immutable once it is shared.
struct IndexedRecord {
  TuningRecord record;
  const KernelFamily *family = nullptr;
  /// Whether its text was a record; if not, the record is empty.
  bool isReadable = true;
  uint64_t bytes = 0, hash = 0; ///< of its text
  /// Of each point of the record.
  std::vector<IndexedPoint> cold, hot;
  /// Point, config and kernel: could not be launched there.
  llvm::StringSet<> refused;
  llvm::StringSet<> refusedConfigs;

  const std::vector<IndexedPoint> &points(MeasurementMode mode) const {
    return mode == MeasurementMode::Cold ? cold : hot;
  }
  bool hasText(llvm::StringRef text) const {
    return text.size() == bytes && quickHash(text) == hash;
  }
  /// What it counts as while it is kept: its text, and what it costs without.
  uint64_t cost() const {
    constexpr uint64_t kOwnBytes = 1024;
    return kOwnBytes + (isReadable ? bytes : 0);
  }
};

/// Indexes \p record, that of \p text. Cost: parses each config.
std::shared_ptr<const IndexedRecord> indexRecord(TuningRecord record,
                                                 const KernelFamily &family,
                                                 llvm::StringRef text,
                                                 bool isReadable = true);

/// What \p record says about \p extents. Cost: microseconds; some tens where
/// hundreds of points are none of them.
RecordMatch matchRecord(std::shared_ptr<const IndexedRecord> record,
                        llvm::ArrayRef<int64_t> extents, MeasurementMode mode);

} // namespace kiln
