//===- ProblemRange.h - problems that differ in a few extents -------------===//
#pragma once

#include "Kernel/Family.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// Problems of one signature that differ in the values of a few fields, mostly
/// one. A value; points to the family only.
struct ProblemRange {
  const KernelFamily *family = nullptr;
  /// The problem as it was described, for any extents: a leading dimension is 0
  /// if rows are packed, whatever their length. Not canonical. A hint holds for
  /// all values above it.
  Values described;
  llvm::SmallVector<int, 4> fields; ///< that vary, in the schema's order
  ExtentPoint low, high;            ///< both included
  /// The signature of all problems. Alignment follows from extents, so the
  /// problem of a value may have another signature; then it is not part of the
  /// range.
  Values signature;

  /// Returns the problem at \p point, which has the range's signature or
  /// another one. Takes microseconds. Errors: those of
  /// KernelFamily::canonicalise.
  llvm::Expected<Problem> at(llvm::ArrayRef<int64_t> point) const;
  /// Like at(); nullopt if there is none, or if its signature differs.
  std::optional<Problem> find(llvm::ArrayRef<int64_t> point) const;
  /// Like find(), without incidental fields: a plan for this problem serves all
  /// values up to \p point, whatever room and hints launches have.
  std::optional<Problem> covering(llvm::ArrayRef<int64_t> point) const;
  /// Whether \p point lies between low and high, whatever its signature.
  bool contains(llvm::ArrayRef<int64_t> point) const;
  bool contains(const ProblemRange &other) const {
    return contains(other.low) && contains(other.high);
  }
  /// The values of the fields in \p problem.
  ExtentPoint pointOf(const Values &problem) const;
  /// Returns the nearest point at or below \p point, by less than a period of
  /// signatures in each field and within the range, whose problem has the
  /// signature; empty if there is none.
  ExtentPoint alignDown(llvm::ArrayRef<int64_t> point) const;
  /// Returns \p point limited to the range in each field.
  ExtentPoint clamp(llvm::ArrayRef<int64_t> point) const;

  /// "m=1..8192"
  std::string text() const;
  /// The text of all that these problems share: the described one with 0 for
  /// each varying value and without incidental fields, the names of the fields
  /// and the signature.
  std::string fixedText() const;
};

/// Removes the hints of \p values, which are of \p schema, that are not below
/// their extents: they add nothing to these.
void fitHints(const Schema &schema, llvm::MutableArrayRef<int64_t> values);

/// Splits \p fields of \p described from \p low to \p high into ranges of one
/// signature each, the highest values first. Values of 0 need no plan and are
/// left out. Errors: those of KernelFamily::canonicalise.
llvm::Expected<std::vector<ProblemRange>>
rangesOf(const KernelFamily &family, const Values &described,
         llvm::ArrayRef<int> fields, llvm::ArrayRef<int64_t> low,
         llvm::ArrayRef<int64_t> high);

} // namespace kiln
