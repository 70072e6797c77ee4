//===- DecodeRates.cpp ----------------------------------------------------===//
#include "Families/Gemm/DecodeRates.h"

#include "Model/Rates.h"

namespace kiln {

// Lanes of an SM a clock, of LOP3 and HFMA2 (docs/measured.md).
static constexpr double kIntegerClocks = 128 / 64.0, kPairClocks = 128 / 64.0;

double decodeClocks(const GemmSignature &signature) {
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

double bitClocks(const GemmSignature &signature) {
  constexpr double kMasksAndShift = 5;
  return signature.typeB() == DType::INT4 ? kIntegerClocks * kMasksAndShift
                                          : decodeClocks(signature);
}

double DeviceModel::*packedRate(const GemmSignature &signature) {
  return mmaSyncRateOf(rateTypeOf(signature.in, signature.compute));
}

double packedShare(const GemmSignature &signature) {
  const double scale = signature.scaleTypeB == DType::E8M0
                           ? 1
                           : double(bytesOf(signature.scaleTypeB));
  constexpr double kRow = 4096; // k that share a scale of a row, about
  const double group = signature.groupB ? signature.groupB : kRow;
  return (bitsOf(signature.typeB()) / 8.0 + (scale + signature.zeroB) / group) /
         bytesOf(signature.in);
}

} // namespace kiln
