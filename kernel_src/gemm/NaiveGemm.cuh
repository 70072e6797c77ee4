//===- gemm/NaiveGemm.cuh - the GEMM as its definition reads --------------===//
//
// One thread an element, fp64 sums, no tiles: slow, and right for every type,
// layout, alignment, extent and batch. The family's reference, kept for ever.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "gemm/GemmEpilogue.cuh"
#include "gemm/NaiveGemmConfig.h"

namespace kiln {

/// sum over k of op(A)[row, k] * op(B)[k, column] of one batch, in fp64.
template <GemmSignature kSignature>
double naiveDot(const GemmParams &params, long long batch, long long row,
                long long column) {
  using Element = Storage<kSignature.in>;
  const Element *a = static_cast<const Element *>(params.a) +
                     batch * params.strideA +
                     row * (kSignature.isKMajorA() ? params.lda : 1);
  const Element *b = static_cast<const Element *>(params.b) +
                     batch * params.strideB +
                     column * (kSignature.isKMajorB() ? params.ldb : 1);
  long long stepA = kSignature.isKMajorA() ? 1 : params.lda;
  long long stepB = kSignature.isKMajorB() ? 1 : params.ldb;
  double sum = 0;
  for (long long k = 0; k < params.k; ++k, a += stepA, b += stepB)
    sum += static_cast<double>(toFloat<kSignature.in>(*a)) *
           static_cast<double>(toFloat<kSignature.in>(*b));
  return sum;
}

/// D = pointwise(alpha * op(A) op(B) + beta * C); any one-dimensional grid.
template <GemmSignature kSignature, NaiveGemmConfig kConfig>
void naiveGemm(const GemmParams &params) {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");
  long long count = params.batch * params.m * params.n;
  long long step = static_cast<long long>(gridDim.x) * kConfig.threads();
  long long first =
      static_cast<long long>(blockIdx.x) * kConfig.threads() + threadIdx.x;
  for (long long i = first; i < count; i += step) {
    long long flatRow = i / params.n, column = i - flatRow * params.n;
    long long batch = flatRow / params.m, row = flatRow - batch * params.m;
    float value[1] = {
        static_cast<float>(naiveDot<kSignature>(params, batch, row, column))};
    finishRun<kSignature>(epilogueOperands<kSignature>(params, batch), params,
                          row, column, 1, value);
  }
}

} // namespace kiln
