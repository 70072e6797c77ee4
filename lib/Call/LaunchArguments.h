//===- LaunchArguments.h - kiln_arguments to arguments of a launch --------===//
#pragma once

#include "Call/ProblemSpec.h"
#include "Kernel/Operand.h"
#include "kiln/kiln.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/Support/Error.h>

namespace kiln {

/// One operand of a problem, numbered as in kiln.h.
struct CallOperand {
  llvm::StringRef name; ///< a literal
  uint32_t slot = 0;
  int index = 0; ///< in Arguments::operands
  DType type = DType::FP32;
  OperandRole role = OperandRole::In;
  int mayBe = -1; ///< like OperandSpec::mayBe
  uint64_t bytes = 0;
  uint32_t alignment = 1; ///< bytes that every launch must keep
  /// The matrices of an output overlap in the problem that the list was made
  /// for, so launches have to check their own.
  bool mayRunIntoItself = false;
};
using OperandList = llvm::SmallVector<CallOperand, 8>;

/// The operands of \p problem, which is one of \p spec's.
OperandList operandsOf(const ProblemSpec &spec, const Problem &problem);

/// Checks all that does not depend on the problem's extents, and that these are
/// in their ranges. Errors: InvalidArgument, Unsupported.
llvm::Error checkArguments(const kiln_arguments *given,
                           const ProblemSpec &spec);

/// The values of the ranges' extents, from \p given or, if it has none, from
/// the described problem.
ExtentPoint extentsOf(const kiln_arguments &given, const ProblemSpec &spec);

/// Reads addresses and scalars into \p arguments for a problem with \p values,
/// which must outlive them. Allocates nothing unless it fails. Errors:
/// InvalidArgument (null, misaligned or overlapping operands, an output whose
/// matrices overlap, a scalar without the address that the problem was
/// described with, or that kernels do not take). \p operands are those of the
/// problem or, with ranges, of a larger one.
llvm::Error readArguments(const kiln_arguments &given, const ProblemSpec &spec,
                          const OperandList &operands,
                          llvm::ArrayRef<int64_t> values, Arguments &arguments);

} // namespace kiln
