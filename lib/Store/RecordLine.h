//===- RecordLine.h - a point of a record, as text until it is asked for --===//
//
// A record may have thousands of points, of which a process asks for a few. So
// the text of a point is a line that begins with its extents and whether
// anything there is proven; the rest is read when it is first asked for.
//
// Private to the records.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Store/Records.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/ADT/StringSet.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// Results of trials of a point's value, for one family.
struct IndexedPoint {
  struct Mode {
    std::vector<RecordedConfig> configs; ///< as RecordMatch::configs
    size_t validatedCount = 0;
    bool foundNoneRight = false;
    uint64_t skipped = 0; ///< configs that the family does not know
  };
  const KernelFamily *family = nullptr;
  Mode cold, hot;

  const Mode &of(MeasurementMode mode) const {
    return mode == MeasurementMode::Cold ? cold : hot;
  }
};

/// Where kernels of a record could not be launched, and where they could.
/// Trials of another value say nothing of a refusal, because that may have been
/// too large; those of a range are of all its values. Immutable.
class RefusalIndex {
public:
  /// Cost: a look at each line; where something was refused, parses all.
  explicit RefusalIndex(const TuningRecord &record);
  ~RefusalIndex();
  /// What RecordMatch::refused has at \p extents: kernels whose nearest trial
  /// was refused.
  llvm::StringSet<> at(const TuningRecord &record,
                       llvm::ArrayRef<int64_t> extents) const;

private:
  struct Trial;
  llvm::StringMap<std::vector<Trial>> kernels;
};

/// One point and its line of text. Immutable, except that it is read when it is
/// first asked for. Thread-safe.
class RecordLine {
public:
  explicit RecordLine(RecordPoint point);
  /// Takes the first line of \p rest, a part of \p owner. Null: its extents
  /// cannot be read.
  static std::shared_ptr<const RecordLine>
  take(std::shared_ptr<const std::string> owner, llvm::StringRef line);

  const ExtentPoint &extents() const { return ownExtents; }
  /// With the newline. Cost, where it was made from a point and is first asked
  /// for: 1 us a measurement.
  llvm::StringRef text() const;
  /// False: nothing that trials of the value measured is validated. Cost: none.
  bool mayBeProven() const { return ownMayBeProven; }
  /// False: all that was tried there could be launched. Cost: none.
  bool mayRefuse() const { return ownMayRefuse; }
  const RecordPoint &point() const { return read().point; }
  bool isDamaged() const { return read().isDamaged; }
  uint64_t skipped() const { return read().skipped; }
  /// Cost: parses each config, once.
  std::shared_ptr<const IndexedPoint> index(const KernelFamily &family) const;

private:
  struct Parsed {
    RecordPoint point;
    uint64_t skipped = 0;
    bool isDamaged = false;
  };
  RecordLine() = default;
  const Parsed &read() const;

  ExtentPoint ownExtents;
  bool ownMayBeProven = true, ownMayRefuse = true;

  mutable std::mutex mutex;                         ///< guards what follows
  mutable std::shared_ptr<const std::string> owner; ///< of line; null: no line
  mutable llvm::StringRef line;
  mutable std::unique_ptr<const Parsed> parsed;
  mutable std::shared_ptr<const IndexedPoint> indexed;
};

/// What \p record says about \p extents. Cost: reads the point, or the nearest
/// that is proven.
RecordMatch matchRecord(std::shared_ptr<const TuningRecord> record,
                        const KernelFamily &family,
                        llvm::ArrayRef<int64_t> extents, MeasurementMode mode);

} // namespace kiln
