//===- TiledTranspose.h - what template and reference share ---------------===//
#pragma once

#include "Families/Transpose/TransposeProblem.h"
#include "Kernel/Operand.h"
#include "transpose/TiledTransposeConfig.h"
#include "transpose/TransposeParams.h"

namespace kiln {

/// Fills what no config changes: operands and extents. Nanoseconds; allocates
/// nothing.
TransposeParams makeTransposeParams(const TransposeProblem &problem,
                                    const Arguments &arguments);

} // namespace kiln
