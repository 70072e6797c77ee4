//===- gemm/GemmEpilogue.cuh - from accumulators to rows of D -------------===//
//
// D = pointwise(alpha * acc + beta * C) on short runs of one row, shared by the
// GEMM templates. A run is as wide as the operands' common alignment allows;
// only the run that crosses the end of a row works element by element. Where
// the chain joins columns, a run of D takes twice as many accumulators; rows
// and columns count in the product, whose n is then even.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Convert.cuh"
#include "common/Pointwise.cuh"
#include "common/Raster.cuh"
#include "gemm/GemmScales.cuh"
#include "gemm/Groups.cuh"

namespace kiln {

/// The epilogue's operands of one batch.
struct EpilogueOperands {
  char *d;
  const char *c, *bias, *residual;
  const float *rowScales, *columnScales; ///< for rows and columns of D
  float alpha, beta;
  const int *zeroPoints, *columnSums; ///< for A's rows, and for B's columns
  int zeroPoint;                      ///< for a whole tensor
};

/// Moves the pointers to \p batch. Reads no memory.
template <GemmSignature kSignature>
EpilogueOperands epilogueAddresses(const GemmParams &params, long long batch) {
  constexpr int kBytes = bytesOf(kSignature.out);
  EpilogueOperands operands = {};
  operands.d = static_cast<char *>(params.d) + batch * params.strideD * kBytes;
  operands.c =
      static_cast<const char *>(params.c) + batch * params.strideC * kBytes;
  operands.bias = static_cast<const char *>(params.bias) +
                  batch * params.strideBias * kBytes;
  operands.residual = static_cast<const char *>(params.residual) +
                      batch * params.strideResidual * kBytes;
  if constexpr (kSignature.scaleA == ScaleKind::Row)
    operands.rowScales = params.scaleA.data + batch * params.scaleA.batchStride;
  if constexpr (kSignature.sumScaleB() == ScaleKind::Row)
    operands.columnScales =
        params.scaleB.data + batch * params.scaleB.batchStride;
  if constexpr (kSignature.hasZeroPointsA()) {
    const ZeroPointParams &zero = params.zeroA;
    operands.zeroPoints = zero.data + batch * zero.batchStride;
    operands.columnSums = zero.columnSums + batch * zero.sumsBatchStride;
  }
  return operands;
}

/// epilogueAddresses() with the scalars, which it reads.
template <GemmSignature kSignature>
EpilogueOperands epilogueOperands(const GemmParams &params, long long batch) {
  EpilogueOperands operands = epilogueAddresses<kSignature>(params, batch);
  operands.alpha = scaledAlpha<kSignature>(
      params, batch, params.alphaPtr ? *params.alphaPtr : params.alpha);
  operands.beta = params.betaPtr ? *params.betaPtr : params.beta;
  if constexpr (kSignature.zeroA == ScaleKind::Tensor)
    operands.zeroPoint = *operands.zeroPoints;
  return operands;
}

/// Subtracts the zero points of A from kCount int32 sums of row \p row, from
/// \p column on. \p valid of them lie inside the product.
template <GemmSignature kSignature, int kCount>
void subtractZeroPoints(const EpilogueOperands &operands, long long row,
                        long long column, int valid, int (&sums)[kCount]) {
  int zeroPoint = operands.zeroPoint;
  if constexpr (kSignature.zeroA == ScaleKind::Row)
    zeroPoint = operands.zeroPoints[row];
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    if (i < valid)
      sums[i] =
          withoutZeroPoint(sums[i], zeroPoint, operands.columnSums[column + i]);
}

/// Elements of D in one access with the signature's alignment class.
template <GemmSignature kSignature> constexpr int epilogueAccess() {
  return kSignature.alignD / bytesOf(kSignature.out);
}

/// Accumulators in the widest run, which makes one access to D.
template <GemmSignature kSignature> constexpr int epilogueVector() {
  return epilogueAccess<kSignature>() * kSignature.columnsPerOutput();
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

/// loadRun() by accesses of at most kAccess elements.
template <DType kType, int kAccess, int kCount>
void loadRuns(float (&out)[kCount], const char *pointer, int valid) {
  if constexpr (kCount <= kAccess)
    loadRun<kType>(out, pointer, valid);
  else {
#pragma unroll
    for (int i = 0; i < kCount; i += kAccess) {
      float part[kAccess];
      loadRun<kType>(part, pointer + i * bytesOf(kType), valid - i);
#pragma unroll
      for (int j = 0; j < kAccess; ++j)
        out[i + j] = part[j];
    }
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

/// The operands of the links for a run.
template <int kCount> struct RunOperands {
  float bias[kCount] = {}, residual[kCount] = {};

  template <PointwiseChain kChain> LinkOperands<float> ofElement(int i) const {
    return sharedOperands<kChain>(bias[i], residual[i]);
  }
};

/// Loads the operands of the links [kFirst, kLast) for \p valid of kCount
/// elements from (\p row, \p column) on. The column counts in the links' own
/// input.
template <GemmSignature kSignature, int kFirst, int kLast, int kCount>
RunOperands<kCount> loadLinks(const EpilogueOperands &operands,
                              const GemmParams &params, long long row,
                              long long column, int valid) {
  constexpr DType kType = kSignature.out;
  constexpr int kBytes = bytesOf(kType);
  constexpr int kAccess = epilogueAccess<kSignature>();
  constexpr int kBias = kSignature.pointwise.find(PointwiseOp::Bias);
  constexpr int kResidual = kSignature.pointwise.find(PointwiseOp::Residual);
  RunOperands<kCount> run;
  if constexpr (kBias >= kFirst && kBias < kLast)
    loadRuns<kType, kAccess>(run.bias, operands.bias + column * kBytes, valid);
  if constexpr (kResidual >= kFirst && kResidual < kLast)
    loadRuns<kType, kAccess>(
        run.residual,
        operands.residual + (row * params.ldResidual + column) * kBytes, valid);
  return run;
}

/// Prefetches the operands of computeRun for a run from (\p row, \p column) on
/// to L2, long before they are read. Their values do not matter yet
/// (Dependent.cuh).
template <GemmSignature kSignature>
void prefetchRun(const EpilogueOperands &operands, const GemmParams &params,
                 long long row, long long column) {
  constexpr PointwiseChain kChain = kSignature.pointwise;
  constexpr int kBytes = bytesOf(kSignature.out);
  // A column as the link counts it, before or behind the join.
  auto columnFor = [&](PointwiseOp op) {
    return kChain.find(op) < kChain.joinAt()
               ? column
               : column / kSignature.columnsPerOutput();
  };
  if constexpr (kChain.contains(PointwiseOp::Bias))
    ptx::prefetchL2(operands.bias + columnFor(PointwiseOp::Bias) * kBytes);
  if constexpr (kChain.contains(PointwiseOp::Residual))
    ptx::prefetchL2(
        operands.residual +
        (row * params.ldResidual + columnFor(PointwiseOp::Residual)) * kBytes);
  // C is left out: a device scalar may decide whether it is read, and would
  // have to be waited for.
  if constexpr (kSignature.readsC)
    if (!params.betaPtr)
      ptx::prefetchL2(operands.c + (row * params.ldc + column) * kBytes);
}

/// Applies alpha, C and the chain to kCount accumulators of the product's row
/// \p row from \p column on, a multiple of kCount. \p valid of them (at least
/// 1) lie inside the product. The first kCount / columnsPerOutput() of them
/// become D's elements from column / columnsPerOutput() on; they are not
/// stored. kCount is a power of two and, where columns are joined, at least 2.
template <GemmSignature kSignature, int kCount>
void computeRun(const EpilogueOperands &operands, const GemmParams &params,
                long long row, long long column, int valid,
                float (&accumulators)[kCount]) {
  constexpr PointwiseChain kChain = kSignature.pointwise;
  constexpr int kJoin = kChain.joinAt();
  static_assert(kCount % kSignature.columnsPerOutput() == 0,
                "a run ends between columns that are joined");
  auto links = loadLinks<kSignature, 0, kJoin, kCount>(operands, params, row,
                                                       column, valid);
  float factor = operands.alpha;
  if constexpr (kSignature.scaleA == ScaleKind::Row)
    factor *= operands.rowScales[row];
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    accumulators[i] *= factor;
  if constexpr (kSignature.sumScaleB() == ScaleKind::Row)
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (i < valid)
        accumulators[i] *= operands.columnScales[column + i];
  if constexpr (kSignature.readsC) {
    // beta may be a device scalar that turns out to be 0; then C is not read.
    if (operands.beta != 0.0f) {
      constexpr int kBytes = bytesOf(kSignature.out);
      float c[kCount];
      loadRuns<kSignature.out, epilogueAccess<kSignature>()>(
          c, operands.c + (row * params.ldc + column) * kBytes, valid);
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        accumulators[i] += operands.beta * c[i];
    }
  }
  if constexpr (kSignature.columnsPerOutput() == 1) {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      accumulators[i] =
          applyChain<kChain>(accumulators[i], links.bias[i], links.residual[i]);
  } else {
    auto behind = loadLinks<kSignature, kJoin + 1, kChain.size(), kCount / 2>(
        operands, params, row, column / 2, valid / 2);
#pragma unroll
    for (int i = 0; i < kCount; i += 2)
      accumulators[i / 2] =
          applyChainToColumns<kChain>(accumulators[i], accumulators[i + 1],
                                      links.template ofElement<kChain>(i),
                                      links.template ofElement<kChain>(i + 1),
                                      behind.template ofElement<kChain>(i / 2));
  }
  if constexpr (kSignature.hasRowWeights) {
    float weight = rowWeight<kSignature>(params, row);
#pragma unroll
    for (int i = 0; i < kCount / kSignature.columnsPerOutput(); ++i)
      accumulators[i] *= weight;
  }
}

/// computeRun, and stores its results where D has the row. A run of D has the
/// alignment of the class.
template <GemmSignature kSignature, int kCount>
void finishRun(const EpilogueOperands &operands, const GemmParams &params,
               long long row, long long column, int valid,
               float (&accumulators)[kCount]) {
  constexpr DType kType = kSignature.out;
  constexpr int kJoined = kSignature.columnsPerOutput();
  static_assert(kCount <= epilogueVector<kSignature>(),
                "a run is wider than its alignment allows");
  computeRun<kSignature>(operands, params, row, column, valid, accumulators);
  if constexpr (kSignature.scatters) {
    row = rowInD<kSignature>(params, row);
    if (row < 0)
      return;
  }
  char *d = operands.d + (row * params.ldd + column / kJoined) * bytesOf(kType);
  if constexpr (kJoined == 1)
    storeRun<kType>(d, accumulators, valid);
  else {
    float values[kCount / kJoined];
#pragma unroll
    for (int i = 0; i < kCount / kJoined; ++i)
      values[i] = accumulators[i];
    storeRun<kType>(d, values, valid / kJoined);
  }
}

/// Finishes the sums of a thread, groups of four rows by four columns of D. The
/// first group begins at (row, column) of matrix \p batch, and others follow
/// kRowStep rows or kColumnStep columns apart. Rows from \p rowEnd on do not
/// exist.
template <GemmSignature kSignature, int kRowStep, int kColumnStep, int kRows,
          int kColumns>
void finishGroups(const GemmParams &params, long long batch, long long row,
                  long long rowEnd, long long column,
                  const float (&sums)[kRows][kColumns]) {
  constexpr int kWidest = epilogueVector<kSignature>();
  constexpr int kVector = kWidest < 4 ? kWidest : 4;
  EpilogueOperands operands = epilogueOperands<kSignature>(params, batch);
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    long long r = row + i / 4 * kRowStep + i % 4;
    if (r >= rowEnd)
      continue;
#pragma unroll
    for (int j = 0; j < kColumns; j += kVector) {
      long long c = column + j / 4 * kColumnStep + j % 4;
      int valid = leftOf(params.n, c);
      if (valid <= 0)
        continue;
      float values[kVector];
#pragma unroll
      for (int e = 0; e < kVector; ++e)
        values[e] = sums[i][j + e];
      finishRun<kSignature>(operands, params, r, c, valid, values);
    }
  }
}

} // namespace kiln
