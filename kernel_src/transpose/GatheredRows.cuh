//===- transpose/GatheredRows.cuh - rows of x in shared memory ------------===//
//
// Rows that begin anywhere are copied to shared memory unshifted: asynchronous
// copies load the aligned pieces of each row that the tile's columns touch.
// Bytes of neighbouring tiles in these pieces are never used. No byte outside
// of the operand is loaded: the pieces at its two ends are copied by elements.
//
// A thread keeps its place in a row and, where it can, walks over rows with the
// same alignment, so that a copy takes two additions.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/ShiftedVector.cuh"
#include "transpose/TransposeParams.h"
#include "transpose/TransposeSignature.h"

namespace kiln {

/// Tiles of kConfig.tileCols columns, copied by pieces of kConfig.copyBytes to
/// the offsets of kConfig.rowOffset().
template <class Config, TransposeSignature kSignature, Config kConfig>
struct GatheredRows {
  static constexpr int kElementBytes = kSignature.elementBytes;
  static constexpr int kVector = 16 / kElementBytes;
  static constexpr int kPieceBytes = kConfig.copyBytes;
  static constexpr bool kAsync = __CUDA_ARCH__ >= 800;

  const char *begin, *end; ///< the bytes of x

  static GatheredRows of(const TransposeParams &params) {
    const char *x = static_cast<const char *>(params.x);
    return {x,
            x + ((params.rows - 1) * params.ldx + params.cols) * kElementBytes};
  }

  /// Bytes from the start of the first piece of a row to the row at \p row.
  static int past(const char *row) { return bytesPast(row, kPieceBytes); }

  /// Copies the rows [firstRow, endRow) of a tile with \p cols columns. Row 0
  /// is at \p origin; it and some rows after it may lie outside of x. \p pitch
  /// is the bytes from row to row. Returns when this thread's copies are
  /// complete.
  void load(char *shared, const char *origin, long long pitch, int firstRow,
            int endRow, int cols) const {
    constexpr int kTileBytes = kConfig.tileCols * kElementBytes;
    const char *first = origin + firstRow * pitch;
    const char *last = origin + (endRow - 1) * pitch + kTileBytes;
    if (cols == kConfig.tileCols && first - begin >= kPieceBytes &&
        end - last >= kPieceBytes)
      loadRows<true>(shared, origin, pitch, firstRow, endRow, kTileBytes);
    else
      loadRows<false>(shared, origin, pitch, firstRow, endRow,
                      cols * kElementBytes);
    if constexpr (kAsync) {
      ptx::cpAsyncCommit();
      ptx::cpAsyncWait<0>();
    }
  }

private:
  // Pieces of a row that the tile's columns touch at any alignment; there is
  // one more unless the row begins with a piece.
  static constexpr int kPieces = kConfig.rowCopies(kSignature) - 1;
  // Rows that are copied at once, with a thread for each piece. If this is a
  // multiple of both periods, rows this far apart have the same alignment in x
  // and in shared memory.
  static constexpr int kAtOnce =
      kPieces < kConfig.threads() ? kConfig.threads() / kPieces : 1;
  static constexpr bool kAreAlike =
      kAtOnce % kPieceBytes == 0 && kAtOnce % kVector == 0;

  /// \p bytes: bytes of a row. kInside: x includes all pieces.
  template <bool kInside>
  void loadRows(char *shared, const char *origin, long long pitch, int firstRow,
                int endRow, int bytes) const {
    constexpr int kThreads = kConfig.threads();
    constexpr int kUnroll = !kInside ? 1 : 4;
    const int thread = static_cast<int>(threadIdx.x);
    const int first = firstRow + thread / kPieces;
#pragma unroll 1
    for (int piece = thread % kPieces; piece < kPieces; piece += kThreads) {
      const int byte = piece * kPieceBytes;
      const char *row = origin + first * pitch;
      int rowPast = past(row);
      int place = kConfig.rowOffset(kSignature, first) + byte;
#pragma unroll kUnroll
      for (int i = first; i < endRow; i += kAtOnce) {
        if (byte < rowPast + bytes)
          copyPiece<kInside>(shared, place, row - rowPast + byte);
        row += kAtOnce * pitch;
        if constexpr (kAreAlike)
          place += kConfig.rowOffset(kSignature, kAtOnce);
        else {
          rowPast = past(row);
          place = kConfig.rowOffset(kSignature, i + kAtOnce) + byte;
        }
      }
    }
    // The last pieces.
#pragma unroll 1
    for (int i = firstRow + thread; i < endRow; i += kThreads) {
      constexpr int kByte = kPieces * kPieceBytes;
      const char *row = origin + i * pitch;
      const int rowPast = past(row);
      if (kByte < rowPast + bytes)
        copyPiece<kInside>(shared, kConfig.rowOffset(kSignature, i) + kByte,
                           row - rowPast + kByte);
    }
  }

  /// Copies the piece at \p from to \p place bytes behind \p shared. Both are
  /// aligned, and the piece has at least one element of x.
  template <bool kInside>
  void copyPiece(char *shared, int place, const char *from) const {
    if (!kInside && (from < begin || from + kPieceBytes > end))
      copyInside(shared + place, from);
    else if constexpr (kAsync)
      ptx::cpAsync<kPieceBytes>(ptx::sharedAddress(shared) +
                                    static_cast<unsigned>(place),
                                from, kPieceBytes);
    else
      storeVector<kPieceBytes>(shared + place, loadVector<kPieceBytes>(from));
  }

  void copyInside(char *to, const char *from) const {
#pragma unroll 1
    for (int byte = 0; byte < kPieceBytes; byte += kElementBytes)
      if (from + byte >= begin && from + byte < end)
        storeVector<kElementBytes>(to + byte,
                                   loadVector<kElementBytes>(from + byte));
  }
};

} // namespace kiln
