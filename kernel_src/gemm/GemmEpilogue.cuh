//===- gemm/GemmEpilogue.cuh - from accumulators to rows of D -------------===//
//
// D = pointwise(alpha * acc + beta * C) on short runs of one row, shared by the
// GEMM templates. A run is as wide as the operands' common alignment allows;
// only the run that crosses the end of a row works element by element.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Convert.cuh"
#include "common/Pointwise.cuh"
#include "gemm/GemmParams.h"
#include "gemm/GemmSignature.h"

namespace kiln {

/// The epilogue's operands of one batch.
struct EpilogueOperands {
  char *d;
  const char *c, *bias, *residual;
  float alpha, beta;
};

/// Reads the scalars and steps the pointers to \p batch.
template <GemmSignature kSignature>
EpilogueOperands epilogueOperands(const GemmParams &params, long long batch) {
  constexpr int kBytes = bytesOf(kSignature.out);
  EpilogueOperands operands;
  operands.d = static_cast<char *>(params.d) + batch * params.strideD * kBytes;
  operands.c =
      static_cast<const char *>(params.c) + batch * params.strideC * kBytes;
  operands.bias = static_cast<const char *>(params.bias) +
                  batch * params.strideBias * kBytes;
  operands.residual = static_cast<const char *>(params.residual) +
                      batch * params.strideResidual * kBytes;
  operands.alpha = params.alphaPtr ? *params.alphaPtr : params.alpha;
  operands.beta = params.betaPtr ? *params.betaPtr : params.beta;
  return operands;
}

/// Elements of D in one access of the signature's alignment class.
template <GemmSignature kSignature> constexpr int epilogueVector() {
  return kSignature.alignD / bytesOf(kSignature.out);
}

/// Loads \p valid of kCount elements; all of them with one access.
template <DType kType, int kCount>
void loadRun(float (&out)[kCount], const char *pointer, int valid) {
  if (valid >= kCount) {
    loadFloats<kType>(out, pointer);
    return;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    float one[1] = {0.0f};
    if (i < valid)
      loadFloats<kType>(one, pointer + i * bytesOf(kType));
    out[i] = one[0];
  }
}

/// Stores \p valid of kCount elements; all of them with one access.
template <DType kType, int kCount>
void storeRun(char *pointer, const float (&values)[kCount], int valid) {
  if (valid >= kCount) {
    storeFloats<kType>(pointer, values);
    return;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    float one[1] = {values[i]};
    if (i < valid)
      storeFloats<kType>(pointer + i * bytesOf(kType), one);
  }
}

/// Finishes kCount accumulators of D's row \p row from \p column on, of which
/// \p valid (at least 1) lie inside D. kCount elements fit the alignment class
/// and column is a multiple of kCount.
template <GemmSignature kSignature, int kCount>
void finishRun(const EpilogueOperands &operands, const GemmParams &params,
               long long row, long long column, int valid,
               float (&accumulators)[kCount]) {
  constexpr DType kType = kSignature.out;
  constexpr int kBytes = bytesOf(kType);
  constexpr PointwiseChain kChain = kSignature.pointwise;
  static_assert(kCount * kBytes <= kSignature.alignD,
                "a run is wider than its alignment allows");
  float bias[kCount] = {}, residual[kCount] = {};
  if constexpr (kChain.contains(PointwiseOp::Bias))
    loadRun<kType>(bias, operands.bias + column * kBytes, valid);
  if constexpr (kChain.contains(PointwiseOp::Residual))
    loadRun<kType>(
        residual,
        operands.residual + (row * params.ldResidual + column) * kBytes, valid);
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    accumulators[i] *= operands.alpha;
  if constexpr (kSignature.readsC) {
    // beta may be a device scalar that turns out to be 0: C stays unread.
    if (operands.beta != 0.0f) {
      float c[kCount];
      loadRun<kType>(c, operands.c + (row * params.ldc + column) * kBytes,
                     valid);
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        accumulators[i] += operands.beta * c[i];
    }
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    accumulators[i] = applyChain<kChain>(accumulators[i], bias[i], residual[i]);
  storeRun<kType>(operands.d + (row * params.ldd + column) * kBytes,
                  accumulators, valid);
}

} // namespace kiln
