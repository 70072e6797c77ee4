//===- common/Convert.cuh - element types in memory, fp32 in registers ----===//
//
// How each DType is stored, converted (IEEE, to nearest even) and moved in
// vectors of up to 16 bytes, without the toolkit's headers. A new type adds a
// branch to `Storage`, `toFloat` and `fromFloat`.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"
#include "common/Types.h"

namespace kiln {

namespace detail {
template <int kBytes> struct BitsOf;
template <> struct BitsOf<2> { using Type = unsigned short; };
template <> struct BitsOf<4> { using Type = float; };
} // namespace detail

/// One element of \p kType in memory: a float, or the bits of a narrower type.
template <DType kType>
using Storage = typename detail::BitsOf<bytesOf(kType)>::Type;

/// fp32 of one stored element; exact.
template <DType kType> float toFloat(Storage<kType> stored) {
  if constexpr (kType == DType::FP32)
    return stored;
  else if constexpr (kType == DType::FP16)
    return ptx::cvtF32F16(stored);
  else {
    static_assert(kType == DType::BF16, "no conversion from this type");
    return __uint_as_float(static_cast<unsigned>(stored) << 16);
  }
}

/// bf16 bits of \p value to nearest even in integer arithmetic, for
/// architectures without the instruction. NaN stays NaN.
unsigned short bf16Bits(float value) {
  unsigned bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return 0x7fff;
  return static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >>
                                     16);
}

/// The stored element nearest to \p value.
template <DType kType> Storage<kType> fromFloat(float value) {
  if constexpr (kType == DType::FP32)
    return value;
  else if constexpr (kType == DType::FP16)
    return ptx::cvtRnF16F32(value);
  else {
    static_assert(kType == DType::BF16, "no conversion to this type");
    if constexpr (__CUDA_ARCH__ >= 800)
      return static_cast<unsigned short>(ptx::cvtRnBf16x2F32(value, 0.0f));
    else
      return bf16Bits(value);
  }
}

/// Two elements of a 16-bit type in one register, \p low in the lower half.
template <DType kType> unsigned packPair(float low, float high) {
  if constexpr (__CUDA_ARCH__ >= 800 && kType == DType::BF16)
    return ptx::cvtRnBf16x2F32(low, high);
  else if constexpr (__CUDA_ARCH__ >= 800 && kType == DType::FP16)
    return ptx::cvtRnF16x2F32(low, high);
  else
    return static_cast<unsigned>(fromFloat<kType>(low)) |
           static_cast<unsigned>(fromFloat<kType>(high)) << 16;
}

/// Registers of kBytes of memory; fewer than 4 lie in the lowest bits of one.
template <int kBytes> struct Words {
  unsigned word[kBytes < 4 ? 1 : kBytes / 4];
};

/// One load of kBytes from a pointer aligned to them.
template <int kBytes> Words<kBytes> loadWords(const void *pointer) {
  if constexpr (kBytes == 16) {
    uint4 value = *static_cast<const uint4 *>(pointer);
    return {value.x, value.y, value.z, value.w};
  } else if constexpr (kBytes == 8) {
    uint2 value = *static_cast<const uint2 *>(pointer);
    return {value.x, value.y};
  } else {
    static_assert(kBytes == 4, "an access has 4, 8 or 16 bytes");
    return {*static_cast<const unsigned *>(pointer)};
  }
}

/// One store of kBytes to a pointer aligned to them.
template <int kBytes>
void storeWords(void *pointer, const Words<kBytes> &value) {
  if constexpr (kBytes == 16)
    *static_cast<uint4 *>(pointer) = {value.word[0], value.word[1],
                                      value.word[2], value.word[3]};
  else if constexpr (kBytes == 8)
    *static_cast<uint2 *>(pointer) = {value.word[0], value.word[1]};
  else {
    static_assert(kBytes == 4, "an access has 4, 8 or 16 bytes");
    *static_cast<unsigned *>(pointer) = value.word[0];
  }
}

/// Loads kCount elements with one access, aligned to its size.
template <DType kType, int kCount>
void loadFloats(float (&out)[kCount], const void *pointer) {
  constexpr int kBytes = kCount * bytesOf(kType);
  if constexpr (kCount == 1)
    out[0] = toFloat<kType>(*static_cast<const Storage<kType> *>(pointer));
  else {
    Words<kBytes> words = loadWords<kBytes>(pointer);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if constexpr (kType == DType::FP32)
        out[i] = __uint_as_float(words.word[i]);
      else
        out[i] = toFloat<kType>(
            static_cast<unsigned short>(words.word[i / 2] >> (i % 2 * 16)));
    }
  }
}

/// Stores kCount elements with one access, aligned to its size.
template <DType kType, int kCount>
void storeFloats(void *pointer, const float (&values)[kCount]) {
  constexpr int kBytes = kCount * bytesOf(kType);
  if constexpr (kCount == 1)
    *static_cast<Storage<kType> *>(pointer) = fromFloat<kType>(values[0]);
  else {
    Words<kBytes> words;
#pragma unroll
    for (int i = 0; i < kBytes / 4; ++i) {
      if constexpr (kType == DType::FP32)
        words.word[i] = __float_as_uint(values[i]);
      else
        words.word[i] = packPair<kType>(values[2 * i], values[2 * i + 1]);
    }
    storeWords<kBytes>(pointer, words);
  }
}

} // namespace kiln
