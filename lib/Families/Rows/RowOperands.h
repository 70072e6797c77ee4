//===- RowOperands.h - operands, data and tolerances over rows ------------===//
#pragma once

#include "Families/Rows/RowProblem.h"
#include "Kernel/Operand.h"

namespace kiln {

/// The operands of \p problem in the order of RowOperand: their shapes, the
/// data with which trials fill them, and the tolerances of outputs. \p problem
/// comes from canonical values. Microseconds; thread-safe.
OperandTable rowOperands(const RowProblem &problem);

} // namespace kiln
