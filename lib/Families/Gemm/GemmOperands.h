//===- GemmOperands.h - the operand table of matrix products --------------===//
#pragma once

#include "Families/Gemm/GemmProblem.h"
#include "Kernel/Operand.h"

namespace kiln {

/// The operands of \p problem, in the order of GemmOperand: what is not there
/// is marked so.
OperandTable gemmOperands(const GemmProblem &problem);

} // namespace kiln
