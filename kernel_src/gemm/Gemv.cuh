//===- gemm/Gemv.cuh - a matrix past a few vectors, on plain FMA ----------===//
//
// Problem: with one to eight vectors the time is that of reading the matrix,
// and memory delivers its bandwidth only while some 64 KB an SM are in flight.
// Registers are the largest and nearest place to receive them: each lane asks
// for rowsPerWarp * unroll vectors of 16 bytes before it uses the first.
// Neighbouring lanes read neighbouring vectors of a row. The small operand
// comes from L1, where all warps of an SM find it.
//
// k goes round the block's warpsK splits chunk by chunk, 512 bytes each; the
// lanes' sums meet by shuffles, those of the splits in shared memory, all in a
// fixed order.
//
// Rejected: the small operand in shared memory (a barrier before the first
// use), atomics on D (no fixed order).
//
// Limits: sm_80 and up; rows of both operands aligned to 16 bytes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "gemm/GemvConfig.h"
#include "gemm/StreamedRows.cuh"

namespace kiln {

template <GemmSignature kSignature, GemvConfig kConfig> class Gemv {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");
  static_assert(__CUDA_ARCH__ >= 800, "cache policies need sm_80");

  static constexpr bool kStreamsA = kConfig.streamsA != 0;
  static constexpr int kRows = kConfig.rowsPerWarp;
  static constexpr int kVectors = kConfig.vectors;
  static constexpr int kUnroll = kConfig.unroll;
  static constexpr int kWarpsK = kConfig.warpsK;
  static constexpr int kBytes = bytesOf(kSignature.in);
  static constexpr int kLaneElements = 16 / kBytes;
  static constexpr int kChunkBytes = 32 * 16;
  static constexpr int kRoundK = kConfig.roundK(kSignature.in);
  /// As many vectors of the small operand come with the loads of a round;
  /// beyond that the registers serve the matrix better.
  static constexpr bool kEarlyVectors = kVectors * kUnroll <= 8;

  static constexpr StagedSums kStaged = {
      kStreamsA, kConfig.rowsPerBlock(), kVectors,
      kStreamsA ? kVectors : kConfig.rowsPerBlock(), kConfig.threads()};

  using Vector = Words<16>;
  using Sums = float[kRows * kVectors];

public:
  static void run(const GemmParams &params) {
    extern __shared__ __align__(16) float shared[];
    allowSuccessor();
    StreamWork work = streamWork(params, kConfig, 1);
    prefetchSums<kSignature, kStaged>(params, work);
    Sums sums = {};
    Gemv(params, work)
        .multiply(params.k, isStreamedEarly<kStreamsA>(params), sums);
    stage(sums, shared);
    __syncthreads();
    finishSums<kSignature, kStaged>(params, work, shared, kWarpsK);
  }

private:
  static int lane() { return threadIdx.x % 32; }
  static int warpK() { return threadIdx.x / 32 % kWarpsK; }
  /// First of the warp's rows in the block.
  static int warpRow() { return threadIdx.x / 32 / kWarpsK * kRows; }

  /// Points to each row's vector of this lane in its warp's first chunk. What
  /// does not exist is the last row that does: its sums are not stored.
  Gemv(const GemmParams &params, const StreamWork &work) {
    RowsView streamed = streamedRows<kSignature, kStreamsA>(params, work);
    RowsView small = vectorRows<kSignature, kStreamsA>(params, work);
    int offset = warpK() * kChunkBytes + lane() * 16;
#pragma unroll
    for (int i = 0; i < kRows; ++i)
      row[i] = streamed.base + offset +
               min(warpRow() + i, streamed.rowsLeft - 1) * streamed.pitchBytes;
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      vector[i] =
          small.base + offset + min(i, small.rowsLeft - 1) * small.pitchBytes;
    if constexpr (kConfig.evictFirst)
      policy = ptx::createPolicyEvictFirst();
  }

  /// With \p isEarly the first round of the matrix is asked for before the
  /// kernel ahead has ended.
  void multiply(long long k, bool isEarly, Sums &sums) const {
    if (!isEarly)
      awaitPredecessor();
    bool awaits = isEarly; // still
    long long done = 0;
#pragma unroll 1
    for (; done + kRoundK <= k; done += kRoundK)
      multiplyRound<true>(done * kBytes, 0, awaits, sums);
    if (done < k)
      multiplyRound<false>(done * kBytes, static_cast<int>(k - done), awaits,
                           sums);
    if (awaits) // k is 0
      awaitPredecessor();
  }

  /// Adds the products of one round of k, which begins \p begin bytes into the
  /// rows. Without kFull only \p roundLeft elements of it exist. \p awaits:
  /// nobody has waited for the kernel ahead yet.
  template <bool kFull>
  void multiplyRound(long long begin, int roundLeft, bool &awaits,
                     Sums &sums) const {
    int left = roundLeft - (warpK() * 32 + lane()) * kLaneElements;
    Vector early[kVectors][kUnroll], streamed[kRows][kUnroll];
    auto loadEarly = [&] {
      if constexpr (kEarlyVectors) {
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
#pragma unroll
          for (int v = 0; v < kVectors; ++v)
            early[v][u] = loadSmall<kFull>(v, u, begin, left);
      }
    };
    // All loads are issued before the first is used: the compiler keeps the
    // order of those of the matrix. The vectors come first where they may:
    // last, they cost up to 3 % (H100).
    if (!awaits)
      loadEarly();
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        streamed[r][u] = loadStreamed<kFull>(r, u, begin, left);
    if (awaits) {
      awaitPredecessor();
      loadEarly();
      awaits = false;
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      float elements[kRows][kLaneElements];
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        unpack<kFull>(elements[r], streamed[r][u], leftAt(u, left));
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        float factors[kLaneElements];
        if constexpr (kEarlyVectors)
          unpack<kFull>(factors, early[v][u], leftAt(u, left));
        else
          unpack<kFull>(factors, loadSmall<kFull>(v, u, begin, left),
                        leftAt(u, left));
#pragma unroll
        for (int e = 0; e < kLaneElements; ++e)
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
            float &sum = sums[r * kVectors + v];
            sum = fmaf(elements[r][e], factors[e], sum);
          }
      }
    }
  }

  /// Elements that exist from the lane's vector \p u of the round on.
  static int leftAt(int u, int left) {
    return left - u * kWarpsK * 32 * kLaneElements;
  }

  template <bool kFull>
  Vector loadStreamed(int r, int u, long long begin, int left) const {
    const char *from = row[r] + begin + u * kWarpsK * kChunkBytes;
    uint4 value = {};
    if (kFull || leftAt(u, left) > 0) {
      if constexpr (kConfig.evictFirst)
        value = ptx::ldGlobalNoAllocate128(from, policy);
      else
        value = ptx::ldGlobalNoAllocate128(from);
    }
    return {value.x, value.y, value.z, value.w};
  }

  template <bool kFull>
  Vector loadSmall(int v, int u, long long begin, int left) const {
    const char *from = vector[v] + begin + u * kWarpsK * kChunkBytes;
    Vector value = {};
    if (kFull || leftAt(u, left) > 0)
      value = loadWords<16>(from);
    return value;
  }

  /// fp32 of a vector; of the last one of a row only \p left elements are its
  /// own, the others may be anything and become 0.
  template <bool kFull>
  static void unpack(float (&out)[kLaneElements], const Vector &vector,
                     int left) {
    unpackFloats<kSignature.in>(out, vector);
    if constexpr (!kFull)
#pragma unroll
      for (int e = 0; e < kLaneElements; ++e)
        out[e] = e < left ? out[e] : 0.0f;
  }

  /// Adds up the lanes' sums and writes them as they lie in D.
  static void stage(Sums &sums, float *shared) {
    constexpr int kCount = kRows * kVectors;
    constexpr int kLanesPerSum = 32 / kCount;
    halveSums<kCount / 2, 16>(sums);
#pragma unroll
    for (int mask = kLanesPerSum / 2; mask > 0; mask /= 2)
      sums[0] += __shfl_xor_sync(0xffffffffu, sums[0], mask);
    // The lane's number chose the halves: its upper bits are the sum's index.
    int index = lane() / kLanesPerSum;
    if (lane() % kLanesPerSum == 0)
      shared[warpK() * kStaged.floats() +
             kStaged.offset(warpRow() + index / kVectors, index % kVectors)] =
          sums[0];
  }

  /// Of 2 * kHalf sums the lane gives half to the lane of the other value of
  /// kMask and takes that one's other half, and so on until it has one.
  template <int kHalf, int kMask> static void halveSums(Sums &sums) {
    if constexpr (kHalf > 0) {
      bool upper = lane() & kMask;
#pragma unroll
      for (int i = 0; i < kHalf; ++i) {
        float given = upper ? sums[i] : sums[i + kHalf];
        float kept = upper ? sums[i + kHalf] : sums[i];
        sums[i] = kept + __shfl_xor_sync(0xffffffffu, given, kMask);
      }
      halveSums<kHalf / 2, kMask / 2>(sums);
    }
  }

  const char *row[kRows], *vector[kVectors];
  unsigned long long policy = 0;
};

/// D = pointwise(alpha * A B^T + beta * C) on a one-dimensional grid of
/// kConfig.grid().blocks(m, n, batch) blocks.
template <GemmSignature kSignature, GemvConfig kConfig>
void gemv(const GemmParams &params) {
  Gemv<kSignature, kConfig>::run(params);
}

} // namespace kiln
