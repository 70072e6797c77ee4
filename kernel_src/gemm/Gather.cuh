//===- gemm/Gather.cuh - rows of A copied to the order of a product -------===//
//
// A product whose rows of A are permuted or repeated, as in MoE, reads a copy
// in its own order: TMA on Hopper does not gather rows, and tokens are few
// compared with weights. Scales of rows are copied with them.
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

public:
  static void run(const GatherParams &params) {
    if (params.letsNextBegin)
      allowSuccessor();
    awaitPredecessor();
    const bool isAligned =
        ((reinterpret_cast<unsigned long long>(params.source) |
          static_cast<unsigned long long>(params.sourcePitch)) &
         15) == 0;
    // A warp copies a chunk of a row at a time. The number of chunks fits 32
    // bits: a copy with more would be 8 TiB large.
    constexpr int kChunk = GatherConfig::kChunkBytes, kLanes = 32, kVector = 16;
    constexpr int kVectors = kChunk / (kLanes * kVector);
    const unsigned chunks = static_cast<unsigned>(
        GatherConfig::chunksOf(params.targetPitch)); // of a row
    const unsigned warp =
        (blockIdx.x * kConfig.threads() + threadIdx.x) / kLanes;
    const unsigned warps = gridDim.x * (kConfig.threads() / kLanes);
    for (long long i = warp; i < params.rows * chunks; i += warps) {
      const unsigned row = static_cast<unsigned>(i) / chunks;
      const long long begin =
          static_cast<long long>(static_cast<unsigned>(i) - row * chunks) *
              kChunk +
          threadIdx.x % kLanes * kVector;
      const long long from = sourceRow(params, row);
      const char *source =
          static_cast<const char *>(params.source) + from * params.sourcePitch;
      uint4 vectors[kVectors] = {};
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const long long byte = begin + v * kLanes * kVector;
        if (from >= 0 && byte < params.rowBytes)
          vectors[v] = isAligned && byte + kVector <= params.rowBytes
                           ? *reinterpret_cast<const uint4 *>(source + byte)
                           : vectorOfPieces<kBytes>(source + byte,
                                                    params.rowBytes - byte);
      }
      char *target = static_cast<char *>(params.target) +
                     static_cast<long long>(row) * params.targetPitch;
#pragma unroll
      for (int v = 0; v < kVectors; ++v)
        if (const long long byte = begin + v * kLanes * kVector;
            byte < params.targetPitch)
          *reinterpret_cast<uint4 *>(target + byte) = vectors[v];
    }
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
    return number >= 0 && number < params.numbers ? number / params.divisor
                                                  : -1;
  }
};

template <GatherSignature kSignature, GatherConfig kConfig>
void gatherRows(const GatherParams &params) {
  Gather<kSignature, kConfig>::run(params);
}

} // namespace kiln
