//===- trial/StreamTools.cuh - the copy baseline --------------------------===//
//
// The copy baseline: it reads a buffer once and writes another once, 16 bytes
// an access. A block takes pieces of `unroll` steps a thread; a grid with fewer
// blocks than pieces strides over them. The written words are those read, mixed
// by exclusive or, so that every load is needed.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"
#include "trial/StreamTools.h"

namespace kiln::trial {

template <StreamConfig kConfig> class Stream {
  static_assert(kConfig.isValid(), "too many loads are in flight at once");

  static constexpr int kReads = kConfig.mix.reads;
  static constexpr int kWrites = kConfig.mix.writes;
  static constexpr int kUnroll = kConfig.unroll;

public:
  static void run(const StreamParams &params) {
    const long long piece = static_cast<long long>(blockDim.x) * kUnroll;
    uint4 rest = {};
    for (long long begin = blockIdx.x * piece; begin < params.steps;
         begin += gridDim.x * piece) {
      if (begin + piece <= params.wholeSteps)
        move<true>(params, begin + threadIdx.x, rest);
      else
        move<false>(params, begin + threadIdx.x, rest);
    }
    finish(params, rest);
  }

private:
  static uint4 load(const uint4 *pointer) {
    if constexpr (kConfig.hint == CacheHint::Streaming)
      return ptx::ldGlobalNoAllocate128(pointer);
    else
      return *pointer;
  }

  static void store(uint4 *pointer, uint4 value) {
    if constexpr (kConfig.hint == CacheHint::Streaming)
      ptx::stGlobalStreaming128(pointer, value);
    else
      *pointer = value;
  }

  static void mix(uint4 &into, uint4 value) {
    into.x ^= value.x;
    into.y ^= value.y;
    into.z ^= value.z;
    into.w ^= value.w;
  }

  /// Whether step \p step has an access in region \p region.
  static bool isInside(long long step, int region, long long pitch,
                       long long chunks) {
    return step < pitch && region * pitch + step < chunks;
  }

  /// This thread's steps of a piece: all loads, then all stores. Loads that may
  /// have no store are mixed into \p rest.
  template <bool kWhole>
  static void move(const StreamParams &params, long long first, uint4 &rest) {
    const auto *from = static_cast<const uint4 *>(params.read);
    auto *to = static_cast<uint4 *>(params.write);
    uint4 data[kUnroll][kReads] = {};
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const long long step = first + u * blockDim.x;
#pragma unroll
      for (int r = 0; r < kReads; ++r)
        if (kWhole || isInside(step, r, params.readPitch, params.readChunks))
          data[u][r] = load(from + r * params.readPitch + step);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const long long step = first + u * blockDim.x;
#pragma unroll
      for (int w = 0; w < kWrites; ++w) {
        uint4 value = data[u][w % kReads];
#pragma unroll
        for (int r = w + kWrites; r < kReads; r += kWrites)
          mix(value, data[u][r]);
        if (kWhole || isInside(step, w, params.writePitch, params.writeChunks))
          store(to + w * params.writePitch + step, value);
      }
      if constexpr (!kWhole || kWrites == 0)
#pragma unroll
        for (int r = 0; r < kReads; ++r)
          mix(rest, data[u][r]);
    }
  }

  static void finish(const StreamParams &params, uint4 rest) {
    auto *to = static_cast<uint4 *>(params.write);
    if constexpr (kWrites == 0)
      for (long long i =
               static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
           i < params.writeChunks;
           i += static_cast<long long>(gridDim.x) * blockDim.x)
        store(to + i, rest);
    // The condition is almost never true, but the compiler cannot know that,
    // and so keeps the loads.
    if (rest.x == 0x9e3779b9u && rest.y == 0x7f4a7c15u &&
        rest.z == 0xbf58476du && rest.w == 0x1ce4e5b9u)
      store(to, rest);
  }
};

} // namespace kiln::trial
