//===- gemm/SimtGemm.cuh - register-blocked GEMM on plain FMA -------------===//
//
// The fallback for exact fp32 products, and for architectures and alignments
// that no other template supports. Elements become fp32 before they are stored
// to shared memory, where k is the slow index of both tiles, so that a thread
// reads its rows and columns as vectors. There are two buffers: the next tile
// passes through registers while this one is multiplied, with one barrier for
// each tile.
//
// Limits: at most 2^31 - 1 blocks; no split-K.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Dependent.cuh"
#include "common/Raster.cuh"
#include "gemm/GemmEpilogue.cuh"
#include "gemm/SimtGemmConfig.h"

namespace kiln {

/// Source and target of one operand's elements, for SimtLoader.
struct SimtTile {
  DType type;
  bool kMajor;
  int align;
  int extent; ///< blockM or blockN
  int blockK;
  int pitch; ///< floats from one k to the next in shared memory
};

/// Loads tiles of one operand to shared memory as (blockK, pitch) floats.
template <SimtTile kTile, int kThreads> class SimtLoader {
public:
  SimtLoader(const char *base, long long ld) {
    row = threadIdx.x / kGroupsPerRow;
    column = threadIdx.x % kGroupsPerRow * 4;
    source = base + (row * ld + column) * kBytes;
    rowStepBytes = kRowStep * ld * kBytes;
    tileStepBytes = kTile.blockK * (kTile.kMajor ? 1 : ld) * kBytes;
  }

  /// Loads the next tile into registers; elements beyond \p extentLeft or
  /// \p kLeft become zero.
  void fetch(int extentLeft, int kLeft) {
    int rowsLeft = (kTile.kMajor ? extentLeft : kLeft) - row;
    int columnsLeft = (kTile.kMajor ? kLeft : extentLeft) - column;
    const char *from = source;
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      fetchGroup(values[i], from, i * kRowStep < rowsLeft ? columnsLeft : 0);
      from += rowStepBytes;
    }
    source += tileStepBytes;
  }

  void stash(float *shared) const {
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      int at = row + i * kRowStep;
      if constexpr (kTile.kMajor) {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          shared[(column + e) * kTile.pitch + at] = values[i][e];
      } else
        storeFloats<DType::FP32>(shared + at * kTile.pitch + column, values[i]);
    }
  }

private:
  static constexpr int kBytes = bytesOf(kTile.type);
  static constexpr int kGroupsPerRow =
      (kTile.kMajor ? kTile.blockK : kTile.extent) / 4;
  static constexpr int kRowStep = kThreads / kGroupsPerRow;
  static constexpr int kGroups = kTile.extent * kTile.blockK / 4 / kThreads;
  static constexpr int kVector =
      kTile.align / kBytes < 4 ? kTile.align / kBytes : 4;

  static void fetchGroup(float (&group)[4], const char *from, int left) {
#pragma unroll
    for (int i = 0; i < 4; i += kVector) {
      float piece[kVector] = {};
      if (left >= i + kVector)
        loadFloats<kTile.type>(piece, from + i * kBytes);
      else if constexpr (kVector > 1)
        fetchRagged(piece, from + i * kBytes, left - i);
#pragma unroll
      for (int e = 0; e < kVector; ++e)
        group[i + e] = piece[e];
    }
  }

  static void fetchRagged(float (&piece)[kVector], const char *from, int left) {
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      float one[1] = {0.0f};
      if (e < left)
        loadFloats<kTile.type>(one, from + e * kBytes);
      piece[e] = one[0];
    }
  }

  const char *source;
  long long rowStepBytes, tileStepBytes;
  int row, column;
  float values[kGroups][4];
};

