//===- ProblemSpec.h - a kiln_problem, understood -------------------------===//
#pragma once

#include "Kernel/Registry.h"
#include "kiln/kiln.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/Support/Error.h>

#include <cstdint>
#include <vector>

namespace kiln {

/// Values that one extent of a problem takes.
struct ExtentRange {
  int field = 0; ///< of the problem's record
  int64_t first = 0, last = 0, hint = 0;
};

/// A problem as its family knows it. A value; points into the registry only.
struct ProblemSpec {
  const KernelFamily *family = nullptr;
  /// Canonical, scalars normalised; with ranges, at the last values.
  Problem problem;
  /// The same as it was described, for other extents: a leading dimension,
  /// stride or capacity is 0 only where it follows from the extents, whatever
  /// they are.
  Values described;
  std::string text; ///< of the problem as it was given, scalars included
  /// Leading dimensions, strides and scalars as they were given; no addresses,
  /// and the caller that launches sets `problem`.
  Arguments defaults;
  std::vector<ExtentRange> ranges;
  /// Strides from matrix to matrix follow from the record: in all text, and
  /// where records have fields for them. Else they are as they were given.
  bool recordHasStrides = false;
  /// Leading dimensions or strides differ over the ranges: something is packed
  /// whose row or matrix is as large as an extent says.
  bool followsExtents = false;

  /// Reads and checks \p problem. Errors: InvalidArgument, Unsupported.
  static llvm::Expected<ProblemSpec> parse(const Registry &registry,
                                           const kiln_problem *problem);

  /// The record with \p extents for the ranges', not canonical. No allocation.
  FieldValues valuesAt(llvm::ArrayRef<int64_t> extents) const;
  /// The problem of that record. Errors: those of KernelFamily::canonicalise.
  llvm::Expected<Problem> at(llvm::ArrayRef<int64_t> extents) const;

  /// Leading dimensions, strides and scalars of a launch whose record has
  /// \p values: what is packed follows the extents. No addresses. Free unless
  /// followsExtents.
  void readDefaults(llvm::ArrayRef<int64_t> values, Arguments &arguments) const;
};

/// Reads and checks \p problem as the subject of a pool: the sizes of a struct
/// are ignored, and text has none. Errors: InvalidArgument, Unsupported.
llvm::Expected<PoolSubject> readPoolSubject(const Registry &registry,
                                            const kiln_problem &problem);

} // namespace kiln
