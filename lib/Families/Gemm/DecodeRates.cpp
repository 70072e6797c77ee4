//===- DecodeRates.cpp ----------------------------------------------------===//
#include "Families/Gemm/DecodeRates.h"

namespace kiln {

double decodeClocks(const GemmSignature &signature) {
  constexpr double kIntegerClocks = 128 / 62.0, kPairClocks = 128 / 112.0;
  // Shifts to the left are multiplications, beside the integer pipe.
  double integers = 10, shifts = 0;
  switch (signature.typeB()) {
  case DType::INT4:
    integers = 7;
    break;
  case DType::E4M3:
    shifts = 4;
    break;
  case DType::E2M1:
    shifts = 5;
    break;
  default:
    break;
  }
  constexpr double kPairs = 4;
  return kIntegerClocks * integers + kPairClocks * kPairs + shifts;
}

} // namespace kiln
