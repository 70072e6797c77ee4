//===- gemm/ByteProducts.h - how mma.sync takes types of one byte ---------===//
//
// int8 has an instruction from sm_80 on, and its sums are exact. fp8 has one on
// sm_89 and from sm_120 on, twice as fast as that of fp16; elsewhere there is
// none (sm_80), or it is made of conversions (sm_90, sm_100). There fragments
// are converted once, and their products are exact in fp32.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "gemm/GemmSignature.h"

namespace kiln {

/// What computes the products of a signature's types.
enum class ByteProduct {
  None,      ///< their own instruction: types of two bytes or four
  Int8,      ///< that of int8, with sums of int32
  Fp8,       ///< that of fp8, whose sums keep fewer bits than fp32 has
  Converted, ///< that of fp16
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

/// Steps of k after which partial sums go on to those of fp32: those that share
/// a scale.
inline constexpr int kPromotedDepth = 128;

/// True where sums are kept beside the tensor core's: scales change along k, or
/// its sums are too narrow for long products.
constexpr bool hasPartialSums(const GemmSignature &signature,
                              int computeCapability) {
  return signature.hasBlockScales() ||
         (signature.isPromoted() &&
          byteProductOf(signature, computeCapability) == ByteProduct::Fp8);
}

/// -128 * -128 so many times is below 2^31.
inline constexpr long long kMostInt8Products = (1 << 17) - 1;
/// So is (-128 - 127) * -128, of an element less a zero point.
inline constexpr long long kMostShiftedInt8Products =
    ((1ll << 31) - 1) / (255 * 128);

/// Steps of k whose sum of int32 is exact.
constexpr long long mostInt8Products(const GemmSignature &signature) {
  return signature.hasZeroPointsA() ? kMostShiftedInt8Products
                                    : kMostInt8Products;
}

} // namespace kiln
