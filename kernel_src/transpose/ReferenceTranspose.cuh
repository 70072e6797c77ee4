//===- transpose/ReferenceTranspose.cuh - the reference of transpose2d ----===//
//
// A block moves a square of y through shared memory. The values are doubles,
// which hold those of every type, so only equal values pass.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Convert.cuh"
#include "transpose/TiledTransposeConfig.h"
#include "transpose/TransposeParams.h"

namespace kiln {

/// Writes the rows [rowBegin, rowEnd) of y, as doubles, on
/// ReferenceTransposeConfig::blocks(rowEnd - rowBegin, rows) blocks. Each takes
/// a square of y through shared memory, so that both sides are contiguous.
template <DType kType>
void referenceTranspose(const ReferenceTransposeParams &params) {
  using Element = Storage<kType>;
  constexpr int kTile = ReferenceTransposeConfig::kTile;
  constexpr int kStep = ReferenceTransposeConfig::kTileRows;
  __shared__ double tile[kTile][kTile + 1]; // columns fall into other banks
  const TransposeParams &transpose = params.transpose;
  long long tilesPerRow = (transpose.rows + kTile - 1) / kTile;
  long long row = params.rowBegin + blockIdx.x / tilesPerRow * kTile;
  long long column = blockIdx.x % tilesPerRow * kTile;
  int lane = static_cast<int>(threadIdx.x) % kTile;
  int first = static_cast<int>(threadIdx.x) / kTile;
  for (int i = first; i < kTile; i += kStep)
    if (column + i < transpose.rows && row + lane < params.rowEnd)
      tile[i][lane] = toFloat<kType>(static_cast<const Element *>(
          transpose.x)[(column + i) * transpose.ldx + row + lane]);
  __syncthreads();
  for (int i = first; i < kTile; i += kStep)
    if (row + i < params.rowEnd && column + lane < transpose.rows) {
      long long at =
          (row + i - params.rowBegin) * transpose.rows + column + lane;
      params.reference[at] = tile[lane][i];
      params.bound[at] = 0;
    }
}

} // namespace kiln
