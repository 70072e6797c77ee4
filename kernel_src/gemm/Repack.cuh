//===- gemm/Repack.cuh - operands copied to where TMA can read them -------===//
//
// TMA wants rows that begin at multiples of 16 bytes. An operand whose rows do
// not is copied once, before the product, to rows that do: 2 bytes moved for
// each byte, where loads of 2 bytes inside the product would cost many times
// that. A thread writes 16 bytes; the loads of its pieces fall into lines that
// its warp has in L1 after the first.
//
// wgmma wants tf32 operands along k. One that lies along its other extent is
// transposed by such a copy, tile by tile through shared memory; each thread
// has the loads of all its elements of a tile in flight at once.
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

template <RepackSignature kSignature, RepackConfig kConfig>
void repack(const RepackParams &params) {
  static_assert(kConfig.isValid(kSignature), "the config does not fit");
  allowSuccessor();
  awaitPredecessor();
  constexpr int kBytes = kSignature.elementBytes, kPieces = 16 / kBytes;
  using Piece = RepackPiece<kBytes>;
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
    Piece pieces[kPieces];
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      int at = piece * kBytes;
      pieces[piece] = 0;
      if (byte + at < params.rowBytes)
        pieces[piece] = *reinterpret_cast<const Piece *>(source + at);
    }
    uint4 vector = {};
    unsigned *words = &vector.x;
    constexpr int kPerWord = 4 / kBytes;
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece)
      words[piece / kPerWord] |= static_cast<unsigned>(pieces[piece])
                                 << piece % kPerWord * kBytes * 8;
    *reinterpret_cast<uint4 *>(static_cast<char *>(params.target) +
                               row * params.targetPitch + byte) = vector;
  }
}

/// Copies the transposes of the matrices of a batch.
template <RepackSignature kSignature, RepackConfig kConfig>
void repackTransposed(const RepackParams &params) {
  static_assert(kConfig.isValid(kSignature), "the config does not fit");
  allowSuccessor();
  awaitPredecessor();
  constexpr int kBytes = kSignature.elementBytes, kTile = RepackConfig::kTile;
  constexpr int kRowsAtOnce = kConfig.threads() / kTile;
  constexpr int kEach = kTile / kRowsAtOnce; // elements of a thread
  using Piece = RepackPiece<kBytes>;
  // (row, column) of the source, without bank conflicts either way.
  __shared__ Piece tile[kTile][kTile + 4 / kBytes];
  const char *source = static_cast<const char *>(params.source);
  char *target = static_cast<char *>(params.target);
  long long rows = params.rowsPerBatch, cols = params.rowBytes / kBytes;
  long long down = RepackConfig::tiles(rows);
  long long across = RepackConfig::tiles(cols);
  long long all = params.rows / rows * down * across;
  int lane = threadIdx.x % kTile, first = threadIdx.x / kTile;
  for (long long i = blockIdx.x; i < all; i += gridDim.x) {
    long long batch = i / (down * across), within = i % (down * across);
    long long row = within / across * kTile, col = within % across * kTile;
    const char *from = source + batch * params.sourceStride;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      long long r = row + first + j * kRowsAtOnce, c = col + lane;
      if (r < rows && c < cols)
        tile[first + j * kRowsAtOnce][lane] = *reinterpret_cast<const Piece *>(
            from + r * params.sourcePitch + c * kBytes);
    }
    __syncthreads();
    char *to = target + batch * cols * params.targetPitch;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      long long c = col + first + j * kRowsAtOnce, r = row + lane;
      if (r < rows && c < cols)
        *reinterpret_cast<Piece *>(to + c * params.targetPitch + r * kBytes) =
            tile[lane][first + j * kRowsAtOnce];
    }
    __syncthreads();
  }
}

} // namespace kiln
