//===- Mxfp4.h - numbers of 4 bits with a shared exponent -----------------===//
//
// MXFP4 of the OCP Microscaling Formats: 32 numbers of e2m1 (0, 0.5, 1, 1.5, 2,
// 3, 4, 6 and their negatives) times a power of two, e8m0, which they share.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_MXFP4_H
#define KILN_EXAMPLES_LLAMA_MXFP4_H

#include <cstdint>

namespace llama {

/// Numbers that share a scale.
constexpr int64_t kMxfp4Group = 32;

/// \p value rounded to e2m1, nearest even, as 4 bits. It saturates at +-6; a
/// NaN becomes 6, because e2m1 has no NaN.
uint8_t roundToE2m1(float value);
float e2m1ToFloat(uint8_t bits);

/// 2^(bits - 127); NaN for 255.
float e8m0ToFloat(uint8_t bits);

/// Quantises kMxfp4Group numbers: \p codes are half as many bytes, the first
/// number of each in its lower half. The scale is the power of two that brings
/// the greatest magnitude to 4 up to 8.
void quantizeMxfp4(const float *numbers, uint8_t *codes, uint8_t *scale);
void dequantizeMxfp4(const uint8_t *codes, uint8_t scale, float *numbers);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_MXFP4_H
