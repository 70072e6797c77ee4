//===- transpose/ReferenceTranspose.cuh - what a transpose is compared with
//===//
//
// One thread an element, values in double precision: for a type it is exact, so
// nothing less than the same value passes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Convert.cuh"
#include "transpose/TiledTransposeConfig.h"
#include "transpose/TransposeParams.h"

namespace kiln {

/// The value of element \p index of a matrix of \p kType; exact.
template <DType kType> double valueAt(const void *matrix, long long index) {
  if constexpr (kType == DType::INT8)
    return static_cast<const signed char *>(matrix)[index];
  else if constexpr (kType == DType::E4M3) {
    // Sign, four bits of exponent with bias 7, three of mantissa; no infinity.
    unsigned bits = static_cast<const unsigned char *>(matrix)[index];
    int exponent = static_cast<int>(bits >> 3 & 15u);
    int mantissa = static_cast<int>(bits & 7u);
    double magnitude = exponent ? ldexp(8.0 + mantissa, exponent - 10)
                                : ldexp(1.0 * mantissa, -9);
    if ((bits & 0x7fu) == 0x7fu)
      magnitude = __longlong_as_double(0x7ff8000000000000ll);
    return bits & 0x80u ? -magnitude : magnitude;
  } else
    return toFloat<kType>(static_cast<const Storage<kType> *>(matrix)[index]);
}

/// Writes the rows [rowBegin, rowEnd) of y, as doubles, on
/// ReferenceTransposeConfig::blocks(rowEnd - rowBegin, rows) blocks. Each takes
/// a square of y through shared memory, so that both sides are contiguous.
template <DType kType>
void referenceTranspose(const ReferenceTransposeParams &params) {
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
      tile[i][lane] = valueAt<kType>(transpose.x,
                                     (column + i) * transpose.ldx + row + lane);
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
