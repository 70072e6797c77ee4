//===- ByteRates.cpp ------------------------------------------------------===//
#include "Families/Gemm/ByteRates.h"

namespace kiln {

static ByteProduct productOf(const GemmSignature &signature,
                             const DeviceModel &device) {
  return byteProductOf(signature, static_cast<int>(device.computeCapability()));
}

double mmaSyncRate(const GemmSignature &signature, const DeviceModel &device) {
  RateType rate = productOf(signature, device) == ByteProduct::Converted
                      ? RateType::FP16
                      : rateTypeOf(signature.in, signature.compute);
  return device.mmaSyncFlopsPerClockPerSm(rate);
}

double halfClocks(DType type, const DeviceModel &device) {
  // Lanes of a sub-core a clock, of the instruction that converts two e4m3 and
  // of those that permute and mask (H200).
  constexpr double kConversions = 10.5, kLogic = 15.5, kElements = 2;
  constexpr double kClocks = kWarpThreads / (kLogic * kElements);
  if (type == DType::E5M2)
    return kClocks;
  constexpr int kFirstCapability = 89, kInstructions = 6;
  return device.computeCapability() >= kFirstCapability
             ? kWarpThreads / (kConversions * kElements)
             : kInstructions * kClocks;
}

double conversionClocks(const GemmSignature &signature, DType type,
                        const DeviceModel &device) {
  return productOf(signature, device) == ByteProduct::Converted
             ? halfClocks(type, device)
             : 0;
}

std::optional<Rejection> checkIntegerSums(const GemmProblem &problem) {
  if (problem.dtype == DType::INT8 && problem.k > kMostInt8Products)
    return Rejection{PruneReason::Type, double(problem.k),
                     double(kMostInt8Products), "products a sum of int32"};
  return std::nullopt;
}

} // namespace kiln
