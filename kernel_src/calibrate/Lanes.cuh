//===- calibrate/Lanes.cuh - rates of plain instructions and mma.sync -----===//
//
// Warps of one block run an instruction on several independent values each, as
// often as they can. A round is long enough for the loop not to count, and
// short enough for the instruction cache.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "calibrate/Memory.cuh"
#include "common/MmaBytes.cuh"
#include "common/PtxRates.cuh"

namespace kiln::calibrate {

struct Fma32 {
  using Value = float;
  static void run(float &x) { ptx::fmaF32(x, 0.5f, 1.0f); }
};
struct Fma64 {
  using Value = double;
  static void run(double &x) { ptx::fmaF64(x, 0.5, 1.0); }
};
struct FmaPair {
  using Value = unsigned;
  static void run(unsigned &x) { ptx::fmaPairF16(x, 0x38003800u, 0x3c003c00u); }
};
struct Mad32 {
  using Value = unsigned;
  static void run(unsigned &x) { ptx::madLo(x, x, 0x3c003c01u); }
};
struct Exponential {
  using Value = float;
  static void run(float &x) { ptx::ex2(x); }
};

/// Leaves the time of this warp, behind a barrier of all.
inline void leaveSpan(const RateParams &params, const Span &span) {
  const int warps = blockDim.x / 32;
  if (threadIdx.x % 32 == 0)
    params.spans[blockIdx.x * warps + threadIdx.x / 32] = span;
}

/// Stores where the compiler cannot know that it never does.
template <class Params, class Sum> void sink(const Params &params, Sum sum) {
  if (sum == static_cast<Sum>(123456789))
    *params.sink = 1;
}

template <class Instruction> void runLanes(const RateParams &params) {
  using Value = typename Instruction::Value;
  Value values[kLaneValues];
#pragma unroll
  for (int i = 0; i < kLaneValues; ++i)
    values[i] = static_cast<Value>(threadIdx.x + i);
  __syncthreads();
  Span span = beginSpan();
#pragma unroll 1
  for (int round = 0; round < params.rounds; ++round)
#pragma unroll
    for (int i = 0; i < kLaneUnroll; ++i)
      Instruction::run(values[i % kLaneValues]);
  ptx::pin(values);
  endSpan(span);
  leaveSpan(params, span);
  Value all = 0;
#pragma unroll
  for (int i = 0; i < kLaneValues; ++i)
    all += values[i];
  sink(params, all);
}

/// The start of a kernel that computes: its first operands come from memory,
/// and reach all threads of a block.
inline void start(const StartParams &params) {
  __shared__ float words[kStartThreads];
  const unsigned long long place =
      (static_cast<unsigned long long>(ptx::readGlobalTimer()) * 2654435761u +
       blockIdx.x * 97ull) %
      static_cast<unsigned long long>(params.chunks / kStartThreads);
  const auto *from = static_cast<const uint4 *>(params.from);
  const uint4 loaded =
      ptx::ldGlobalNoAllocate128(from + place * kStartThreads + threadIdx.x);
  words[threadIdx.x] = static_cast<float>(loaded.x ^ loaded.w);
  __syncthreads();
  float values[kLaneValues];
#pragma unroll
  for (int i = 0; i < kLaneValues; ++i)
    values[i] = words[(threadIdx.x + i) % kStartThreads];
#pragma unroll 1
  for (int round = 0; round < params.rounds; ++round)
#pragma unroll
    for (int i = 0; i < kLaneUnroll; ++i)
      ptx::fmaF32(values[i % kLaneValues], 0.5f, 1.0f);
  float all = 0;
#pragma unroll
  for (int i = 0; i < kLaneValues; ++i)
    all += values[i];
  sink(params, all);
}

/// Reads of 16 bytes a thread without bank conflicts.
inline void runShared(const RateParams &params) {
  __shared__ uint4 words[kLaneWarps * 32];
  words[threadIdx.x] = {threadIdx.x, 0, 0, 0};
  __syncthreads();
  const unsigned address = ptx::sharedAddress(words + threadIdx.x);
  unsigned all = 0;
  Span span = beginSpan();
#pragma unroll 1
  for (int round = 0; round < params.rounds; ++round)
#pragma unroll
    for (int i = 0; i < kSharedUnroll; ++i)
      all ^= ptx::ldSharedVolatile128(address).x;
  ptx::opaque(all);
  endSpan(span);
  leaveSpan(params, span);
  sink(params, all);
}

/// Reads the clock `rounds` times, and leaves the longest time between two
/// readings as a span. Where contexts take turns on the device, that is the
/// turn of another one: clocks go on, or the thread comes back to another SM.
inline void watchClock(const RateParams &params) {
  if (threadIdx.x != 0)
    return;
  long long last = ptx::readClock(), longest = 0;
#pragma unroll 1
  for (int round = 0; round < params.rounds; ++round) {
    const long long now = ptx::readClock();
    const long long passed = now > last ? now - last : last - now;
    longest = passed > longest ? passed : longest;
    last = now;
  }
  params.spans[blockIdx.x] = {0, longest, 0, 0};
}

//===----------------------------------------------------------------------===//
// mma.sync
//===----------------------------------------------------------------------===//

struct MmaFp16 {
  static void run(float (&d)[4], const unsigned (&a)[4]) {
    ptx::mmaFp16(d, a, a[0], a[1]);
  }
};
struct MmaBf16 {
  static void run(float (&d)[4], const unsigned (&a)[4]) {
    ptx::mmaBf16(d, a, a[0], a[1]);
  }
};
struct MmaTf32 {
  static void run(float (&d)[4], const unsigned (&a)[4]) {
    ptx::mmaTf32(d, a, a[0], a[1]);
  }
};
struct MmaFp8 {
  static void run(float (&d)[4], const unsigned (&a)[4]) {
    ptx::mmaE4m3(d, a, a[0], a[1]);
  }
};
struct MmaInt8 {
  static void run(int (&d)[4], const unsigned (&a)[4]) {
    ptx::mmaS8(d, a, a[0], a[1]);
  }
};
struct MmaFp64 {
  static void run(double (&d)[2], const double (&a)[8]) {
    ptx::mmaF64(d, a[0], a[1]);
  }
};
struct MmaFp64Wide {
  static void run(double (&d)[4], const double (&a)[8]) {
    const double b[4] = {a[0], a[1], a[2], a[3]};
    ptx::mmaF64Wide(d, a, b);
  }
};

/// Bits that look random, of small numbers of either sign in 16-bit types.
inline unsigned randomPair(unsigned seed) {
  unsigned bits = seed * 2654435761u ^ 0x9e3779b9u;
  bits ^= bits >> 15;
  bits *= 0x85ebca6bu;
  bits ^= bits >> 13;
  return (bits & 0x83ff83ffu) | 0x3c003c00u;
}

template <class Mma, class Sum, int kSums, class Element, int kElements>
void runMma(const RateParams &params) {
  Sum sums[kMmaChains][kSums] = {};
  Element rows[kElements];
#pragma unroll
  for (int i = 0; i < kElements; ++i)
    rows[i] = static_cast<Element>(randomPair(threadIdx.x * kElements + i));
  __syncthreads();
  Span span = beginSpan();
#pragma unroll 1
  for (int round = 0; round < params.rounds; ++round)
#pragma unroll
    for (int i = 0; i < kMmaUnroll; ++i)
      Mma::run(sums[i % kMmaChains], rows);
#pragma unroll
  for (int i = 0; i < kMmaChains; ++i)
    ptx::pin(sums[i]);
  endSpan(span);
  leaveSpan(params, span);
  Sum all = 0;
#pragma unroll
  for (int i = 0; i < kMmaChains * kSums; ++i)
    all += sums[i / kSums][i % kSums];
  sink(params, all);
}

} // namespace kiln::calibrate
