//===- allreduce/ReferenceAllReduce.cuh - the reference of allreduce ------===//
//
// By its definition, for a rank that is alone, whose peers have the same input.
// A block takes a row. The rounding of the sum, by which it is added in fp32 in
// the order of ranks, is a part of the problem, not an error.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "allreduce/AllReduceParams.h"
#include "allreduce/ReferenceAllReduceConfig.h"
#include "common/Convert.cuh"

namespace kiln {

template <DType kType> class ReferenceAllReduce {
public:
  /// Writes reference and bound of the rows, on any one-dimensional grid.
  static void run(const ReferenceAllReduceParams &params) {
    for (long long row = params.rowBegin + blockIdx.x; row < params.rowEnd;
         row += gridDim.x)
      writeRow(params, row);
  }

private:
  using Element = Storage<kType>;

  static float load(const void *matrix, long long index) {
    return toFloat<kType>(static_cast<const Element *>(matrix)[index]);
  }

  static void writeRow(const ReferenceAllReduceParams &params, long long row) {
    const AllReduceParams &given = params.operands;
    const bool isNorm = params.hasNorm && !params.ofResidualOut;
    const double inverse = isNorm ? inverseOfRow(params, row) : 0;
    for (long long c = threadIdx.x; c < given.cols; c += blockDim.x) {
      const float sum = sumOf(params, row, c);
      double value = sum;
      if (isNorm)
        value = rounded(sum) * inverse * load(given.weight, c);
      const long long at = (row - params.rowBegin) * given.cols + c;
      params.reference[at] = value;
      params.bound[at] = fabs(value);
    }
  }

  static float sumOf(const ReferenceAllReduceParams &params, long long row,
                     long long c) {
    const AllReduceParams &given = params.operands;
    const float x = load(given.x, row * given.ldx + c);
    float sum = x;
    for (int rank = 1; rank < params.ranks; ++rank)
      sum += x;
    if (params.hasResidual)
      sum += load(given.residual, row * given.ldResidual + c);
    return sum;
  }

  static double rounded(float sum) {
    return toFloat<kType>(fromFloat<kType>(sum));
  }

  /// 1 / sqrt(mean(sum^2) + epsilon), the same for all threads.
  static double inverseOfRow(const ReferenceAllReduceParams &params,
                             long long row) {
    constexpr int kThreads = ReferenceAllReduceConfig::threads();
    __shared__ double parts[kThreads];
    double squares = 0;
    for (long long c = threadIdx.x; c < params.operands.cols; c += blockDim.x) {
      const double value = rounded(sumOf(params, row, c));
      squares += value * value;
    }
    __syncthreads(); // of the row before
    parts[threadIdx.x] = squares;
    __syncthreads();
    double sum = 0;
    for (int i = 0; i < kThreads; ++i)
      sum += parts[i];
    return 1 / sqrt(sum / params.operands.cols + params.operands.epsilon);
  }
};

template <DType kType>
void referenceAllReduce(const ReferenceAllReduceParams &params) {
  ReferenceAllReduce<kType>::run(params);
}

} // namespace kiln
