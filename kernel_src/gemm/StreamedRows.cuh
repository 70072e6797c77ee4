//===- gemm/StreamedRows.cuh - base of kernels for one small extent -------===//
//
// When m or n is small, one operand is read once and sets the time. Its rows
// are *streamed* past the few rows of the other one, the *vectors*; both lie
// along k. So B is streamed past the rows of A where m is small, and A past the
// rows of B where n is small. The kernels differ in how they multiply. This
// file has the part of each block, and the way from its sums to D in either
// orientation.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Dependent.cuh"
#include "common/Raster.cuh"
#include "gemm/GemmEpilogue.cuh"

namespace kiln {

/// A block's part: its first streamed row and its first vector.
struct StreamWork {
  long long batch, row, vector;
  /// The end of the vectors of the matrix, or of the group.
  long long vectorEnd;
  long long tile; ///< flat index of the part over all batches
  int split;
};

/// The work of this block. Blocks with the same streamed rows are neighbours,
/// so that L2 serves all but the first one.
template <class Config>
StreamWork streamWork(const GemmParams &params, const Config &config,
                      int splits) {
  long long rows = config.streamsA ? params.m : params.n;
  long long vectors = config.streamsA ? params.n : params.m;
  unsigned tilesV = tileCount(vectors, config.vectors);
  unsigned tilesS = tileCount(rows, config.rowsPerBlock());
  unsigned outer = blockIdx.x / tilesV; // (batch * tilesS + tile) * splits + s
  unsigned tileV = blockIdx.x - outer * tilesV;
  unsigned row = outer / splits; // batch * tilesS + tile
  unsigned batch = row / tilesS;
  StreamWork work;
  work.batch = batch;
  work.row =
      static_cast<long long>(row - batch * tilesS) * config.rowsPerBlock();
  work.vector = static_cast<long long>(tileV) * config.vectors;
  work.vectorEnd = vectors;
  work.tile = static_cast<long long>(row) * tilesV + tileV;
  work.split = static_cast<int>(outer - row * splits);
  return work;
}

/// The rows of one operand, from the block's first row on.
struct RowsView {
  const char *base;
  long long pitchBytes;
  int rowsLeft; ///< rows that exist, at least 1

  template <GemmSignature kSignature>
  static RowsView ofA(const GemmParams &params, long long batch,
                      long long row) {
    return ofA<kSignature>(params, batch, row, params.m);
  }
  template <GemmSignature kSignature>
  static RowsView ofA(const GemmParams &params, long long batch, long long row,
                      long long end) {
    return make<kSignature>(params.a, batch * params.strideA, params.lda, end,
                            row);
  }
  template <GemmSignature kSignature>
  static RowsView ofB(const GemmParams &params, long long batch,
                      long long row) {
    return make<kSignature>(params.b, batch * params.strideB, params.ldb,
                            params.n, row);
  }

private:
  template <GemmSignature kSignature>
  static RowsView make(const void *matrix, long long batchOffset, long long ld,
                       long long rows, long long row) {
    constexpr int kBytes = bytesOf(kSignature.in);
    return {static_cast<const char *>(matrix) +
                (batchOffset + row * ld) * kBytes,
            ld * kBytes, leftOf(rows, row)};
  }
};

/// The rows that a block streams.
template <GemmSignature kSignature, bool kStreamsA>
RowsView streamedRows(const GemmParams &params, const StreamWork &work) {
  if constexpr (kStreamsA)
    return RowsView::ofA<kSignature>(params, work.batch, work.row);
  else
    return RowsView::ofB<kSignature>(params, work.batch, work.row);
}

/// The vectors past which the rows are streamed.
template <GemmSignature kSignature, bool kStreamsA>
RowsView vectorRows(const GemmParams &params, const StreamWork &work) {
  if constexpr (kStreamsA)
    return RowsView::ofB<kSignature>(params, work.batch, work.vector);
  else
    return RowsView::ofA<kSignature>(params, work.batch, work.vector);
}

/// Whether the streamed rows (or else the vectors) may be read before the
/// kernel ahead has ended.
template <bool kStreamsA> bool isStreamedEarly(const GemmParams &params) {
  return params.early & (kStreamsA ? kEarlyA : kEarlyB);
}

/// Layout of a block's sums, fp32 or int32, in shared memory: as rows of D,
/// once for each part of k that was summed separately.
struct StagedSums {
  bool streamsA;
  int rows, vectors; ///< of the block
  int pitch;         ///< floats from one row of D to the next
  int threads;       ///< of the block

