//===- gemm/Gemv.cuh - a matrix by a few vectors, on plain FMA ------------===//
//
// Problem: with one to eight vectors the time is that of reading the matrix,
// and memory delivers its bandwidth only while some 64 KB an SM are in flight.
// Registers are the largest and nearest place to receive them: each lane loads
// rowsPerWarp * unroll vectors of 16 bytes before it uses the first one.
// Neighbouring lanes read neighbouring vectors of a row. The small operand
// comes from L1, which all warps of an SM share.
//
// The block's warpsK splits take k in turn, chunk by chunk of 512 bytes each.
// The lanes' sums are added by shuffles, the splits' sums in shared memory, all
// in a fixed order.
//
// Rejected: the small operand in shared memory (a barrier before the first
// use), atomics on D (no fixed order).
//
// Types of one byte are unpacked word by word, so that few of their elements
// are in registers at a time. Products of int8 need no unpacking: dp4a sums
// four of them exactly.
//
// Limits: sm_80 and up; rows of both operands aligned to 16 bytes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "gemm/ByteFragments.cuh"
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
  /// This many vectors of the small operand are loaded with the loads of a
  /// round; beyond that the registers serve the matrix better.
  static constexpr bool kEarlyVectors = kVectors * kUnroll <= 8;

  static constexpr StagedSums kStaged = {
      kStreamsA, kConfig.rowsPerBlock(), kVectors,
      kStreamsA ? kVectors : kConfig.rowsPerBlock(), kConfig.threads()};

  static constexpr DType kTypeS =
      kStreamsA ? kSignature.in : kSignature.typeB();
  static constexpr DType kTypeV =
      kStreamsA ? kSignature.typeB() : kSignature.in;

  using Vector = Words<16>;
  using Sum = ProductSum<kSignature>;
  using Sums = Sum[kRows * kVectors];

public:
  static void run(const GemmParams &params) {
    extern __shared__ __align__(16) unsigned char sharedMemory[];
    Sum *shared = reinterpret_cast<Sum *>(sharedMemory);
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
  /// The first of the warp's rows in the block.
  static int warpRow() { return threadIdx.x / 32 / kWarpsK * kRows; }

  /// Points to this lane's vector of each row in its warp's first chunk. A row
  /// that does not exist is replaced by the last one that does: its sums are
  /// not stored.
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

  /// With \p isEarly the first round of the matrix is loaded before the kernel
  /// ahead has ended.
  void multiply(long long k, bool isEarly, Sums &sums) const {
    if (!isEarly)
      awaitPredecessor();
    bool awaits = isEarly; // the wait is still to come
    long long done = 0;
#pragma unroll 1
    for (; done + kRoundK <= k; done += kRoundK)
      multiplyRound<true>(done * kBytes, 0, awaits, sums);
    if (done < k)
      multiplyRound<false>(done * kBytes, static_cast<int>(k - done), awaits,
                           sums);
    if (awaits) // if k is 0
      awaitPredecessor();
  }

  /// Adds the products of one round of k, which begins \p begin bytes into the
  /// rows. Without kFull only \p roundLeft elements of it exist. \p awaits: no
  /// thread has waited for the kernel ahead yet.
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
    // All loads are issued before the first one is used: the compiler keeps the
    // order of the matrix's loads. The vectors are loaded first where they may
    // be: last, they cost up to 3 % (H100).
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
    if constexpr (kBytes == 1) {
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        Vector small[kVectors];
#pragma unroll
        for (int v = 0; v < kVectors; ++v)
          if constexpr (kEarlyVectors)
            small[v] = early[v][u];
          else
            small[v] = loadSmall<kFull>(v, u, begin, left);
#pragma unroll
        for (int w = 0; w < 4; ++w)
          multiplyWords(streamed, small, u, w,
                        kFull ? ~0u : existingBytes(leftAt(u, left) - 4 * w),
                        sums);
      }
    } else {
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
  }

  /// A mask of the first \p left bytes of a word.
  static unsigned existingBytes(int left) {
    return left >= 4 ? ~0u : left <= 0 ? 0u : ~0u >> (32 - 8 * left);
  }

  /// Adds the products of word \p w of the lane's vectors \p u; bytes outside
  /// of \p mask become zero.
  static void multiplyWords(const Vector (&streamed)[kRows][kUnroll],
                            const Vector (&small)[kVectors], int u, int w,
                            unsigned mask, Sums &sums) {
    if constexpr (kSignature.in == DType::INT8) {
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
          int &sum = sums[r * kVectors + v];
          sum = ptx::dp4a(streamed[r][u].word[w] & mask, small[v].word[w], sum);
        }
    } else {
      float factors[kVectors][4];
#pragma unroll
      for (int v = 0; v < kVectors; ++v)
        unpackWord<kTypeV>(factors[v], small[v].word[w] & mask);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        float elements[4];
        unpackWord<kTypeS>(elements, streamed[r][u].word[w] & mask);
#pragma unroll
        for (int e = 0; e < 4; ++e)
#pragma unroll
          for (int v = 0; v < kVectors; ++v) {
            float &sum = sums[r * kVectors + v];
            sum = fmaf(elements[e], factors[v][e], sum);
          }
      }
    }
  }

  /// fp32 of four fp8, without the factor fp8Factor.
  template <DType kType>
  static void unpackWord(float (&out)[4], unsigned word) {
    unsigned low, high;
    convertFp8<kType>(low, high, word);
    unpackPair<DType::FP16>(out[0], out[1], low);
    unpackPair<DType::FP16>(out[2], out[3], high);
  }

  /// Elements that exist, counted from the lane's vector \p u of the round.
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

  /// fp32 of a vector. Only \p left elements of a row's last vector are its
  /// own; the others may be anything and become 0.
  template <bool kFull>
  static void unpack(float (&out)[kLaneElements], const Vector &vector,
                     int left) {
    unpackFloats<kSignature.in>(out, vector);
    if constexpr (!kFull)
#pragma unroll
      for (int e = 0; e < kLaneElements; ++e)
        out[e] = e < left ? out[e] : 0.0f;
  }

  /// Adds up the lanes' sums and writes them in the layout of D.
  static void stage(Sums &sums, Sum *shared) {
    constexpr int kCount = kRows * kVectors;
    constexpr int kLanesPerSum = 32 / kCount;
    halveSums<kCount / 2, 16>(sums);
#pragma unroll
    for (int mask = kLanesPerSum / 2; mask > 0; mask /= 2)
      sums[0] += __shfl_xor_sync(0xffffffffu, sums[0], mask);
    if constexpr (isFp8(kSignature.in)) {
      constexpr float kFactor = fp8Factor(kTypeS) * fp8Factor(kTypeV);
      if constexpr (kFactor != 1.0f)
        sums[0] *= kFactor;
    }
    // The lane's number selects the halves: its upper bits are the sum's index.
    int index = lane() / kLanesPerSum;
    if (lane() % kLanesPerSum == 0)
      shared[warpK() * kStaged.floats() +
             kStaged.offset(warpRow() + index / kVectors, index % kVectors)] =
          sums[0];
  }

  /// Among 2 * kHalf sums the lane gives half to the lane with the other value
  /// of kMask and takes that lane's other half, and so on until it has one sum.
  template <int kHalf, int kMask> static void halveSums(Sums &sums) {
    if constexpr (kHalf > 0) {
      bool upper = lane() & kMask;
#pragma unroll
      for (int i = 0; i < kHalf; ++i) {
        Sum given = upper ? sums[i] : sums[i + kHalf];
        Sum kept = upper ? sums[i + kHalf] : sums[i];
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
