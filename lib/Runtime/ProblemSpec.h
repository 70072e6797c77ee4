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

/// A part of a problem's ranges whose values share one plan: one bucket of each
/// range, and one signature.
struct ExtentBox {
  llvm::SmallVector<int64_t, 2> low, high; ///< by range, both included
  /// The most common values, which the choice is made for, and the largest,
  /// which the plan's workspace covers.
  Problem common, largest;
  /// What `largest` was described as, and the canonical problem at `low`.
  Record described, smallest;

  bool contains(const std::vector<ExtentRange> &ranges,
                llvm::ArrayRef<int64_t> values) const;
  /// Whether the problem with \p values, and perhaps more behind them, is what
  /// was described, at extents of this box. Microseconds where it may be.
  bool covers(const KernelFamily &family,
              const std::vector<ExtentRange> &ranges,
              llvm::ArrayRef<int64_t> values) const;
};

/// A problem as its family knows it. A value; points into the registry only.
struct ProblemSpec {
  const KernelFamily *family = nullptr;
  /// Canonical, scalars normalised; with ranges, at the last values.
  Problem problem;
  /// The same as it was described, for other extents: a leading dimension is 0
  /// only where rows are packed, whatever their length.
  Record described;
  std::string text; ///< of the problem as it was given, scalars included
  /// Leading dimensions, strides and scalars as they were given; no addresses,
  /// and `problem` is for whoever launches to set.
  Arguments defaults;
  /// kiln_arguments slot of each operand.
  llvm::SmallVector<uint32_t, 8> slots;
  std::vector<ExtentRange> ranges;
  /// Batch strides are those of packed matrices, as in all text.
  bool hasPackedBatches = false;
  /// Leading dimensions or strides differ over the ranges: something is packed
  /// whose row or matrix is as large as an extent says.
  bool followsExtents = false;

  /// Reads and checks \p problem. Errors: InvalidArgument, Unsupported.
  static llvm::Expected<ProblemSpec> parse(const Registry &registry,
                                           const kiln_problem *problem);

  /// The record with \p extents for the ranges', not canonical.
  Record recordAt(llvm::ArrayRef<int64_t> extents) const;
  /// The problem of that record. Errors: those of KernelFamily::canonicalise.
  llvm::Expected<Problem> at(llvm::ArrayRef<int64_t> extents) const;

  /// Leading dimensions, strides and scalars of a launch whose record has
  /// \p values: what is packed follows the extents. No addresses. Free unless
  /// followsExtents.
  void readDefaults(llvm::ArrayRef<int64_t> values, Arguments &arguments) const;

  /// All values of the ranges, cut at the buckets of the records; one box if
  /// there are no ranges. Values of 0 need no plan and are in none.
  llvm::Expected<std::vector<ExtentBox>> boxes() const;
};

/// The record of \p schema with these values.
Record recordOf(const RecordSchema &schema, llvm::ArrayRef<int64_t> values);

/// Canonicalises \p record and normalises its scalars.
llvm::Expected<Problem> makeProblem(const KernelFamily &family, Record record);

} // namespace kiln
