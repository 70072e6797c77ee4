//===- gemm/WeightDecoder.cuh - from packed weights to fragments ----------===//
//
// A lane's words of packed weights become the registers of mma.sync by a few
// instructions for each pair. Every code becomes exactly its value before
// scaling.
//
//   int4: the code is put into the mantissa of 128 (bf16) or 1024 (fp16), from
//   which 128 or 1024 plus the zero point is subtracted.
//   int8: two's complement is the lower seven bits less 128 times the upper
//   one. Both are put into a mantissa, and one is subtracted from the other.
//   e4m3, e2m1: exponent and mantissa are moved to the wider type's fields. A
//   factor makes up for the difference of the exponents' biases. Denormal codes
//   become denormal, too, which the multiplication corrects. Exception: the NaN
//   of e4m3 reads as 480.
//
// Subtractions are fma with one, because sm_80 has fma for bf16.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/PtxPairs.cuh"
#include "common/Types.h"

namespace kiln {

template <DType kWeight, DType kElement> struct WeightDecoder {
  static_assert(kElement == DType::BF16 || kElement == DType::FP16);
  static constexpr bool kBf16 = kElement == DType::BF16;
  /// Words of one step of 16 k.
  static constexpr int kWords = bitsOf(kWeight) / 4;

  /// A zero point as an addend: minus (128 or 1024 plus itself), in both
  /// halves.
  static unsigned addendOf(unsigned zero) {
    return (zero | (kBf16 ? 0xc300u : 0xe400u)) * 0x10001u;
  }

  /// The fragment of one step of \p words. \p addends: addendOf() of the rows'
  /// zero points, for int4.
  static void decode(unsigned (&fragment)[4], const unsigned (&words)[kWords],
                     const unsigned (&addends)[2]) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if constexpr (kWeight == DType::INT4)
        fragment[i] =
            multiplyAdd(ptx::lop3AndOr(words[0] >> 4 * i, 0x000f000fu, kBase),
                        kOne, addends[i % 2]);
      else if constexpr (kWeight == DType::INT8)
        fragment[i] = ofInt8(words[i / 2] >> i % 2 * 8);
      else if constexpr (kWeight == DType::E4M3)
        fragment[i] = ofE4m3(words[i / 2] << (8 - i % 2 * 8));
      else
        fragment[i] = ofE2m1(words[0] << (12 - 4 * i));
  }

private:
  static constexpr unsigned kOne = kBf16 ? 0x3f803f80u : 0x3c003c00u;
  static constexpr unsigned kMinusOne = kOne | 0x80008000u;
  static constexpr unsigned kMinusZero = 0x80008000u;
  static constexpr unsigned kSigns = 0x80008000u;
  static constexpr unsigned kBase = kBf16 ? 0x43004300u : 0x64006400u;

  static unsigned multiplyAdd(unsigned a, unsigned b, unsigned c) {
    if constexpr (kBf16)
      return ptx::fmaBf16x2(a, b, c);
    else
      return ptx::fmaF16x2(a, b, c);
  }

  /// Decodes the lower byte of each half.
  static unsigned ofInt8(unsigned pair) {
    return multiplyAdd(ptx::lop3AndOr(pair, 0x00800080u, kBase), kMinusOne,
                       ptx::lop3AndOr(pair, 0x007f007fu, kBase));
  }
  /// Decodes the upper byte of each half.
  static unsigned ofE4m3(unsigned pair) {
    constexpr int kShift = kBf16 ? 4 : 1;
    constexpr unsigned kSize = kBf16 ? 0x07f007f0u : 0x3f803f80u;
    constexpr unsigned kFactor = kBf16 ? 0x7b807b80u : 0x5c005c00u; // 2^120, 8
    return multiplyAdd(ptx::lop3AndOr(pair, kSigns, pair >> kShift & kSize),
                       kFactor, kMinusZero);
  }
  /// Decodes the upper four bits of each half.
  static unsigned ofE2m1(unsigned pair) {
    constexpr int kShift = kBf16 ? 6 : 3;
    constexpr unsigned kSize = kBf16 ? 0x01c001c0u : 0x0e000e00u;
    constexpr unsigned kFactor = kBf16 ? 0x7e807e80u : 0x74007400u; // 2^126, 14
    return multiplyAdd(ptx::lop3AndOr(pair, kSigns, pair >> kShift & kSize),
                       kFactor, kMinusZero);
  }
};

} // namespace kiln
