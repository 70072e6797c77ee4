//===- DecodeRates.cpp ----------------------------------------------------===//
#include "Families/Gemm/DecodeRates.h"

namespace kiln {

double decodeClocks(const GemmSignature &signature) {
  // Lanes of an SM a clock, of LOP3 and HFMA2 (docs/measured.md).
  constexpr double kIntegerClocks = 128 / 64.0, kPairClocks = 128 / 64.0;
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
