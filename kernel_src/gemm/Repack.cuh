//===- gemm/Repack.cuh - operands copied to rows that TMA can read --------===//
//
// TMA needs rows that begin at multiples of 16 bytes. Any other operand is
// copied once, before the product, to such rows: 2 bytes moved for each byte,
// where loads of 2 bytes inside the product would cost many times that. A
// thread writes 16 bytes; after the first piece its loads hit lines that its
// warp has in L1.
//
// wgmma needs operands of tf32 and of bytes along k. An operand along its other
// extent is transposed by such a copy, tile by tile through shared memory; each
// thread has the loads of all its elements of a tile in flight at once. Bytes
// are loaded and stored in words: a thread transposes squares of four by four
// in registers.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Dependent.cuh"
#include "common/Types.h"
#include "gemm/RepackConfig.h"

namespace kiln {

template <int kBytes> struct RepackPieceOf;
template <> struct RepackPieceOf<1> { using Type = unsigned char; };
template <> struct RepackPieceOf<2> { using Type = unsigned short; };
template <> struct RepackPieceOf<4> { using Type = unsigned; };
template <int kBytes> using RepackPiece = typename RepackPieceOf<kBytes>::Type;

/// The word at \p source, of which \p left bytes exist, at least one; the
/// others have any value. A word of memory is read whole if any of its bytes
/// exists.
inline unsigned wordOfBytes(const char *source, long long left) {
  const unsigned shift =
      static_cast<unsigned>(reinterpret_cast<unsigned long long>(source) & 3);
  const unsigned *words = reinterpret_cast<const unsigned *>(source - shift);
  const unsigned low = words[0];
  const unsigned high = shift + left > 4 && shift ? words[1] : 0;
  return __funnelshift_r(low, high, 8 * shift);
}

/// The vector at \p source, of which \p left bytes exist; the others are zeros.
template <int kBytes> uint4 vectorOfPieces(const char *source, long long left) {
  constexpr int kPieces = 16 / kBytes, kPerWord = 4 / kBytes;
  uint4 vector = {};
  unsigned *words = &vector.x;
  if constexpr (kBytes == 1) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (const long long rest = left - 4 * i; rest > 0) {
        words[i] = wordOfBytes(source + 4 * i, rest);
        if (rest < 4)
          words[i] &= (1u << (8 * static_cast<unsigned>(rest))) - 1;
      }
  } else {
    using Piece = RepackPiece<kBytes>;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      Piece piece = 0;
      if (i * kBytes < left)
        piece = *reinterpret_cast<const Piece *>(source + i * kBytes);
      words[i / kPerWord] |= static_cast<unsigned>(piece)
                             << i % kPerWord * kBytes * 8;
    }
  }
  return vector;
}

template <RepackSignature kSignature, RepackConfig kConfig>
void repack(const RepackParams &params) {
  static_assert(kConfig.isValid(kSignature), "the config does not fit");
  allowSuccessor();
  awaitPredecessor();
  long long vectors = params.targetPitch / 16; // a row
  long long all = params.rows * vectors;
  for (long long i =
           blockIdx.x * static_cast<long long>(kConfig.threads()) + threadIdx.x;
       i < all; i += static_cast<long long>(gridDim.x) * kConfig.threads()) {
    long long row = i / vectors, byte = i % vectors * 16;
    long long batch = row / params.rowsPerBatch;
    const char *source =
        static_cast<const char *>(params.source) + batch * params.sourceStride +
        (row - batch * params.rowsPerBatch) * params.sourcePitch + byte;
    *reinterpret_cast<uint4 *>(static_cast<char *>(params.target) +
                               row * params.targetPitch + byte) =
        vectorOfPieces<kSignature.elementBytes>(source, params.rowBytes - byte);
  }
}

/// Turns four rows of four bytes into their columns.
inline void transposeSquare(unsigned (&words)[4]) {
  const unsigned low01 = __byte_perm(words[0], words[1], 0x5140);
  const unsigned high01 = __byte_perm(words[0], words[1], 0x7362);
  const unsigned low23 = __byte_perm(words[2], words[3], 0x5140);
  const unsigned high23 = __byte_perm(words[2], words[3], 0x7362);
  words[0] = __byte_perm(low01, low23, 0x5410);
  words[1] = __byte_perm(low01, low23, 0x7632);
  words[2] = __byte_perm(high01, high23, 0x5410);
  words[3] = __byte_perm(high01, high23, 0x7632);
}

