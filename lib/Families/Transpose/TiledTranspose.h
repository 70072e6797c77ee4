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

/// Share of DRAM's bandwidth that a transposition loses to pieces of rows of
/// less than 256 bytes, on one side. H100, 8192 x 8192 bf16: 95.1 us with 256
/// bytes, 97.4 with 128 on one side, 99.1 on both.
double lostToPieces(int pieceBytes);

} // namespace kiln
