//===- ByteRates.cpp ------------------------------------------------------===//
#include "Families/Gemm/ByteRates.h"

#include <algorithm>

namespace kiln {

static ByteProduct productOf(const GemmSignature &signature,
                             const DeviceModel &device) {
  return byteProductOf(signature, static_cast<int>(device.computeCapability()));
}

double DeviceModel::*mmaSyncRate(const GemmSignature &signature,
                                 const DeviceModel &device) {
  RateType rate = productOf(signature, device) == ByteProduct::Converted
                      ? RateType::FP16
                      : rateTypeOf(signature.in, signature.compute);
  return mmaSyncRateOf(rate);
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

double promotionClocks(const GemmSignature &signature, double sums,
                       double scales, double depth, const DeviceModel &device) {
  if (!hasPartialSums(signature, static_cast<int>(device.computeCapability())))
    return 0;
  // Each sum takes a multiply-add, or an addition, and a new zero; each scale
  // takes an address, a load and a product.
  constexpr double kSum = 2, kScale = 4;
  double slots =
      kSum * sums + (signature.hasBlockScales() ? kScale * scales : 0);
  return slots * std::max(depth / kPromotedDepth, 1.0);
}

std::optional<Rejection> checkIntegerSums(const GemmProblem &problem) {
  if (problem.dtype != DType::INT8)
    return std::nullopt;
  const int64_t most = mostInt8Products(signatureOf(problem));
  if (problem.k > most)
    return Rejection{PruneReason::Type, double(problem.k), double(most),
                     "products a sum of int32"};
  return std::nullopt;
}

std::optional<Rejection> checkBlockScales(const GemmProblem &problem) {
  constexpr double kMost = 4294967295;
  auto count = [&](const OperandScales &scales, int64_t extent) {
    if (!isBlockScale(scales.kind))
      return 0.0;
    int64_t lines =
        scales.alongRows ? scales.depthsOf(problem.k) : scales.rowsOf(extent);
    return double(lines) * double(scales.ld);
  };
  double scales = std::max(count(problem.scaleA, problem.room),
                           count(problem.scaleB, problem.n));
  if (scales > kMost)
    return Rejection{PruneReason::Grid, scales, kMost, "scales"};
  return std::nullopt;
}

} // namespace kiln
