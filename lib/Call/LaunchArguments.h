//===- LaunchArguments.h - kiln_arguments as arguments of a launch --------===//
#pragma once

#include "Call/ProblemSpec.h"
#include "Kernel/Operand.h"
#include "kiln/kiln.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/Support/Error.h>

namespace kiln {

/// One operand that a problem has, as kiln.h numbers it.
struct CallOperand {
  llvm::StringRef name; ///< a literal
  uint32_t slot = 0;
  int index = 0; ///< in Arguments::operands
  DType type = DType::FP32;
  OperandRole role = OperandRole::In;
  int mayBe = -1; ///< as OperandSpec::mayBe
  uint64_t bytes = 0;
  uint32_t alignment = 1; ///< bytes that every launch must keep
  /// Of an output whose matrices overlap in the problem that the list was made
  /// for: launches have to look at their own.
  bool mayRunIntoItself = false;
};
using OperandList = llvm::SmallVector<CallOperand, 8>;

/// The operands that \p problem, one of \p spec's, has.
OperandList operandsOf(const ProblemSpec &spec, const Problem &problem);

/// Checks what does not depend on the problem's extents, and that these are in
/// their ranges. Errors: InvalidArgument, Unsupported.
llvm::Error checkArguments(const kiln_arguments *given,
                           const ProblemSpec &spec);

/// Values of the ranges' extents: those of \p given or, where it has none,
/// those that the problem was described with.
ExtentPoint extentsOf(const kiln_arguments &given, const ProblemSpec &spec);

/// Reads addresses and scalars into \p arguments for a problem with record
/// \p values, which must outlive them. No allocation unless it fails. Errors:
/// InvalidArgument (null, misaligned or overlapping operands, an output whose
/// matrices overlap, a scalar without the address that the problem was
/// described with, or that kernels do not take). \p operands are those of the
/// problem or, with ranges, of a larger one.
llvm::Error readArguments(const kiln_arguments &given, const ProblemSpec &spec,
                          const OperandList &operands,
                          llvm::ArrayRef<int64_t> values, Arguments &arguments);

} // namespace kiln
