//===- Rounding.h - the errors of rounding to a type ----------------------===//
#pragma once

#include "Kernel/Operand.h"

namespace kiln {

/// Half a unit in the last place of \p type, relative to the least number of a
/// binade; 0 for integers.
double halfUlp(DType type);

/// The additional error of values near zero: half of the least subnormal of
/// \p type, or of 1 for integers, with room for the errors of fp32.
double roundingFloor(DType type);

/// The tolerance of fp32 results with an error of \p scaled times the
/// reference's bound, rounded to \p type.
Tolerance roundedTolerance(DType type, double scaled);

} // namespace kiln
