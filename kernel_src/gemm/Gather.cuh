//===- gemm/Gather.cuh - rows of A copied to the order of a product -------===//
//
// A product whose rows of A are permuted or repeated, as in MoE, reads a copy
// in its own order: TMA on Hopper does not gather rows, and tokens are few
// compared with weights. Scales of rows are copied with them.
//
// The index of a row that is in no group may be anything, and the source may
// lack the row that it names, so such rows are left out. With local experts or
// padded groups most rows are such.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Dependent.cuh"
#include "common/Types.h"
#include "common/Warp.cuh"
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
      if (!isOfGroup(params, row))
        continue;
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
      if constexpr (kSignature.hasScales)
        if (static_cast<unsigned>(i) == row * chunks)
          copyScales(params, row, from);
      char *target = static_cast<char *>(params.target) +
                     static_cast<long long>(row) * params.targetPitch;
#pragma unroll
      for (int v = 0; v < kVectors; ++v)
        if (const long long byte = begin + v * kLanes * kVector;
            byte < params.targetPitch)
          *reinterpret_cast<uint4 *>(target + byte) = vectors[v];
    }
  }

private:
  static long long sourceRow(const GatherParams &params, unsigned row) {
    const int number = params.groups.index[row];
    return number >= 0 && number < params.groups.all
               ? number / params.groups.divisor
               : -1;
  }

  /// Whether \p row is in a group, if ends do not fall. All lanes call it with
  /// the same row. Its loads do not depend on each other.
  static bool isOfGroup(const GatherParams &params, unsigned row) {
    const int *ends = params.groups.sizes;
    const int at = params.groups.first + static_cast<int>(row);
    if (at >= ends[params.groupCount - 1])
      return false;
    const auto align = static_cast<unsigned>(params.groups.align);
    if (align == 1)
      return true;
    // The row's group begins behind the greatest end that is not behind it.
    int before = 0;
    for (int group = threadIdx.x % 32; group < params.groupCount; group += 32)
      if (const int end = ends[group]; end <= at)
        before = max(before, end);
    const unsigned end = greatestOfWarp(static_cast<unsigned>(before));
    return static_cast<unsigned>(at) >= (end + align - 1) / align * align;
  }

  static void copyScales(const GatherParams &params, unsigned row,
                         long long from) {
    float *target = params.targetScales + row * params.depths;
    for (long long depth = threadIdx.x % 32; depth < params.depths; depth += 32)
      target[depth] =
          from < 0 ? 0.0f
                   : params.scales.data[from * params.scales.rowStride +
                                        depth * params.scales.depthStride];
  }
};

template <GatherSignature kSignature, GatherConfig kConfig>
void gatherRows(const GatherParams &params) {
  Gather<kSignature, kConfig>::run(params);
}

} // namespace kiln
