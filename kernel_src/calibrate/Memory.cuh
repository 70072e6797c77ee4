//===- calibrate/Memory.cuh - bandwidths and latencies --------------------===//
//
// Kernels that move memory in large pieces, and a chase along a chain of
// pointers, whose loads wait for each other: the time of a step is the latency
// of a load.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "calibrate/CalibrateParams.h"
#include "common/PtxRates.cuh"

namespace kiln::calibrate {

inline Span beginSpan() {
  Span span;
  span.beginNs = ptx::readGlobalTimer();
  span.beginClock = ptx::readClock();
  return span;
}
inline void endSpan(Span &span) {
  span.endClock = ptx::readClock();
  span.endNs = ptx::readGlobalTimer();
}

/// Stores \p value where the compiler cannot know that it never does.
inline void sinkChunk(uint4 value, void *to) {
  if (value.x == 0x9e3779b9u && value.y == 0x7f4a7c15u &&
      value.z == 0xbf58476du && value.w == 0x1ce4e5b9u)
    ptx::stGlobal128(to, value);
}

inline void nothing(const RateParams &) {}

enum class Access { Read, Write, Copy };

/// 16 bytes that look random: memory may treat zeros in ways of its own.
inline uint4 mixedBits(long long index) {
  const unsigned bits = static_cast<unsigned>(index) * 2654435761u;
  return {bits, bits ^ 0x9e3779b9u, bits + 0x7f4a7c15u, ~bits};
}

/// The accesses in flight of this thread at \p first.
template <Access kAccess>
void moveChunks(const void *from, void *to, long long first, uint4 &mixed) {
  uint4 data[kChunksInFlight] = {};
  const long long threads = blockDim.x;
#pragma unroll
  for (int i = 0; i < kChunksInFlight; ++i)
    if constexpr (kAccess != Access::Write)
      data[i] = ptx::ldGlobalNoAllocate128(static_cast<const uint4 *>(from) +
                                           first + i * threads);
#pragma unroll
  for (int i = 0; i < kChunksInFlight; ++i)
    if constexpr (kAccess == Access::Read) {
      mixed.x ^= data[i].x;
      mixed.y ^= data[i].y;
      mixed.z ^= data[i].z;
      mixed.w ^= data[i].w;
    } else {
      if constexpr (kAccess == Access::Write)
        data[i] = mixedBits(first + i * threads);
      ptx::stGlobalStreaming128(static_cast<uint4 *>(to) + first + i * threads,
                                data[i]);
    }
}

template <Access kAccess> void passChunks(const PassParams &params) {
  const long long piece = static_cast<long long>(blockDim.x) * kChunksInFlight;
  uint4 mixed = {};
  Span span = beginSpan();
  for (int pass = 0; pass < params.passes; ++pass) {
    const long long place = (blockIdx.x + pass) % gridDim.x;
    for (long long begin = place * piece; begin < params.chunks;
         begin += gridDim.x * piece)
      moveChunks<kAccess>(params.from, params.to, begin + threadIdx.x, mixed);
  }
  endSpan(span);
  if (threadIdx.x == 0)
    params.spans[blockIdx.x] = span;
  if constexpr (kAccess == Access::Read)
    sinkChunk(mixed, params.to);
}

/// Node i points at node a i + c modulo the count: with c odd and a - 1 a
/// multiple of 4 that comes to all nodes (Hull and Dobell, 1962).
inline void makeChain(const ChainParams &params) {
  constexpr unsigned long long kFactor = 1664525, kOffset = 1013904223;
  char *nodes = static_cast<char *>(params.nodes);
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i =
           static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < params.count; i += step) {
    const unsigned long long next =
        (i * kFactor + kOffset) & (params.count - 1);
    *reinterpret_cast<unsigned long long *>(nodes + i * kNodeBytes) =
        reinterpret_cast<unsigned long long>(nodes + next * kNodeBytes);
  }
}

inline void followChain(const ChaseParams &params) {
  unsigned long long node = *params.place;
  Span span = beginSpan();
#pragma unroll 1
  for (long long i = 0; i < params.steps; ++i)
    node = ptx::ldGlobalCg64(reinterpret_cast<const void *>(node));
  endSpan(span);
  *params.place = node;
  params.spans[0] = span;
  __threadfence();
  *static_cast<volatile unsigned *>(params.done) = 1;
}

inline void chase(const ChaseParams &params) {
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0)
      followChain(params);
    return;
  }
  const long long piece = static_cast<long long>(blockDim.x) * kChunksInFlight;
  const long long readers = gridDim.x - 1;
  uint4 mixed = {};
  long long begin = (blockIdx.x - 1) * piece;
  while (*static_cast<volatile unsigned *>(params.done) == 0) {
    moveChunks<Access::Read>(params.load, nullptr, begin + threadIdx.x, mixed);
    begin += readers * piece;
    if (begin >= params.loadChunks)
      begin = (blockIdx.x - 1) * piece;
  }
  sinkChunk(mixed, params.done);
}

} // namespace kiln::calibrate