  constexpr int height() const { return streamsA ? rows : vectors; }
  constexpr int width() const { return streamsA ? vectors : rows; }
  constexpr int floats() const { return height() * pitch; }
  constexpr int offset(int row, int vector) const {
    return streamsA ? row * pitch + vector : vector * pitch + row;
  }
  /// Elements of D that a thread finishes at a time; at most \p most.
  constexpr int run(int most) const {
    int elements = most;
    while (width() % elements != 0)
      elements /= 2;
    return elements;
  }
};

/// Visits the runs of D that a thread of the block finishes: calls \p finish
/// with row and column of each within the block's part, its place in D, and the
/// number of columns that are left.
template <GemmSignature kSignature, StagedSums kSums, class Finish>
void forEachRun(const GemmParams &params, const StreamWork &work,
                Finish &&finish) {
  constexpr int kRun = kSums.run(epilogueVector<kSignature>());
  constexpr int kRunsPerRow = kSums.width() / kRun;
  constexpr int kRuns = kSums.height() * kRunsPerRow;
  long long firstRow = kSums.streamsA ? work.row : work.vector;
  long long firstColumn = kSums.streamsA ? work.vector : work.row;
  int rowsLeft = leftOf(kSums.streamsA ? params.m : work.vectorEnd, firstRow);
  int columnsLeft = leftOf(params.n, firstColumn);
#pragma unroll 1
  for (int run = threadIdx.x; run < kRuns; run += kSums.threads) {
    int r = run / kRunsPerRow, c = run % kRunsPerRow * kRun;
    if (r < rowsLeft && c < columnsLeft)
      finish(r, c, firstRow + r, firstColumn + c, columnsLeft - c);
  }
}

/// Called before the products: prefetches the operands of finishSums to L2.
template <GemmSignature kSignature, StagedSums kSums>
void prefetchSums(const GemmParams &params, const StreamWork &work) {
  if constexpr (kSignature.readsC ||
                kSignature.pointwise.contains(PointwiseOp::Bias) ||
                kSignature.pointwise.contains(PointwiseOp::Residual)) {
    EpilogueOperands operands =
        epilogueAddresses<kSignature>(params, work.batch);
    forEachRun<kSignature, kSums>(
        params, work, [&](int, int, long long row, long long column, int) {
          prefetchRun<kSignature>(operands, params, row, column);
        });
  }
}

/// Adds up the \p parts of the block's sums in a fixed order, and finishes
/// them. All threads of the block take part, after a barrier.
template <GemmSignature kSignature, StagedSums kSums, class Sum>
void finishSums(const GemmParams &params, const StreamWork &work,
                const Sum *staged, int parts) {
  constexpr int kRun = kSums.run(epilogueVector<kSignature>());
  EpilogueOperands operands = epilogueOperands<kSignature>(params, work.batch);
  forEachRun<kSignature, kSums>(
      params, work,
      [&](int r, int c, long long row, long long column, int left) {
        const Sum *from = staged + r * kSums.pitch + c;
        Sum sums[kRun] = {};
#pragma unroll 1
        for (int part = 0; part < parts; ++part, from += kSums.floats())
#pragma unroll
          for (int i = 0; i < kRun; ++i)
            sums[i] += from[i];
        if constexpr (kSignature.hasZeroPointsA())
          subtractZeroPoints<kSignature>(operands, row, column, left, sums);
        float values[kRun];
#pragma unroll
        for (int i = 0; i < kRun; ++i)
          values[i] = static_cast<float>(sums[i]);
        finishRun<kSignature>(operands, params, row, column, left, values);
      });
}

} // namespace kiln
