//===- LowPrecision.cpp ---------------------------------------------------===//
#include "LowPrecision.h"

#include <array>
#include <cmath>
#include <cstring>

namespace llama {

namespace {

uint32_t bitsOf(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/// Bits of a positive normal number without its last \p dropped bits, rounded
/// to the nearest even. A carry goes on into the exponent.
uint32_t roundedBits(float value, int dropped) {
  const uint32_t bits = bitsOf(value);
  return (bits + (1u << (dropped - 1)) - 1 + (bits >> dropped & 1)) >> dropped;
}

constexpr int kFloatBias = 127, kFloatMantissa = 23;
constexpr int kE4m3Bias = 7, kE4m3Mantissa = 3;
constexpr int kFp16Bias = 15, kFp16Mantissa = 10;

float valueOfE4m3(int bits) {
  const int exponent = bits >> kE4m3Mantissa & 15, mantissa = bits & 7;
  float value = 0;
  if ((bits & 0x7f) == 0x7f)
    value = NAN;
  else if (exponent == 0)
    value = std::ldexp(float(mantissa), 1 - kE4m3Bias - kE4m3Mantissa);
  else
    value =
        std::ldexp(float(mantissa | 8), exponent - kE4m3Bias - kE4m3Mantissa);
  return bits & 0x80 ? -value : value;
}

} // namespace

uint8_t roundToE4m3(float value) {
  const auto sign = static_cast<uint8_t>(std::signbit(value) ? 0x80 : 0);
  const float magnitude = std::fabs(value);
  if (std::isnan(value))
    return sign | 0x7f;
  if (magnitude >= kMostE4m3)
    return sign | 0x7e;
  constexpr float kLeastNormal = 1.0f / 64, kSubnormals = 512;
  if (magnitude < kLeastNormal) // 8 of them make the least normal number
    return sign | static_cast<uint8_t>(std::nearbyint(magnitude * kSubnormals));
  constexpr uint32_t kBias = (kFloatBias - kE4m3Bias) << kE4m3Mantissa;
  return sign |
         static_cast<uint8_t>(
             roundedBits(magnitude, kFloatMantissa - kE4m3Mantissa) - kBias);
}

float e4m3ToFloat(uint8_t bits) {
  static const std::array<float, 256> kValues = [] {
    std::array<float, 256> values{};
    for (int i = 0; i < 256; ++i)
      values[static_cast<size_t>(i)] = valueOfE4m3(i);
    return values;
  }();
  return kValues[bits];
}

uint16_t roundToFp16(float value) {
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const float magnitude = std::fabs(value);
  if (std::isnan(value))
    return sign | 0x7e00;
  constexpr float kInfinite = 65520; // and beyond rounds to infinity
  if (magnitude >= kInfinite)
    return sign | 0x7c00;
  constexpr float kLeastNormal = 1.0f / 16384, kSubnormals = 16777216;
  if (magnitude < kLeastNormal)
    return sign |
           static_cast<uint16_t>(std::nearbyint(magnitude * kSubnormals));
  constexpr uint32_t kBias = (kFloatBias - kFp16Bias) << kFp16Mantissa;
  return sign |
         static_cast<uint16_t>(
             roundedBits(magnitude, kFloatMantissa - kFp16Mantissa) - kBias);
}

} // namespace llama
