//===- common/Convert.cuh - element types in memory, fp32 in registers ----===//
//
// Storage of each DType, conversion to and from fp32 (to nearest even; types
// without infinity saturate) and moves of vectors of up to 16 bytes, without
// the toolkit's headers. A new type adds a branch to `Storage`, `toFloat` and
// `fromFloat`.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"
#include "common/Types.h"

namespace kiln {

namespace detail {
template <int kBytes> struct BitsOf;
template <> struct BitsOf<1> { using Type = unsigned char; };
template <> struct BitsOf<2> { using Type = unsigned short; };
template <> struct BitsOf<4> { using Type = float; };
} // namespace detail

/// One element of \p kType in memory: a float, or the bits of a narrower type.
template <DType kType>
using Storage = typename detail::BitsOf<bytesOf(kType)>::Type;

/// fp32 of an e4m3, exact, for architectures without the instruction. Except
/// for NaN, each e4m3 is an fp16 with a shorter mantissa and an exponent that
/// is 8 less.
inline float softFloatOfE4m3(unsigned char bits) {
  if ((bits & 0x7fu) == 0x7fu)
    return __uint_as_float(0x7fffffffu);
  unsigned half = (bits & 0x80u) << 8 | (bits & 0x7fu) << 7;
  return ptx::cvtF32F16(static_cast<unsigned short>(half)) * 256.0f;
}

/// fp32 of one stored element; exact.
template <DType kType> float toFloat(Storage<kType> stored) {
  if constexpr (kType == DType::FP32)
    return stored;
  else if constexpr (kType == DType::FP16)
    return ptx::cvtF32F16(stored);
  else if constexpr (kType == DType::E4M3) {
    if constexpr (__CUDA_ARCH__ >= 890)
      return ptx::cvtF32F16(
          static_cast<unsigned short>(ptx::cvtRnF16x2E4m3x2(stored)));
    else
      return softFloatOfE4m3(stored);
  } else if constexpr (kType == DType::E5M2)
    // An fp16 whose mantissa is 8 bits shorter.
    return ptx::cvtF32F16(static_cast<unsigned short>(stored << 8));
  else if constexpr (kType == DType::INT8)
    return static_cast<signed char>(stored);
  else {
    static_assert(kType == DType::BF16, "no conversion from this type");
    return __uint_as_float(static_cast<unsigned>(stored) << 16);
  }
}

/// bf16 bits of \p value to nearest even in integer arithmetic, for
/// architectures without the instruction. NaN stays NaN.
inline unsigned short bf16Bits(float value) {
  unsigned bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return 0x7fff;
  return static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >>
                                     16);
}

/// fp8 bits of \p value to nearest even in integer arithmetic, with kMantissa
/// bits and a bias of kBias, for architectures without the instruction.
/// Magnitudes whose fp32 bits are kTooLarge or more become kMost, NaN becomes
/// 0x7f.
template <int kMantissa, unsigned kBias, unsigned kTooLarge, unsigned kMost>
unsigned char softFp8OfFloat(float value) {
  constexpr unsigned kInfinity = 0x7f800000u;
  constexpr unsigned kLeastNormal = (128u - kBias) << 23;
  constexpr int kCut = 23 - kMantissa; // bits of fp32's mantissa
  constexpr float kSubnormals = 1u << (kBias - 1 + kMantissa); // in 1
  unsigned bits = __float_as_uint(value);
  unsigned sign = bits >> 24 & 0x80u, size = bits & 0x7fffffffu;
  if (size > kInfinity)
    return 0x7f;
  unsigned rounded;
  if (size >= kTooLarge)
    rounded = kMost;
  else if (size >= kLeastNormal) {
    unsigned rebiased = size - ((127u - kBias) << 23);
    constexpr unsigned kBelowHalf = (1u << (kCut - 1)) - 1;
    rounded = (rebiased + kBelowHalf + (rebiased >> kCut & 1u)) >> kCut;
  } else
    rounded = __float2uint_rn(__uint_as_float(size) * kSubnormals);
  return static_cast<unsigned char>(sign | rounded);
}

