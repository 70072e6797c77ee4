//===- gemm/Repack.cuh - rows copied to where TMA can read them -----------===//
//
// TMA wants rows that begin at multiples of 16 bytes. An operand whose rows do
// not is copied once, before the product, to rows that do: 2 bytes moved for
// each byte, where loads of 2 bytes inside the product would cost many times
// that. A thread writes 16 bytes; the loads of its pieces fall into lines that
// its warp has in L1 after the first.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"
#include "gemm/RepackConfig.h"

namespace kiln {

template <RepackSignature kSignature, RepackConfig kConfig>
void repack(const RepackParams &params) {
  static_assert(kConfig.isValid(kSignature), "the config does not fit");
  constexpr int kPieces = 16 / RepackConfig::kPieceBytes;
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
    unsigned short pieces[kPieces];
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      int at = piece * RepackConfig::kPieceBytes;
      pieces[piece] = 0;
      if (byte + at < params.rowBytes)
        pieces[piece] = *reinterpret_cast<const unsigned short *>(source + at);
    }
    uint4 vector;
    unsigned *words = &vector.x;
#pragma unroll
    for (int word = 0; word < 4; ++word)
      words[word] =
          pieces[2 * word] | static_cast<unsigned>(pieces[2 * word + 1]) << 16;
    *reinterpret_cast<uint4 *>(static_cast<char *>(params.target) +
                               row * params.targetPitch + byte) = vector;
  }
}

} // namespace kiln
