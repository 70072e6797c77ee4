//===- gemm/NaiveGemm.cuh - the GEMM as its definition reads --------------===//
//
// One thread for each element, fp64 sums, no tiles: slow, but right for every
// type, layout, alignment, extent and batch. It is the reference of the family.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Dependent.cuh"
#include "gemm/GemmEpilogue.cuh"
#include "gemm/NaiveGemmConfig.h"
#include "gemm/PackedWeight.cuh"

namespace kiln {

/// sum over k of op(A)[row, k] * op(B)[k, column] of one batch, in fp64. Row -1
/// consists of zeros.
template <GemmSignature kSignature>
double naiveDot(const GemmParams &params, long long batch, long long row,
                long long column) {
  if (kSignature.gathers && row < 0)
    return 0;
  constexpr DType kA = kSignature.in, kB = kSignature.typeB();
  const auto *a = static_cast<const Storage<kA> *>(params.a) +
                  batch * params.strideA +
                  row * (kSignature.isKMajorA() ? params.lda : 1);
  const auto *b = static_cast<const Storage<kB> *>(params.b) +
                  batch * params.strideB +
                  column * (kSignature.isKMajorB() ? params.ldb : 1);
  long long stepA = kSignature.isKMajorA() ? 1 : params.lda;
  long long stepB = kSignature.isKMajorB() ? 1 : params.ldb;
  double sum = 0;
  for (long long k = 0; k < params.k; ++k, a += stepA, b += stepB) {
    double product = static_cast<double>(toFloat<kA>(*a)) *
                     static_cast<double>(toFloat<kB>(*b));
    if constexpr (kSignature.hasBlockScales())
      product *= static_cast<double>(
                     scaleOf<kSignature.scaleA>(params.scaleA, batch, row, k)) *
                 static_cast<double>(scaleOf<kSignature.scaleB>(
                     params.scaleB, batch, column, k));
    sum += product;
  }
  return sum - zeroPointShare<kSignature>(params, batch, row, column);
}

/// The same sum for packed weights.
template <GemmSignature kSignature>
double naivePackedDot(const GemmParams &params, long long batch, long long row,
                      long long column) {
  if (kSignature.gathers && row < 0)
    return 0;
  const auto *a = static_cast<const Storage<kSignature.in> *>(params.a) +
                  batch * params.strideA + row * params.lda;
  double sum = 0;
  for (long long k = 0; k < params.k; ++k)
    sum += static_cast<double>(toFloat<kSignature.in>(a[k])) *
           packedWeight<kSignature>(params, batch, column, k);
  return sum;
}

/// D = pointwise(alpha * op(A) op(B) + beta * C); any one-dimensional grid.
template <GemmSignature kSignature, NaiveGemmConfig kConfig>
void naiveGemm(const GemmParams &params) {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");
  allowSuccessor();
  awaitPredecessor();
  // Columns of the product that one thread joins to an element.
  constexpr int kJoined = kSignature.columnsPerOutput();
  long long columns = params.n / kJoined;
  // Groups with ends share m rows.
  long long count =
      (kSignature.hasFlatRows() ? 1 : params.batch) * params.m * columns;
  long long step = static_cast<long long>(gridDim.x) * kConfig.threads();
  long long first =
      static_cast<long long>(blockIdx.x) * kConfig.threads() + threadIdx.x;
  for (long long i = first; i < count; i += step) {
    long long flatRow = i / columns;
    long long column = (i - flatRow * columns) * kJoined;
    long long batch = flatRow / params.m, row = flatRow - batch * params.m;
    if constexpr (kSignature.groups == GroupKind::Ends) {
      batch = groupOfRow<kSignature.groups>(params, row);
      if (batch < 0)
        continue;
    }
    if constexpr (kSignature.groups == GroupKind::Masked)
      if (row >= groupRows<kSignature.groups>(params, batch).end)
        continue;
    const long long rowOfA = rowInA<kSignature>(params, row);
    float values[kJoined];
    for (int j = 0; j < kJoined; ++j)
      if constexpr (kSignature.isPacked())
        values[j] = static_cast<float>(
            naivePackedDot<kSignature>(params, batch, rowOfA, column + j));
      else
        values[j] = static_cast<float>(
            naiveDot<kSignature>(params, batch, rowOfA, column + j));
    EpilogueOperands operands = epilogueOperands<kSignature>(params, batch);
    // Scales belong to A's rows.
    if constexpr (kSignature.gathers && kSignature.scaleA == ScaleKind::Row)
      operands.rowScales += max(rowOfA, 0ll) - row;
    finishRun<kSignature>(operands, params, row, column, kJoined, values);
  }
}

} // namespace kiln
