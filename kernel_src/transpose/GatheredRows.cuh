//===- transpose/GatheredRows.cuh - rows of x in shared memory ------------===//
//
// Rows that begin anywhere come to shared memory as they are: of each row the
// aligned pieces that the tile's columns touch, by asynchronous copies. What a
// piece has of neighbouring tiles nobody reads. Nothing outside of the operand
// is loaded: of the pieces at its two ends only the elements. Vectors of y are
// then gathered element by element.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/ShiftedVector.cuh"
#include "transpose/TransposeParams.h"

namespace kiln {

/// Copies by pieces of kPieceBytes.
template <int kElementBytes, int kPieceBytes> struct GatheredRows {
  static constexpr int kVector = 16 / kElementBytes;
  static constexpr bool kAsync = __CUDA_ARCH__ >= 800;

  const char *begin, *end; ///< the bytes of x

  static GatheredRows of(const TransposeParams &params) {
    const char *x = static_cast<const char *>(params.x);
    return {x,
            x + ((params.rows - 1) * params.ldx + params.cols) * kElementBytes};
  }

  /// Of a row that begins at \p row: how far its first piece begins before it.
  static int past(const char *row) { return bytesPast(row, kPieceBytes); }

  /// Whether x has all pieces that touch the bytes [first, last) of it.
  bool isInside(const char *first, const char *last) const {
    return first - begin >= kPieceBytes && end - last >= kPieceBytes;
  }

  /// Copies the piece at \p from to \p place bytes behind \p shared. Both are
  /// aligned; somewhere in the piece x has an element.
  void copy(char *shared, int place, const char *from) const {
    if (from < begin || from + kPieceBytes > end)
      copyInside(shared + place, from);
    else
      copyWhole(shared, place, from);
  }
  /// The same where x has all of the piece.
  static void copyWhole(char *shared, int place, const char *from) {
    if constexpr (kAsync)
      ptx::cpAsync<kPieceBytes>(ptx::sharedAddress(shared) +
                                    static_cast<unsigned>(place),
                                from, kPieceBytes);
    else
      storeVector<kPieceBytes>(shared + place, loadVector<kPieceBytes>(from));
  }

  /// Waits for the thread's copies.
  static void await() {
    if constexpr (kAsync) {
      ptx::cpAsyncCommit();
      ptx::cpAsyncWait<0>();
    }
  }

  /// A vector of y: the element that lies \p offset bytes behind each of \p
  /// from.
  static Words<16> gather(const char *const (&from)[kVector], int offset) {
    Words<16> value = {};
#pragma unroll
    for (int k = 0; k < kVector; ++k)
      value.word[k * kElementBytes / 4] |=
          loadVector<kElementBytes>(from[k] + offset).word[0]
          << k * kElementBytes % 4 * 8;
    return value;
  }

private:
  void copyInside(char *to, const char *from) const {
#pragma unroll 1
    for (int byte = 0; byte < kPieceBytes; byte += kElementBytes)
      if (from + byte >= begin && from + byte < end)
        storeVector<kElementBytes>(to + byte,
                                   loadVector<kElementBytes>(from + byte));
  }
};

} // namespace kiln
