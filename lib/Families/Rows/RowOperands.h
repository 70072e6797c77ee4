//===- RowOperands.h - operands, data and tolerances over rows ------------===//
#pragma once

#include "Families/Rows/RowProblem.h"
#include "Kernel/Operand.h"

namespace kiln {

/// The operands of \p problem in the order of RowOperand: their shapes, the
/// data that trials fill them with, and how closely outputs are judged.
/// \p problem comes from a canonical record. Microseconds; thread-safe.
OperandTable rowOperands(const RowProblem &problem);

} // namespace kiln
