//===- common/ShiftedVector.cuh - vectors at any alignment ----------------===//
//
// Rows of any length begin anywhere between two multiples of 16 bytes. The
// hardware refuses an access of a whole vector there, and single elements need
// eight times as many accesses. The rules instead are:
//
// - the alignment of the row itself decides where its vectors begin: the
//   elements before the first aligned one (head) and behind the last (tail) are
//   moved singly;
// - an operand with another alignment is loaded by the two aligned vectors that
//   cover the elements wanted, and shifted in registers. Neighbouring lanes
//   load the same vectors, so memory sees each byte once. Head and tail are
//   long enough that these vectors are parts of the operand: no byte outside of
//   it is ever read;
// - a result with another alignment is stored element by element.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Access.cuh"

namespace kiln {

/// Bytes that \p pointer lies past a multiple of \p bytes, a power of two.
inline int bytesPast(const void *pointer, int bytes) {
  return static_cast<int>(reinterpret_cast<unsigned long long>(pointer)) &
         (bytes - 1);
}

/// The aligned vectors that cover kBytes, at most 16, of elements of
/// kElementBytes. `past` is the distance in bytes behind the first vector:
/// bytesPast() of the pointer, the same for all vectors of a row. Vectors are
/// loaded first and shifted later, so that many are in flight.
template <int kBytes, int kElementBytes> class CoveringVectors {
  static_assert(kBytes <= 16 && kBytes >= kElementBytes, "one access");
  static_assert(kBytes == kElementBytes || kBytes >= 4,
                "several elements fill a register");
  static constexpr int kWords = kBytes < 4 ? 1 : kBytes / 4;

public:
  /// Loads the vectors that cover \p pointer, without a branch: the same vector
  /// twice where \p pointer is aligned.
  template <CacheHint kHint = CacheHint::Plain>
  void load(const char *pointer, int past) {
    low = loadVector<kBytes, kHint>(pointer - past);
    high = loadVector<kBytes, kHint>(pointer - past + (past != 0 ? kBytes : 0));
  }

  /// Whether an operand with the bytes [begin, end) includes all vectors that
  /// may cover vectors that begin from \p first to \p last.
  static bool isInside(const char *first, const char *last, const char *begin,
                       const char *end) {
    constexpr int kMostPast = kBytes - kElementBytes;
    return first - begin >= kMostPast && end - last >= 2 * kBytes;
  }

  /// Replaces a load: get(0) returns \p words.
  void set(const Words<kBytes> &words) { set(words, words); }
  /// Replaces a load by the two covering vectors.
  void set(const Words<kBytes> &first, const Words<kBytes> &second) {
    low = first;
    high = second;
  }

  /// The elements wanted.
  Words<kBytes> get(int past) const {
    if constexpr (kBytes == kElementBytes)
      return low;
    else {
      unsigned words[2 * kWords];
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        words[w] = low.word[w];
        words[kWords + w] = high.word[w];
      }
#pragma unroll
      for (int distance = kWords / 2; distance >= 1; distance /= 2)
#pragma unroll
        for (int w = 0; w + distance < 2 * kWords; ++w)
          words[w] = past & 4 * distance ? words[w + distance] : words[w];
      Words<kBytes> result;
#pragma unroll
      for (int w = 0; w < kWords; ++w)
        result.word[w] =
            kElementBytes < 4
                ? __funnelshift_r(words[w], words[w + 1], 8 * (past & 3))
                : words[w];
      return result;
    }
  }

private:
  Words<kBytes> low, high;
};

/// The interface of CoveringVectors for a vector that is aligned.
template <int kBytes> class AlignedVector {
public:
  template <CacheHint kHint = CacheHint::Plain>
  void load(const char *pointer, int) {
    words = loadVector<kBytes, kHint>(pointer);
  }
  const Words<kBytes> &get(int) const { return words; }

private:
  Words<kBytes> words;
};

namespace detail {
template <int kBytes, int kElementBytes, bool kAnywhere> struct VectorAtOf {
  using Type = AlignedVector<kBytes>;
};
template <int kBytes, int kElementBytes>
struct VectorAtOf<kBytes, kElementBytes, true> {
  using Type = CoveringVectors<kBytes, kElementBytes>;
};
} // namespace detail

/// A vector at any address with kAnywhere, else an aligned one.
template <int kBytes, int kElementBytes, bool kAnywhere>
using VectorAt =
    typename detail::VectorAtOf<kBytes, kElementBytes, kAnywhere>::Type;