/// e4m3 bits of \p value; magnitudes above 448 become 448.
inline unsigned char softE4m3OfFloat(float value) {
  return softFp8OfFloat<3, 7, 0x43e00000u, 0x7e>(value);
}
/// e5m2 bits of \p value; 61440 and above round to infinity.
inline unsigned char softE5m2OfFloat(float value) {
  return softFp8OfFloat<2, 15, 0x47700000u, 0x7c>(value);
}

/// int8 bits of \p value to nearest even, clamped to +-127; NaN becomes 0.
inline unsigned char int8Bits(float value) {
  return static_cast<unsigned char>(max(-127, min(127, __float2int_rn(value))));
}

/// The stored element nearest to \p value.
template <DType kType> Storage<kType> fromFloat(float value) {
  if constexpr (kType == DType::FP32)
    return value;
  else if constexpr (kType == DType::FP16)
    return ptx::cvtRnF16F32(value);
  else if constexpr (kType == DType::E4M3) {
    if constexpr (__CUDA_ARCH__ >= 890)
      return static_cast<unsigned char>(
          ptx::cvtRnSatfiniteE4m3x2F32(value, 0.0f));
    else
      return softE4m3OfFloat(value);
  } else if constexpr (kType == DType::E5M2)
    return softE5m2OfFloat(value);
  else if constexpr (kType == DType::INT8)
    return int8Bits(value);
  else {
    static_assert(kType == DType::BF16, "no conversion to this type");
    if constexpr (__CUDA_ARCH__ >= 800)
      return static_cast<unsigned short>(ptx::cvtRnBf16x2F32(value, 0.0f));
    else
      return bf16Bits(value);
  }
}

/// Two elements of a type of 16 or 8 bits in the lower bits of a register,
/// \p low below \p high, zeros above.
template <DType kType> unsigned packPair(float low, float high) {
  if constexpr (__CUDA_ARCH__ >= 800 && kType == DType::BF16)
    return ptx::cvtRnBf16x2F32(low, high);
  else if constexpr (__CUDA_ARCH__ >= 800 && kType == DType::FP16)
    return ptx::cvtRnF16x2F32(low, high);
  else if constexpr (__CUDA_ARCH__ >= 890 && kType == DType::E4M3)
    return ptx::cvtRnSatfiniteE4m3x2F32(low, high);
  else
    return static_cast<unsigned>(fromFloat<kType>(low)) |
           static_cast<unsigned>(fromFloat<kType>(high)) << bitsOf(kType);
}

/// The reverse of packPair; bits above the pair are ignored.
template <DType kType> void unpackPair(float &low, float &high, unsigned pair) {
  if constexpr (__CUDA_ARCH__ >= 890 && kType == DType::E4M3)
    unpackPair<DType::FP16>(
        low, high, ptx::cvtRnF16x2E4m3x2(static_cast<unsigned short>(pair)));
  else {
    low = toFloat<kType>(static_cast<Storage<kType>>(pair));
    high = toFloat<kType>(static_cast<Storage<kType>>(pair >> bitsOf(kType)));
  }
}

/// Registers of kBytes of memory; fewer than 4 lie in the lowest bits of one.
template <int kBytes> struct Words { unsigned word[(kBytes + 3) / 4]; };

/// fp32 of the kCount elements in \p words; exact.
template <DType kType, int kCount>
void unpackFloats(float (&out)[kCount],
                  const Words<kCount * bytesOf(kType)> &words) {
  constexpr int kPerWord = 4 / bytesOf(kType);
  if constexpr (kType == DType::FP32) {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      out[i] = __uint_as_float(words.word[i]);
  } else if constexpr (kCount == 1)
    out[0] = toFloat<kType>(static_cast<Storage<kType>>(words.word[0]));
  else {
#pragma unroll
    for (int i = 0; i < kCount; i += 2)
      unpackPair<kType>(out[i], out[i + 1],
                        words.word[i / kPerWord] >>
                            (i % kPerWord * bitsOf(kType)));
  }
}