template <GemmSignature kSignature, SimtGemmConfig kConfig> class SimtGemm {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");

  static constexpr int kBlockM = kConfig.blockM, kBlockN = kConfig.blockN;
  static constexpr int kBlockK = kConfig.blockK;
  static constexpr int kMicroM = kConfig.microM, kMicroN = kConfig.microN;
  static constexpr int kThreads = kConfig.threads();
  static constexpr int kPitchM = kConfig.pitchM(), kPitchN = kConfig.pitchN();
  static constexpr int kBytes = bytesOf(kSignature.in);

  // A thread's rows and columns are in groups of four, spread evenly over the
  // tile: neighbouring threads then read neighbouring vectors.
  static constexpr int kGroupStepM = kBlockM / (kMicroM / 4);
  static constexpr int kGroupStepN = kBlockN / (kMicroN / 4);
  static constexpr int kWarpsN = kBlockN / kMicroN / 8;

  static constexpr SimtTile kTileA = {kSignature.in,     kSignature.isKMajorA(),
                                      kSignature.alignA, kBlockM,
                                      kBlockK,           kPitchM};
  static constexpr SimtTile kTileB = {kSignature.in,     kSignature.isKMajorB(),
                                      kSignature.alignB, kBlockN,
                                      kBlockK,           kPitchN};
  using Accumulators = float[kMicroM][kMicroN];

public:
  static void run(const GemmParams &params) {
    extern __shared__ __align__(16) float shared[];
    allowSuccessor();
    awaitPredecessor();
    TileWork work =
        tileWork(blockIdx.x, tileCount(params.m, kBlockM),
                 tileCount(params.n, kBlockN), 1, params.rasterGroup);
    Accumulators accumulators = {};
    multiply(params, work, shared, accumulators);
    store(params, work, accumulators);
  }

private:
  static int firstRow() {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return (warp / kWarpsN * 4 + lane / 8) * 4;
  }
  static int firstColumn() {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return (warp % kWarpsN * 8 + lane % 8) * 4;
  }

  static void multiply(const GemmParams &params, const TileWork &work,
                       float *shared, Accumulators &accumulators) {
    long long row = static_cast<long long>(work.tileM) * kBlockM;
    long long column = static_cast<long long>(work.tileN) * kBlockN;
    long long offsetA =
        work.batch * params.strideA + row * (kTileA.kMajor ? params.lda : 1);
    long long offsetB =
        work.batch * params.strideB + column * (kTileB.kMajor ? params.ldb : 1);
    SimtLoader<kTileA, kThreads> loaderA(
        static_cast<const char *>(params.a) + offsetA * kBytes, params.lda);
    SimtLoader<kTileB, kThreads> loaderB(
        static_cast<const char *>(params.b) + offsetB * kBytes, params.ldb);
    int rowsLeft = leftOf(params.m, row);
    int columnsLeft = leftOf(params.n, column);

    constexpr int kBufferFloats = kBlockK * (kPitchM + kPitchN);
    float *reading = shared, *writing = shared + kBufferFloats;
    auto fetch = [&](long long kBegin) {
      int kLeft = leftOf(params.k, kBegin);
      loaderA.fetch(rowsLeft, kLeft);
      loaderB.fetch(columnsLeft, kLeft);
    };
    auto stash = [&](float *buffer) {
      loaderA.stash(buffer);
      loaderB.stash(buffer + kBlockK * kPitchM);
    };
    fetch(0);
    stash(reading);
    __syncthreads();
#pragma unroll 1
    for (long long k = 0; k < params.k; k += kBlockK) {
      bool hasNext = k + kBlockK < params.k;
      if (hasNext)
        fetch(k + kBlockK);
      multiplyTile(reading, reading + kBlockK * kPitchM, accumulators);
      if (hasNext)
        stash(writing);
      // The next tile is complete, and this buffer may be overwritten.
      __syncthreads();
      float *next = writing;
      writing = reading;
      reading = next;
    }
  }

  static void multiplyTile(const float *a, const float *b,
                           Accumulators &accumulators) {
    a += firstRow();    // (blockK, pitchM)
    b += firstColumn(); // (blockK, pitchN)
#pragma unroll
    for (int k = 0; k < kBlockK; ++k) {
      float rows[kMicroM], columns[kMicroN];
      readGroups<kGroupStepM>(rows, a + k * kPitchM);
      readGroups<kGroupStepN>(columns, b + k * kPitchN);
#pragma unroll
      for (int i = 0; i < kMicroM; ++i)
#pragma unroll
        for (int j = 0; j < kMicroN; ++j)
          accumulators[i][j] = fmaf(rows[i], columns[j], accumulators[i][j]);
    }
  }

  template <int kStep, int kCount>
  static void readGroups(float (&values)[kCount], const float *shared) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      float group[4];
      loadFloats<DType::FP32>(group, shared + i / 4 * kStep);
#pragma unroll
      for (int e = 0; e < 4; ++e)
        values[i + e] = group[e];
    }
  }

  static void store(const GemmParams &params, const TileWork &work,
                    Accumulators &accumulators) {
    finishGroups<kSignature, kGroupStepM, kGroupStepN>(
        params, work.batch,
        static_cast<long long>(work.tileM) * kBlockM + firstRow(), params.m,
        static_cast<long long>(work.tileN) * kBlockN + firstColumn(),
        accumulators);
  }
};

/// D = pointwise(alpha * op(A) op(B) + beta * C) on a one-dimensional grid of
/// kConfig.grid().blocks(m, n, batch) blocks.
template <GemmSignature kSignature, SimtGemmConfig kConfig>
void simtGemm(const GemmParams &params) {
  SimtGemm<kSignature, kConfig>::run(params);
}

} // namespace kiln
