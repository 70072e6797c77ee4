//===- RecordLine.h - a point of a record, parsed on demand ---------------===//
//
// A record may have thousands of points, of which a process needs a few. So the
// text of a point is a line that begins with its extents and whether anything
// there is proven; the rest is parsed at the first use.
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
#include <string>
#include <vector>

namespace kiln {

/// Results of trials of a point's value, for one family.
struct IndexedPoint {
  struct Mode {
    std::vector<RecordedConfig> configs; ///< like RecordMatch::configs
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

/// The points where kernels of a record could not be launched, and where they
/// could. A refusal at one value says nothing about another, because the value
/// may have been too large; trials of a range hold for all its values.
/// Immutable.
class RefusalIndex {
public:
  /// Looks at each line; if any kernel was refused, parses all.
  explicit RefusalIndex(const TuningRecord &record);
  ~RefusalIndex();
  /// Returns RecordMatch::refused at \p extents: kernels whose nearest trial
  /// was refused.
  llvm::StringSet<> at(const TuningRecord &record,
                       llvm::ArrayRef<int64_t> extents) const;

private:
  struct Trial;
  llvm::StringMap<std::vector<Trial>> kernels;
};

/// One point and its line of text. Immutable, except that it is parsed at the
/// first use. Thread-safe.
class RecordLine {
public:
  explicit RecordLine(RecordPoint point);
  /// Takes the first line of \p rest, a part of \p owner. Null if its extents
  /// cannot be read.
  static std::shared_ptr<const RecordLine>
  take(std::shared_ptr<const std::string> owner, llvm::StringRef line);

  const ExtentPoint &extents() const { return ownExtents; }
  /// The text with the newline. The first call takes 1 us a measurement if the
  /// line was made from a point.
  llvm::StringRef text() const;
  /// False if trials of the value validated no measurement. Costs nothing.
  bool mayBeProven() const { return ownMayBeProven; }
  /// False if all configs that were tried there could be launched. Costs
  /// nothing.
  bool mayRefuse() const { return ownMayRefuse; }
  const RecordPoint &point() const { return read().point; }
  bool isDamaged() const { return read().isDamaged; }
  uint64_t skipped() const { return read().skipped; }
  /// Parses each config, once.
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
  mutable std::shared_ptr<const std::string> owner; ///< owns `line`; null: no
                                                    ///< line
  mutable llvm::StringRef line;
  mutable std::unique_ptr<const Parsed> parsed;
  mutable std::shared_ptr<const IndexedPoint> indexed;
};

/// Matches \p record with \p extents. Parses the point, or the nearest proven
/// one.
RecordMatch matchRecord(std::shared_ptr<const TuningRecord> record,
                        const KernelFamily &family,
                        llvm::ArrayRef<int64_t> extents, MeasurementMode mode);

} // namespace kiln
