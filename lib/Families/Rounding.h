//===- Rounding.h - what rounding to a type may cost ----------------------===//
#pragma once

#include "Kernel/Operand.h"

namespace kiln {

/// Half a unit in the last place of \p type, relative to the least number of a
/// binade; 0 for integers.
double halfUlp(DType type);

/// What values near zero may lose besides: half of the least subnormal of
/// \p type, or of a whole for integers, with room for what fp32 is off.
double roundingFloor(DType type);

/// Rounding to \p type of what fp32 arithmetic computes with an error of
/// \p scaled times the reference's bound.
Tolerance roundedTolerance(DType type, double scaled);

} // namespace kiln
