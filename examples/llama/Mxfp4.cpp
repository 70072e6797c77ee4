//===- Mxfp4.cpp ----------------------------------------------------------===//
#include "Mxfp4.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace llama {

namespace {

constexpr float kNumbers[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
constexpr uint8_t kSign = 8;
constexpr int kScaleBias = 127, kMostScale = 254;
/// The exponent of the greatest e2m1.
constexpr int kMostExponent = 2;

} // namespace

uint8_t roundToE2m1(float value) {
  const float magnitude = std::fabs(value);
  uint8_t code = 0;
  // Up to the number whose upper neighbour is not nearer; of two that are as
  // near, the one with an even code.
  for (; code < 7; ++code) {
    const float middle = (kNumbers[code] + kNumbers[code + 1]) / 2;
    if (magnitude < middle || (magnitude == middle && code % 2 == 0))
      break;
  }
  return std::signbit(value) ? code | kSign : code;
}

float e2m1ToFloat(uint8_t bits) {
  const float magnitude = kNumbers[bits % kSign];
  return bits & kSign ? -magnitude : magnitude;
}

float e8m0ToFloat(uint8_t bits) {
  if (bits > kMostScale)
    return std::numeric_limits<float>::quiet_NaN();
  return std::ldexp(1.0F, bits - kScaleBias);
}

void quantizeMxfp4(const float *numbers, uint8_t *codes, uint8_t *scale) {
  float most = 0;
  for (int64_t i = 0; i < kMxfp4Group; ++i)
    most = std::max(most, std::fabs(numbers[i]));
  // ilogb() of 0 and of infinity are far beyond the bounds.
  const int exponent = most > 0 ? std::ilogb(most) - kMostExponent : 0;
  *scale =
      static_cast<uint8_t>(std::clamp(exponent + kScaleBias, 0, kMostScale));
  const float inverse = std::ldexp(1.0F, kScaleBias - *scale);
  for (int64_t i = 0; i < kMxfp4Group; i += 2)
    codes[i / 2] =
        static_cast<uint8_t>(roundToE2m1(numbers[i] * inverse) |
                             roundToE2m1(numbers[i + 1] * inverse) << 4);
}

void dequantizeMxfp4(const uint8_t *codes, uint8_t scale, float *numbers) {
  const float factor = e8m0ToFloat(scale);
  for (int64_t i = 0; i < kMxfp4Group; i += 2) {
    numbers[i] = e2m1ToFloat(codes[i / 2] & 15) * factor;
    numbers[i + 1] = e2m1ToFloat(codes[i / 2] >> 4) * factor;
  }
}

} // namespace llama
