//===- gemm/Gather.cuh - rows of A copied to where a product reads them ---===//
//
// A product whose rows of A are in another order, or several of them the same
// one, reads a copy in its own order: no TMA of Hopper gathers rows, and tokens
// are few beside the weights that they meet. Scales of rows go with them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Dependent.cuh"
#include "common/Types.h"
#include "gemm/GatherConfig.h"
#include "gemm/Repack.cuh"

namespace kiln {

template <GatherSignature kSignature, GatherConfig kConfig> class Gather {
  static_assert(kConfig.isValid(kSignature), "the config does not fit");

  static constexpr int kBytes = kSignature.elementBytes;
  static constexpr int kPieces = 16 / kBytes;
  using Piece = RepackPiece<kBytes>;

public:
  static void run(const GatherParams &params) {
    allowSuccessor();
    awaitPredecessor();
    const long long vectors = params.targetPitch / 16; // a row
    const bool isAligned =
        ((reinterpret_cast<unsigned long long>(params.source) |
          static_cast<unsigned long long>(params.sourcePitch)) &
         15) == 0;
    forEach(params.rows * vectors, [&](long long i) {
      long long row = i / vectors, byte = (i - row * vectors) * 16;
      long long from = sourceRow(params, row);
      uint4 vector = {};
      if (from >= 0) {
        const char *source = static_cast<const char *>(params.source) +
                             from * params.sourcePitch + byte;
        vector = isAligned && byte + 16 <= params.rowBytes
                     ? *reinterpret_cast<const uint4 *>(source)
                     : piecewise(source, params.rowBytes - byte);
      }
      *reinterpret_cast<uint4 *>(static_cast<char *>(params.target) +
                                 row * params.targetPitch + byte) = vector;
    });
    if constexpr (kSignature.hasScales)
      forEach(params.rows * params.depths, [&](long long i) {
        long long row = i / params.depths, depth = i - row * params.depths;
        long long from = sourceRow(params, row);
        params.targetScales[i] =
            from < 0 ? 0.0f
                     : params.scales.data[from * params.scales.rowStride +
                                          depth * params.scales.depthStride];
      });
  }

private:
  /// Calls body(i) for this thread's share of [0, count).
  template <class Body> static void forEach(long long count, Body body) {
    constexpr long long kThreads = kConfig.threads();
    for (long long i = blockIdx.x * kThreads + threadIdx.x; i < count;
         i += gridDim.x * kThreads)
      body(i);
  }

  static long long sourceRow(const GatherParams &params, long long row) {
    int number = params.index[row];
    return number >= 0 && number < params.rows ? number / params.divisor : -1;
  }

  /// The vector at \p source, of which \p left bytes exist.
  static uint4 piecewise(const char *source, long long left) {
    uint4 vector = {};
    unsigned *words = &vector.x;
    constexpr int kPerWord = 4 / kBytes;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      Piece piece = 0;
      if (i * kBytes < left)
        piece = *reinterpret_cast<const Piece *>(source + i * kBytes);
      words[i / kPerWord] |= static_cast<unsigned>(piece)
                             << i % kPerWord * kBytes * 8;
    }
    return vector;
  }
};

template <GatherSignature kSignature, GatherConfig kConfig>
void gatherRows(const GatherParams &params) {
  Gather<kSignature, kConfig>::run(params);
}

} // namespace kiln