/// Transposes a tile of bytes: \p rows x \p cols at \p from become columns at
/// \p to.
template <RepackConfig kConfig>
void transposeBytes(const char *from, long long rows, long long cols,
                    long long sourcePitch, char *to, long long targetPitch) {
  constexpr int kTile = RepackConfig::tile({1}), kWords = kTile / 4;
  constexpr int kWarps = kConfig.threads() / 32;
  static_assert(kWords == 32, "a lane has a word of each row");
  // Word w of column c, four rows of it, is stored at w ^ c / 4: neither the
  // writing nor the reading lanes have a bank in common.
  __shared__ unsigned tile[kTile][kWords];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned squares[kWords / kWarps][4];
#pragma unroll
  for (int j = 0; j < kWords / kWarps; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const long long row = 4 * (warp + j * kWarps) + i, col = 4 * lane;
      squares[j][i] =
          row < rows && col < cols
              ? wordOfBytes(from + row * sourcePitch + col, cols - col)
              : 0;
    }
#pragma unroll
  for (int j = 0; j < kWords / kWarps; ++j) {
    transposeSquare(squares[j]);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      tile[4 * lane + i][(warp + j * kWarps) ^ lane] = squares[j][i];
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kTile / kWarps; ++j) {
    const int col = warp + j * kWarps;
    // Rows of the target have room for whole words.
    if (col < cols && 4 * lane < rows)
      *reinterpret_cast<unsigned *>(to + col * targetPitch + 4 * lane) =
          tile[col][lane ^ (col / 4)];
  }
  __syncthreads();
}

/// Transposes a tile of wider elements.
template <class Piece, RepackConfig kConfig>
void transposePieces(const char *from, long long rows, long long cols,
                     long long sourcePitch, char *to, long long targetPitch) {
  constexpr int kBytes = sizeof(Piece), kTile = RepackConfig::tile({kBytes});
  constexpr int kRowsAtOnce = kConfig.threads() / kTile;
  constexpr int kEach = kTile / kRowsAtOnce; // elements of a thread
  // (row, column) of the source, without bank conflicts in either direction.
  __shared__ Piece tile[kTile][kTile + 4 / kBytes];
  const int lane = threadIdx.x % kTile, first = threadIdx.x / kTile;
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int row = first + j * kRowsAtOnce;
    if (row < rows && lane < cols)
      tile[row][lane] = *reinterpret_cast<const Piece *>(
          from + row * sourcePitch + lane * kBytes);
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int col = first + j * kRowsAtOnce;
    if (lane < rows && col < cols)
      *reinterpret_cast<Piece *>(to + col * targetPitch + lane * kBytes) =
          tile[lane][col];
  }
  __syncthreads();
}

/// Copies the transposes of the matrices of a batch.
template <RepackSignature kSignature, RepackConfig kConfig>
void repackTransposed(const RepackParams &params) {
  static_assert(kConfig.isValid(kSignature), "the config does not fit");
  allowSuccessor();
  awaitPredecessor();
  constexpr int kBytes = kSignature.elementBytes;
  constexpr int kTile = RepackConfig::tile(kSignature);
  const long long rows = params.rowsPerBatch, cols = params.rowBytes / kBytes;
  const long long down = RepackConfig::tiles(kSignature, rows);
  const long long across = RepackConfig::tiles(kSignature, cols);
  const long long all = params.rows / rows * down * across;
  for (long long i = blockIdx.x; i < all; i += gridDim.x) {
    const long long batch = i / (down * across), within = i % (down * across);
    const long long row = within / across * kTile,
                    col = within % across * kTile;
    const char *from = static_cast<const char *>(params.source) +
                       batch * params.sourceStride + row * params.sourcePitch +
                       col * kBytes;
    char *to = static_cast<char *>(params.target) +
               (batch * cols + col) * params.targetPitch + row * kBytes;
    if constexpr (kBytes == 1)
      transposeBytes<kConfig>(from, rows - row, cols - col, params.sourcePitch,
                              to, params.targetPitch);
    else
      transposePieces<RepackPiece<kBytes>, kConfig>(
          from, rows - row, cols - col, params.sourcePitch, to,
          params.targetPitch);
  }
}

} // namespace kiln