/// The kCount stored elements nearest to \p values.
template <DType kType, int kCount>
Words<kCount * bytesOf(kType)> packFloats(const float (&values)[kCount]) {
  constexpr int kPerWord = 4 / bytesOf(kType);
  Words<kCount * bytesOf(kType)> words;
  if constexpr (kType == DType::FP32) {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      words.word[i] = __float_as_uint(values[i]);
  } else if constexpr (kCount == 1)
    words.word[0] = fromFloat<kType>(values[0]);
  else {
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
      unsigned pair = packPair<kType>(values[i], values[i + 1]);
      if (i % kPerWord == 0)
        words.word[i / kPerWord] = pair;
      else
        words.word[i / kPerWord] |= pair << (i % kPerWord * bitsOf(kType));
    }
  }
  return words;
}

/// One load of kBytes from a pointer aligned to kBytes.
template <int kBytes> Words<kBytes> loadWords(const void *pointer) {
  if constexpr (kBytes == 16) {
    uint4 value = *static_cast<const uint4 *>(pointer);
    return {value.x, value.y, value.z, value.w};
  } else if constexpr (kBytes == 8) {
    uint2 value = *static_cast<const uint2 *>(pointer);
    return {value.x, value.y};
  } else if constexpr (kBytes == 4)
    return {*static_cast<const unsigned *>(pointer)};
  else {
    static_assert(kBytes == 2, "an access has 2, 4, 8 or 16 bytes");
    return {*static_cast<const unsigned short *>(pointer)};
  }
}

/// One store of kBytes to a pointer aligned to kBytes.
template <int kBytes>
void storeWords(void *pointer, const Words<kBytes> &value) {
  if constexpr (kBytes == 16)
    *static_cast<uint4 *>(pointer) = {value.word[0], value.word[1],
                                      value.word[2], value.word[3]};
  else if constexpr (kBytes == 8)
    *static_cast<uint2 *>(pointer) = {value.word[0], value.word[1]};
  else if constexpr (kBytes == 4)
    *static_cast<unsigned *>(pointer) = value.word[0];
  else {
    static_assert(kBytes == 2, "an access has 2, 4, 8 or 16 bytes");
    *static_cast<unsigned short *>(pointer) =
        static_cast<unsigned short>(value.word[0]);
  }
}

/// Loads kCount elements with one access, aligned to its size.
template <DType kType, int kCount>
void loadFloats(float (&out)[kCount], const void *pointer) {
  if constexpr (kCount == 1)
    out[0] = toFloat<kType>(*static_cast<const Storage<kType> *>(pointer));
  else
    unpackFloats<kType>(out, loadWords<kCount * bytesOf(kType)>(pointer));
}

/// Loads an element of 2 or 4 bytes where it \p exists, else 0, without a
/// branch.
template <DType kType>
Storage<kType> loadOrZero(const void *pointer, bool exists) {
  if constexpr (kType == DType::FP32)
    return __uint_as_float(ptx::ldGlobalOrZero32(pointer, exists));
  else {
    static_assert(bytesOf(kType) == 2, "no such access");
    return ptx::ldGlobalOrZero16(pointer, exists);
  }
}

/// Stores kCount elements with one access, aligned to its size.
template <DType kType, int kCount>
void storeFloats(void *pointer, const float (&values)[kCount]) {
  if constexpr (kCount == 1)
    *static_cast<Storage<kType> *>(pointer) = fromFloat<kType>(values[0]);
  else
    storeWords<kCount * bytesOf(kType)>(pointer, packFloats<kType>(values));
}

} // namespace kiln
