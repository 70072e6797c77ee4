//===- gemm/ShiftedRows.cuh - stores of staged rows at any alignment ------===//
//
// Rows of D may begin anywhere between multiples of 16 bytes, each at another
// place. Staged rows begin at multiples of 16, so each vector of D takes the
// end of one staged vector and the beginning of the next. The two ends of a
// row, 16 bytes together, are stored element by element.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"
#include "common/Swizzle.cuh"

namespace kiln {

/// Stores rows of kRowBytes that lie swizzled in shared memory, with elements
/// of kElementBytes, by kThreads threads.
template <int kRowBytes, int kElementBytes, int kThreads> struct ShiftedRows {
  /// Stores \p bytes of each of \p rows rows staged at \p staged. Row r goes to
  /// rowAt(r), unless that is null; the calling thread has number \p thread.
  template <class RowAt>
  static void store(RowAt rowAt, unsigned staged, int rows, int bytes,
                    int thread) {
    constexpr int kVectors = kRowBytes / 16 - 1; // within a row
    constexpr int kSingles = 16 / kElementBytes; // at its ends
#pragma unroll 1
    for (int i = thread; i < rows * kSingles; i += kThreads) {
      int r = i / kSingles;
      char *target = rowAt(r);
      if (!target)
        continue;
      int byte = i % kSingles * kElementBytes;
      if (byte >= 16 - shiftOf(target))
        byte += kRowBytes - 16;
      if (byte < bytes)
        storeOne(target + byte, staged + stagedOffset(r, byte));
    }
#pragma unroll 1
    for (int i = thread; i < rows * kVectors; i += kThreads) {
      int r = i / kVectors, vector = i % kVectors;
      char *target = rowAt(r);
      if (!target)
        continue;
      int shift = shiftOf(target);
      int begin = vector * 16 + 16 - shift;
      if (begin + 16 <= bytes)
        storeVector(target + begin, staged + stagedOffset(r, vector * 16),
                    staged + stagedOffset(r, vector * 16 + 16), 16 - shift);
      else
        for (int byte = begin; byte < bytes; byte += kElementBytes)
          storeOne(target + byte, staged + stagedOffset(r, byte));
    }
  }

  /// run() for rows that begin and end at multiples of 16 bytes.
  template <class RowAt>
  static void storeAligned(RowAt rowAt, unsigned staged, int rows, int bytes,
                           int thread) {
    constexpr int kVectors = kRowBytes / 16;
#pragma unroll 1
    for (int i = thread; i < rows * kVectors; i += kThreads) {
      int r = i / kVectors, byte = i % kVectors * 16;
      char *target = rowAt(r);
      if (target && byte < bytes)
        *reinterpret_cast<uint4 *>(target + byte) =
            ptx::ldShared128(staged + stagedOffset(r, byte));
    }
  }

private:
  static unsigned stagedOffset(unsigned row, unsigned byte) {
    return swizzledOffset<kRowBytes, SwizzleFor::Ldmatrix>(row, byte);
  }

  /// Bytes that \p target lies past a multiple of 16.
  static int shiftOf(const char *target) {
    return static_cast<int>(reinterpret_cast<unsigned long long>(target) & 15);
  }

  static void storeOne(char *target, unsigned staged) {
    if constexpr (kElementBytes == 2)
      *reinterpret_cast<unsigned short *>(target) = ptx::ldShared16(staged);
    else
      *reinterpret_cast<unsigned *>(target) = ptx::ldShared32(staged);
  }

  /// Stores the 16 bytes that begin \p skip bytes into two staged vectors.
  static void storeVector(char *target, unsigned low, unsigned high, int skip) {
    uint4 a = ptx::ldShared128(low), b = ptx::ldShared128(high);
    unsigned words[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    // Shift by 4, 2 and 1 words, then by half a word.
#pragma unroll
    for (int distance = 4; distance >= 1; distance /= 2)
      if (skip & distance * 4)
#pragma unroll
        for (int i = 0; i + distance < 8; ++i)
          words[i] = words[i + distance];
    if constexpr (kElementBytes == 2)
      if (skip & 2)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          words[i] = __funnelshift_r(words[i], words[i + 1], 16);
    *reinterpret_cast<uint4 *>(target) = {words[0], words[1], words[2],
                                          words[3]};
  }
};

} // namespace kiln
