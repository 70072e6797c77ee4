//===- gather/ReferenceGather.cuh - the reference of gather ---------------===//
//
// By its definition, from the side of y: a block takes a row of y and looks for
// the index that writes it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Convert.cuh"
#include "gather/GatherParams.h"

namespace kiln {

/// Integer \p i of an array of \p bytes each.
inline long long integerAt(const void *array, int bytes, long long i) {
  return bytes == 8 ? static_cast<const long long *>(array)[i]
                    : static_cast<const int *>(array)[i];
}

/// Writes reference and bound of the rows [rowBegin, rowEnd) of y, on any
/// one-dimensional grid. Rows that are no target are not defined.
template <DType kType>
void referenceGather(const ReferenceGatherParams &params) {
  const GatherParams &given = params.gather;
  __shared__ long long source; // i of the row; -1: none
  const auto *x = static_cast<const Storage<kType> *>(given.x);
  for (long long row = params.rowBegin + blockIdx.x; row < params.rowEnd;
       row += gridDim.x) {
    const long long batch = row / given.yRows, target = row % given.yRows;
    if (threadIdx.x == 0)
      source = given.targets ? -1 : target;
    __syncthreads();
    if (given.targets)
      for (long long i = threadIdx.x; i < given.rows; i += blockDim.x)
        if (integerAt(given.targets, given.indexBytes, i) == target)
          source = i;
    __syncthreads();
    const long long i = source;
    long long from = -1; // row of x; below 0: zeros
    if (i >= 0) {
      const long long index =
          given.indices ? integerAt(given.indices, given.indexBytes, i) : i;
      if (index >= 0)
        from = index / given.divisor - given.first;
      if (from >= given.xRows)
        from = -1;
    }
    for (long long c = threadIdx.x; c < given.cols; c += blockDim.x) {
      double value = 0;
      if (from >= 0)
        value = toFloat<kType>(x[batch * given.xStride + from * given.ldx + c]);
      if (!params.moves)
        value *= given.scale;
      const long long at = (row - params.rowBegin) * given.cols + c;
      params.reference[at] = i < 0 ? 0 : value;
      params.bound[at] = i < 0 ? -1 : params.moves ? 0 : fabs(value);
    }
    __syncthreads();
  }
}

} // namespace kiln
