//===- RandomWeights.cpp - weights without a file, by seed ----------------===//
#include "RandomWeights.h"

#include "Hash.h"

#include <cmath>
#include <cstring>

namespace llama {

RandomScale randomScale(double deviation, double mean) {
  const double ofSum = std::sqrt((65536.0 * 65536.0 - 1) / 3);
  return {static_cast<float>(deviation / ofSum), static_cast<float>(mean)};
}

uint64_t randomKey(uint64_t seed, std::string_view name) {
  return mix64(seed + hashText(name));
}

uint16_t randomWeight(uint64_t key, uint64_t index, RandomScale scale) {
  const uint64_t hash = mix64(key + (index + 1) * kGolden);
  const auto part = [hash](int shift) {
    return static_cast<int32_t>(hash >> shift & 0xffff);
  };
  const int32_t sum = part(0) + part(16) + part(32) + part(48) - 131070;
  // 18 bits times 24 bits are exact in fp64. So the conversion is the only
  // rounding, and no compiler can fuse it with the addition.
  const auto product = static_cast<float>(static_cast<double>(sum) *
                                          static_cast<double>(scale.scale));
  return roundToBf16(product + scale.offset);
}

void fillRandomWeights(uint16_t *out, uint64_t key, uint64_t first,
                       uint64_t count, RandomScale scale) {
  for (uint64_t i = 0; i < count; ++i)
    out[i] = randomWeight(key, first + i, scale);
}

uint16_t roundToBf16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7fffffff) > 0x7f800000)
    return static_cast<uint16_t>(bits >> 16 | 0x40); // Adding could carry.
  bits += 0x7fff + (bits >> 16 & 1);
  return static_cast<uint16_t>(bits >> 16);
}

float bf16ToFloat(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

float fp16ToFloat(uint16_t bits) {
  constexpr int kMantissaBits = 10, kMaxExponent = 31, kBias = 15;
  const int exponent = bits >> kMantissaBits & kMaxExponent;
  const int mantissa = bits & ((1 << kMantissaBits) - 1);
  float value = 0;
  if (exponent == kMaxExponent)
    value = mantissa == 0 ? INFINITY : NAN;
  else if (exponent == 0) // subnormal
    value = std::ldexp(float(mantissa), 1 - kBias - kMantissaBits);
  else
    value = std::ldexp(float(mantissa | 1 << kMantissaBits),
                       exponent - kBias - kMantissaBits);
  return bits & 0x8000 ? -value : value;
}

} // namespace llama
