//===- ProblemSpec.h - a kiln_problem, read and checked -------------------===//
#pragma once

#include "Kernel/Registry.h"
#include "kiln/kiln.h"

#include <llvm/Support/Error.h>

#include <cstdint>
#include <vector>

namespace kiln {

/// The values that one extent of a problem may have.
struct ExtentRange {
  int field = 0; ///< its index in the problem's schema
  int64_t first = 0, last = 0, hint = 0;
};

/// A problem in the terms of its family. A value; points into the registry
/// only.
struct ProblemSpec {
  const KernelFamily *family = nullptr;
  /// The canonical problem, scalars normalised; with ranges, at the last
  /// values.
  Problem problem;
  /// The problem as it was described, for other extents: a leading dimension,
  /// stride or capacity is 0 only if it follows from the extents, whatever they
  /// are.
  Values described;
  std::string text; ///< of the problem as given, scalars included
  /// Leading dimensions, strides and scalars as given, without addresses; a
  /// launching caller sets `problem`.
  Arguments defaults;
  std::vector<ExtentRange> ranges;
  /// Strides from matrix to matrix follow from the values: always for text, and
  /// for a struct if the schema has fields for them. Otherwise they are as
  /// given.
  bool valuesHaveStrides = false;
  /// Leading dimensions or strides differ over the ranges: the row or matrix of
  /// a packed operand depends on an extent.
  bool followsExtents = false;
  bool wantsFrozen = false; ///< see FamilyCall

  /// Reads and checks \p problem. Errors: InvalidArgument, Unsupported.
  static llvm::Expected<ProblemSpec> parse(const Registry &registry,
                                           const kiln_problem *problem);

  /// The values with \p extents for the ranges', not canonical. Allocates
  /// nothing.
  FieldValues valuesAt(llvm::ArrayRef<int64_t> extents) const;
  /// The problem of these values. Errors: those of KernelFamily::canonicalise.
  llvm::Expected<Problem> at(llvm::ArrayRef<int64_t> extents) const;

  /// Reads leading dimensions, strides and scalars of a launch with \p values,
  /// without addresses: packed operands follow the extents. Costs nothing
  /// unless followsExtents.
  void readDefaults(llvm::ArrayRef<int64_t> values, Arguments &arguments) const;
};

/// Reads and checks \p problem as the subject of a pool: the sizes of a struct
/// are ignored, and text has none. Errors: InvalidArgument, Unsupported.
llvm::Expected<PoolSubject> readPoolSubject(const Registry &registry,
                                            const kiln_problem &problem);

} // namespace kiln
