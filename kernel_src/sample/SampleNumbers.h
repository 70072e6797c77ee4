//===- sample/SampleNumbers.h - random numbers, logarithms, masses --------===//
//
// A token must not depend on the kernel, the device or the compiler. So all
// that decides about it is defined here to the last bit: by integers, and by
// fp32 products, sums and fma in a stated order, never by a function of a
// library or an approximation of the hardware. Masses are integers, so that
// their sum does not depend on its order.
//
// Tests compile this header for the host; it uses fmaf, __uint_as_float and
// __float_as_uint.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

//===----------------------------------------------------------------------===//
// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
// easy as 1, 2, 3", 2011)
//===----------------------------------------------------------------------===//

struct PhiloxWords {
  unsigned word[4];
};

/// The four random words of \p counter.
constexpr PhiloxWords philox(unsigned long long key, PhiloxWords counter) {
  constexpr unsigned long long kMultiply0 = 0xd2511f53u;
  constexpr unsigned long long kMultiply1 = 0xcd9e8d57u;
  constexpr unsigned kRaise0 = 0x9e3779b9u, kRaise1 = 0xbb67ae85u;
  constexpr int kRounds = 10;
  auto key0 = static_cast<unsigned>(key);
  auto key1 = static_cast<unsigned>(key >> 32);
  unsigned a = counter.word[0], b = counter.word[1], c = counter.word[2],
           d = counter.word[3];
  for (int round = 0; round < kRounds; ++round) {
    const unsigned long long left = kMultiply0 * a, right = kMultiply1 * c;
    a = static_cast<unsigned>(right >> 32) ^ b ^ key0;
    c = static_cast<unsigned>(left >> 32) ^ d ^ key1;
    b = static_cast<unsigned>(right);
    d = static_cast<unsigned>(left);
    key0 += kRaise0;
    key1 += kRaise1;
  }
  return {{a, b, c, d}};
}

/// The words of tokens 4 \p quad to 4 \p quad + 3.
constexpr PhiloxWords noiseWords(unsigned long long seed, unsigned position,
                                 unsigned quad) {
  return philox(seed, {{quad, 0, position, 0}});
}

//===----------------------------------------------------------------------===//
// Gumbel numbers
//===----------------------------------------------------------------------===//

/// ln(1 + f) + exponent * ln(2) for f from -1/3 to 1/3; relative error below
/// 2e-7 (a polynomial through Chebyshev nodes).
inline float logOfParts(float f, float exponent) {
  constexpr float kLn2 = 0.693147180559945f;
  float sum = -0.121255806f;
  sum = fmaf(sum, f, 0.134257490f);
  sum = fmaf(sum, f, -0.123461903f);
  sum = fmaf(sum, f, 0.141183093f);
  sum = fmaf(sum, f, -0.166701407f);
  sum = fmaf(sum, f, 0.200037803f);
  sum = fmaf(sum, f, -0.249999879f);
  sum = fmaf(sum, f, 0.333333202f);
  sum = fmaf(sum, f, -0.5f);
  sum = fmaf(sum, f * f, f);
  return fmaf(exponent, kLn2, sum);
}

/// ln(x) of a normal number above 0.
inline float logOf(float x) {
  constexpr unsigned kTwoThirds = 0x3f2aaaabu;
  const unsigned bits = __float_as_uint(x);
  const unsigned exponent = (bits - kTwoThirds) & 0xff800000u;
  return logOfParts(__uint_as_float(bits - exponent) - 1.0f,
                    static_cast<float>(static_cast<int>(exponent) >> 23));
}

/// (2 word + 1) / 2^33, rounded.
inline float openUnit(unsigned word) {
  return fmaf(static_cast<float>(word), 0x1p-32f, 0x1p-33f);
}

/// -ln(-ln(u)) with u = (2 word + 1) / 2^33. Near 1, 1 - u is exact and ln(u)
/// follows from it.
inline float gumbelOf(unsigned word) {
  constexpr unsigned kThird = 0x55555555u;
  const float negative =
      ~word < kThird ? logOfParts(-openUnit(~word), 0) : logOf(openUnit(word));
  return -logOf(-negative);
}

/// No Gumbel number is greater: -ln(2^-33).
inline constexpr float kMostNoise = 22.875f;

//===----------------------------------------------------------------------===//
// Masses
//===----------------------------------------------------------------------===//

/// The mass of a token that is as probable as the most probable one.
/// 2^24 of them fit.
inline constexpr unsigned long long kUnitMass = 1ull << 39;

/// exp(x) * kUnitMass for x <= 0, cut off; relative error below 2e-7 beside
/// that. 0 for NaN.
inline unsigned long long massOf(float x) {
  constexpr float kLeast = -28.4f; // less than 2^-39
  constexpr float kLog2E = 1.44269504f, kLog2ELow = 1.92596303e-8f;
  constexpr float kRound = 12582912.0f; // 1.5 * 2^23: fma leaves an integer
  if (!(x > kLeast))
    return 0;
  const float shifted = fmaf(x, kLog2E, kRound);
  const float whole = shifted - kRound;
  const float f = fmaf(x, kLog2ELow, fmaf(x, kLog2E, -whole));
  float sum = 0.000154531629f;
  sum = fmaf(sum, f, 0.00133908634f);
  sum = fmaf(sum, f, 0.00961808256f);
  sum = fmaf(sum, f, 0.0555035711f);
  sum = fmaf(sum, f, 0.240226508f);
  sum = fmaf(sum, f, 0.693147188f);
  sum = fmaf(sum, f, 1.0f);
  // From 0.7 to 1.42 in units of 2^-30.
  const auto mantissa = static_cast<unsigned>(sum * 0x1p30f);
  return (static_cast<unsigned long long>(mantissa) << 9) >>
         -static_cast<int>(whole);
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

inline constexpr unsigned kNanKey = 0xffffffffu;
inline constexpr unsigned kInfinityKey = 0xff800000u;
inline constexpr unsigned kMinusInfinityKey = 0x007fffffu;

/// A number that is greater for greater \p x, and greatest for NaN; never 0.
/// \p x is not -0.
inline unsigned orderKey(float x) {
  const unsigned bits = __float_as_uint(x);
  const auto sign = static_cast<unsigned>(static_cast<int>(bits) >> 31);
  return x != x ? kNanKey : bits ^ (sign | 0x80000000u);
}
/// The inverse.
inline float valueOfKey(unsigned key) {
  return __uint_as_float(key >> 31 ? key ^ 0x80000000u : ~key);
}

/// The place of a token in the order of the greatest value, of equals of the
/// lowest token: greater is before.
constexpr unsigned long long rankOf(unsigned key, unsigned token) {
  return static_cast<unsigned long long>(key) << 32 | ~token;
}
constexpr unsigned tokenOf(unsigned long long rank) {
  return ~static_cast<unsigned>(rank);
}
constexpr unsigned keyOf(unsigned long long rank) {
  return static_cast<unsigned>(rank >> 32);
}

} // namespace kiln
