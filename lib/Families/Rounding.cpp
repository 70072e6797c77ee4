//===- Rounding.cpp -------------------------------------------------------===//
#include "Families/Rounding.h"

#include <cmath>

namespace kiln {

double roundingFloor(DType type) {
  switch (type) {
  case DType::FP16:
    return 1.01 * std::ldexp(1.0, -25);
  case DType::E4M3:
    return 1.01 * std::ldexp(1.0, -10);
  case DType::INT8: // rounded to integers, not to digits
    return 0.501;
  default:
    return Tolerance{}.absolute;
  }
}

double halfUlp(DType type) {
  switch (type) {
  case DType::BF16:
    return std::ldexp(1.0, -8);
  case DType::FP16:
    return std::ldexp(1.0, -11);
  case DType::E4M3:
    return std::ldexp(1.0, -4);
  case DType::INT8:
    return 0;
  default:
    return std::ldexp(1.0, -24);
  }
}

Tolerance roundedTolerance(DType type, double scaled) {
  // Narrow types are stored once, so there is no room for a second rounding.
  double roundings = bitsOf(type) == 8 ? 1.01 : 4;
  return {roundings * halfUlp(type), scaled, roundingFloor(type)};
}

} // namespace kiln
