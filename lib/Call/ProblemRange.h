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
  /// A problem as it was described, for any extents: a leading dimension is 0
  /// where rows are packed, whatever their length. Not canonical. A hint is
  /// that of all values above it.
  Values described;
  llvm::SmallVector<int, 4> fields; ///< that vary, in the record's order
  ExtentPoint low, high;            ///< both included
  /// Of all problems. Values whose problem has another signature, as alignment
  /// follows from extents, are not part of the range.
  Values signature;

  /// The problem at \p point, which has the range's signature or another one.
  /// Microseconds. Errors: those of KernelFamily::canonicalise.
  llvm::Expected<Problem> at(llvm::ArrayRef<int64_t> point) const;
  /// The same; nullopt where there is none, or its signature is another one.
  std::optional<Problem> find(llvm::ArrayRef<int64_t> point) const;
  /// The same without what is incidental: what a plan is made for that serves
  /// all values up to \p point, whatever room and hints launches have.
  std::optional<Problem> covering(llvm::ArrayRef<int64_t> point) const;
  /// Whether \p point lies between low and high, whatever its signature.
  bool contains(llvm::ArrayRef<int64_t> point) const;
  bool contains(const ProblemRange &other) const {
    return contains(other.low) && contains(other.high);
  }
  /// The values that the fields have in \p problem.
  ExtentPoint pointOf(const Values &problem) const;
  /// The nearest point at or below \p point, by less than a period of
  /// signatures in each field and within the range, whose problem has the
  /// signature; empty: there is none.
  ExtentPoint alignDown(llvm::ArrayRef<int64_t> point) const;
  /// Largest value at most \p point of each field's, within the range.
  ExtentPoint clamp(llvm::ArrayRef<int64_t> point) const;

  /// "m=1..8192"
  std::string text() const;
  /// All that is equal in these problems: the described one with 0 for each
  /// value that varies and without what is incidental, the names of the fields
  /// and the signature.
  std::string fixedText() const;
};

/// Takes out the hints of \p values, a record of \p schema, that are not below
/// their extents: they say no more than these do.
void fitHints(const Schema &schema, llvm::MutableArrayRef<int64_t> values);

/// The ranges of one signature each that \p fields from \p low to \p high of
/// \p described have, that of the highest values first. Values of 0 need no
/// plan and are left out. Errors: those of KernelFamily::canonicalise.
llvm::Expected<std::vector<ProblemRange>>
rangesOf(const KernelFamily &family, const Values &described,
         llvm::ArrayRef<int> fields, llvm::ArrayRef<int64_t> low,
         llvm::ArrayRef<int64_t> high);

} // namespace kiln
