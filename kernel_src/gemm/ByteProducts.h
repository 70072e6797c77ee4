//===- gemm/ByteProducts.h - products of one-byte types by mma.sync -------===//
//
// int8 has an instruction from sm_80 on, and its sums are exact. fp8 has one on
// sm_89 and from sm_120 on, twice as fast as that of fp16; elsewhere it has
// none (sm_80), or one that is made of conversions (sm_90, sm_100). There
// fragments are converted once, and their products are exact in fp32.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "gemm/GemmSignature.h"

namespace kiln {

/// The instruction that multiplies a signature's types.
enum class ByteProduct {
  None,      ///< the types' own: two bytes or four
  Int8,      ///< int8, with int32 sums
  Fp8,       ///< fp8, with sums of fewer bits than fp32
  Converted, ///< fp16, behind a conversion
};

constexpr ByteProduct byteProductOf(const GemmSignature &signature,
                                    int computeCapability) {
  if (bytesOf(signature.in) != 1)
    return ByteProduct::None;
  if (signature.in == DType::INT8)
    return ByteProduct::Int8;
  bool isNative = computeCapability == 89 || computeCapability >= 120;
  return isNative ? ByteProduct::Fp8 : ByteProduct::Converted;
}

/// Steps of k after which partial sums are added to fp32 sums: these steps
/// share a scale.
inline constexpr int kPromotedDepth = 128;

/// Whether sums are kept beside the tensor core's: scales change along k, or
/// the tensor core's sums are too narrow for long products.
constexpr bool hasPartialSums(const GemmSignature &signature,
                              int computeCapability) {
  return signature.hasBlockScales() ||
         (signature.isPromoted() &&
          byteProductOf(signature, computeCapability) == ByteProduct::Fp8);
}

/// This many products -128 * -128 add up to less than 2^31.
inline constexpr long long kMostInt8Products = (1 << 17) - 1;
/// The same for products (-128 - 127) * -128 of an element less a zero point.
inline constexpr long long kMostShiftedInt8Products =
    ((1ll << 31) - 1) / (255 * 128);

/// Steps of k for which an int32 sum is exact.
constexpr long long mostInt8Products(const GemmSignature &signature) {
  return signature.hasZeroPointsA() ? kMostShiftedInt8Products
                                    : kMostInt8Products;
}

} // namespace kiln
