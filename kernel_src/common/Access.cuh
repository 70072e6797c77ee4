//===- common/Access.cuh - vectors between memory and registers -----------===//
//
// The loads and stores of memory-bound kernels: power-of-two runs of elements
// of any width, by accesses of up to 16 bytes with a cache hint that is fixed
// at compile time. A load leaves the bits as they are, so that all loads of a
// thread can be in flight before the first one is converted.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Convert.cuh"

namespace kiln {

/// Bytes of the widest access into which \p bytes split. A pointer to a vector
/// of \p bytes has to be aligned to it.
constexpr int accessBytes(int bytes) { return bytes < 16 ? bytes : 16; }

namespace detail {

/// One load of kBytes = 1, 2, 4, 8 or 16, aligned to kBytes.
template <int kBytes, CacheHint kHint>
Words<kBytes> loadAccess(const char *pointer) {
  constexpr bool kStreaming = kHint == CacheHint::Streaming;
  if constexpr (kBytes == 1)
    return {kStreaming ? ptx::ldGlobalNoAllocate8(pointer)
                       : *reinterpret_cast<const unsigned char *>(pointer)};
  else if constexpr (kBytes == 2)
    return {kStreaming ? ptx::ldGlobalNoAllocate16(pointer)
                       : *reinterpret_cast<const unsigned short *>(pointer)};
  else if constexpr (!kStreaming)
    return loadWords<kBytes>(pointer);
  else if constexpr (kBytes == 4)
    return {ptx::ldGlobalNoAllocate32(pointer)};
  else if constexpr (kBytes == 8) {
    uint2 value = ptx::ldGlobalNoAllocate64(pointer);
    return {value.x, value.y};
  } else {
    static_assert(kBytes == 16, "an access has 1, 2, 4, 8 or 16 bytes");
    uint4 value = ptx::ldGlobalNoAllocate128(pointer);
    return {value.x, value.y, value.z, value.w};
  }
}

/// One store of kBytes = 1, 2, 4, 8 or 16, aligned to kBytes.
template <int kBytes, CacheHint kHint>
void storeAccess(char *pointer, const Words<kBytes> &value) {
  constexpr bool kStreaming = kHint == CacheHint::Streaming;
  const unsigned(&word)[kBytes < 4 ? 1 : kBytes / 4] = value.word;
  if constexpr (kBytes == 1 && kStreaming)
    ptx::stGlobalStreaming8(pointer, word[0]);
  else if constexpr (kBytes == 1)
    *reinterpret_cast<unsigned char *>(pointer) =
        static_cast<unsigned char>(word[0]);
  else if constexpr (kBytes == 2 && kStreaming)
    ptx::stGlobalStreaming16(pointer, word[0]);
  else if constexpr (kBytes == 2)
    *reinterpret_cast<unsigned short *>(pointer) =
        static_cast<unsigned short>(word[0]);
  else if constexpr (!kStreaming)
    storeWords<kBytes>(pointer, value);
  else if constexpr (kBytes == 4)
    ptx::stGlobalStreaming32(pointer, word[0]);
  else if constexpr (kBytes == 8)
    ptx::stGlobalStreaming64(pointer, {word[0], word[1]});
  else {
    static_assert(kBytes == 16, "an access has 1, 2, 4, 8 or 16 bytes");
    ptx::stGlobalStreaming128(pointer, {word[0], word[1], word[2], word[3]});
  }
}

} // namespace detail

/// Loads kBytes, a power of two, from \p pointer, which is aligned to
/// accessBytes(kBytes): one access, or as many of 16 bytes as needed.
template <int kBytes, CacheHint kHint = CacheHint::Plain>
Words<kBytes> loadVector(const void *pointer) {
  const char *bytes = static_cast<const char *>(pointer);
  if constexpr (kBytes <= 16)
    return detail::loadAccess<kBytes, kHint>(bytes);
  else {
    Words<kBytes> all;
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i) {
      Words<16> part = detail::loadAccess<16, kHint>(bytes + 16 * i);
#pragma unroll
      for (int w = 0; w < 4; ++w)
        all.word[4 * i + w] = part.word[w];
    }
    return all;
  }
}

/// Stores kBytes to \p pointer; alignment and accesses as for loadVector.
template <int kBytes, CacheHint kHint = CacheHint::Plain>
void storeVector(void *pointer, const Words<kBytes> &value) {
  char *bytes = static_cast<char *>(pointer);
  if constexpr (kBytes <= 16)
    detail::storeAccess<kBytes, kHint>(bytes, value);
  else {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i)
      detail::storeAccess<16, kHint>(
          bytes + 16 * i, {value.word[4 * i], value.word[4 * i + 1],
                           value.word[4 * i + 2], value.word[4 * i + 3]});
  }
}

/// Loads kBytes, a multiple of 4 up to 16, from \p shared, which is aligned to
/// kBytes. 16 bytes are one access, since in each of several narrower ones four
/// lanes would meet in a bank.
template <int kBytes> Words<kBytes> loadSharedVector(unsigned shared) {
  static_assert(kBytes % 4 == 0 && kBytes <= 16, "words of one access");
  if constexpr (kBytes == 16) {
    uint4 words = ptx::ldShared128(shared);
    return {words.x, words.y, words.z, words.w};
  } else {
    Words<kBytes> words;
#pragma unroll
    for (int w = 0; w < kBytes / 4; ++w)
      words.word[w] = ptx::ldShared32(shared + 4 * w);
    return words;
  }
}

/// Stores kBytes to \p shared; alignment and accesses as for loadSharedVector.
template <int kBytes>
void storeSharedVector(unsigned shared, const Words<kBytes> &value) {
  static_assert(kBytes % 4 == 0 && kBytes <= 16, "words of one access");
  if constexpr (kBytes == 16)
    ptx::stShared128(shared, value.word);
  else
#pragma unroll
    for (int w = 0; w < kBytes / 4; ++w)
      ptx::stShared32(shared + 4 * w, value.word[w]);
}

} // namespace kiln
