//===- LowPrecision.h - numbers of 8 and 16 bits on the host --------------===//
#ifndef KILN_EXAMPLES_LLAMA_LOWPRECISION_H
#define KILN_EXAMPLES_LLAMA_LOWPRECISION_H

#include <cstdint>

namespace llama {

/// The greatest e4m3.
constexpr float kMostE4m3 = 448;

/// \p value rounded to e4m3, nearest even, as bits. It saturates at +-448, and
/// NaN stays NaN.
uint8_t roundToE4m3(float value);
float e4m3ToFloat(uint8_t bits);

/// \p value rounded to fp16, nearest even, as bits. NaN stays NaN.
uint16_t roundToFp16(float value);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_LOWPRECISION_H
