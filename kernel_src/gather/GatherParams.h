//===- gather/GatherParams.h - run-time parameters ------------------------===//
//
// Filled by the host, passed by value as the one parameter of every kernel of
// the family. Compiled by the host compiler and by NVRTC: plain types only.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

/// Operands and extents of one launch: y[targets[i]] = scale *
/// x[indices[i] / divisor - first]. Sizes and strides count elements. A launch
/// needs batch, rows, cols >= 1.
struct GatherParams {
  const void *x = nullptr;
  void *y = nullptr;
  const void *indices = nullptr; ///< null: index i is i
  const void *targets = nullptr; ///< null: target i is i
  int indexBytes = 4;            ///< of an integer of both arrays
  float scale = 1;

  long long batch = 1;
  long long rows = 0, cols = 0; ///< rows that are moved
  long long xRows = 0, yRows = 0;
  long long first = 0, divisor = 1;
  long long ldx = 0, ldy = 0;
  long long xStride = 0, yStride = 0; ///< from matrix to matrix of the batch
};

/// Parameters of laneGather.
struct LaneGatherParams {
  GatherParams operands;
  /// Bytes from row to row, and from matrix to matrix.
  long long xPitch = 0, yPitch = 0, xBatchPitch = 0, yBatchPitch = 0;
  long long rowVectors = 0; ///< vectors of a row
  /// Tiles of a row, tiles down the rows, tiles of the whole batch.
  long long pieces = 1, rowTiles = 1, tiles = 1;
};

/// Parameters of referenceGather: rows [rowBegin, rowEnd) of y, where the
/// matrices of the batch follow one another.
struct ReferenceGatherParams {
  GatherParams gather;
  bool moves = true; ///< bits, so that the result has no error
  long long rowBegin = 0, rowEnd = 0;
  double *reference = nullptr; ///< (rowEnd - rowBegin) x cols, packed
  double *bound = nullptr;     ///< same shape; -1: not written
};

} // namespace kiln