/// Loads the elements [from, to) of the kBytes / kElementBytes elements at
/// \p pointer; the others are zero.
template <int kBytes, int kElementBytes>
Words<kBytes> loadElements(const char *pointer, int from, int to) {
  Words<kBytes> words = {};
#pragma unroll
  for (int i = 0; i < kBytes / kElementBytes; ++i)
    if (i >= from && i < to) {
      auto element =
          loadVector<kElementBytes>(pointer + i * kElementBytes).word[0];
      words.word[i * kElementBytes / 4] |= element << i * kElementBytes % 4 * 8;
    }
  return words;
}

/// Stores the elements [from, to) of \p value to their places behind
/// \p pointer.
template <int kBytes, int kElementBytes, CacheHint kHint = CacheHint::Plain>
void storeElements(char *pointer, const Words<kBytes> &value, int from,
                   int to) {
#pragma unroll
  for (int i = 0; i < kBytes / kElementBytes; ++i)
    if (i >= from && i < to)
      storeVector<kElementBytes, kHint>(
          pointer + i * kElementBytes,
          Words<kElementBytes>{value.word[i * kElementBytes / 4] >>
                               i * kElementBytes % 4 * 8});
}

/// storeElements for 16 bytes at an aligned \p pointer, where the elements
/// begin or end with the vector: at most four accesses, each as wide as its
/// alignment.
template <int kElementBytes>
void storeEnd(char *pointer, const Words<16> &value, int from, int to) {
  const bool isFirst = from == 0;
  if (!isFirst && to * kElementBytes != 16)
    return storeElements<16, kElementBytes>(pointer, value, from, to);
  const int length = (to - from) * kElementBytes;
#pragma unroll
  for (int width = 8; width >= kElementBytes; width /= 2) {
    if ((length & width) == 0)
      continue;
    // Wide pieces lie at the vector's own end, narrow ones at the cut.
    const int at = isFirst ? length & -2 * width : 16 - (length & -width);
    const unsigned *word = value.word;
    const unsigned low = at & 8 ? word[2] : word[0];
    const unsigned high = at & 8 ? word[3] : word[1];
    if (width == 8)
      storeVector<8>(pointer + at, Words<8>{low, high});
    else if (width == 4)
      storeVector<4>(pointer + at, Words<4>{at & 4 ? high : low});
    else if (width == 2)
      storeVector<2>(pointer + at,
                     Words<2>{(at & 4 ? high : low) >> at % 4 * 8});
    else
      storeVector<1>(pointer + at,
                     Words<1>{(at & 4 ? high : low) >> at % 4 * 8});
  }
}

/// Loads kBytes of elements of kElementBytes from \p pointer, at any alignment.
/// The aligned vectors that cover them must lie in the operand.
template <int kBytes, int kElementBytes, CacheHint kHint = CacheHint::Plain>
Words<kBytes> loadShifted(const char *pointer) {
  CoveringVectors<kBytes, kElementBytes> vectors;
  const int past = bytesPast(pointer, kBytes);
  vectors.template load<kHint>(pointer, past);
  return vectors.get(past);
}

/// loadShifted in an operand with the bytes [\p begin, \p end): by elements
/// where the covering vectors may lie partly outside.
template <int kBytes, int kElementBytes, CacheHint kHint = CacheHint::Plain>
Words<kBytes> loadShiftedWithin(const char *pointer, const char *begin,
                                const char *end) {
  if (CoveringVectors<kBytes, kElementBytes>::isInside(pointer, pointer, begin,
                                                       end))
    return loadShifted<kBytes, kElementBytes, kHint>(pointer);
  return loadElements<kBytes, kElementBytes>(pointer, 0,
                                             kBytes / kElementBytes);
}

/// Stores kBytes of elements of kElementBytes to \p pointer: one access where
/// \p pointer is aligned to it, else one for each element.
template <int kBytes, int kElementBytes, CacheHint kHint = CacheHint::Plain>
void storeShifted(void *pointer, const Words<kBytes> &value) {
  if (bytesPast(pointer, accessBytes(kBytes)) == 0)
    return storeVector<kBytes, kHint>(pointer, value);
#pragma unroll
  for (int byte = 0; byte < kBytes; byte += kElementBytes)
    storeVector<kElementBytes, kHint>(
        static_cast<char *>(pointer) + byte,
        Words<kElementBytes>{value.word[byte / 4] >> 8 * (byte % 4)});
}

} // namespace kiln
