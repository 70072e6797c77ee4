//===- gemm/ReferenceGemm.cuh - the reference of GEMM ---------------------===//
//
// The fp64 result before it is rounded to D's type, and beside it the scale of
// the error that fp32 sums may make: sum |alpha * a * b| + |beta * c|, carried
// through the chain. It works on a slab of rows, so that its two fp64 matrices
// stay small, and on small tiles, so that a validation costs little.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Convert.cuh"
#include "common/Pointwise.cuh"
#include "gemm/GemmScales.cuh"
#include "gemm/Groups.cuh"
#include "gemm/NaiveGemmConfig.h"
#include "gemm/PackedWeight.cuh"

namespace kiln {

template <GemmSignature kSignature, ReferenceGemmConfig kConfig>
class ReferenceGemm {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");

  static constexpr int kBlock = kConfig.kBlock, kBlockK = kConfig.kBlockK;
  static constexpr int kMicro = kConfig.kMicro;
  static constexpr int kPerSide = kBlock / kMicro;
  static constexpr int kThreads = kPerSide * kPerSide;
  static constexpr int kPitch = kBlock + 1; // columns fall into other banks
  static constexpr DType kA = kSignature.in, kB = kSignature.typeB();
  using Out = Storage<kSignature.out>;

  static constexpr PointwiseChain kChain = kSignature.pointwise;
  /// Columns of the product for one element.
  static constexpr int kJoined = kSignature.columnsPerOutput();

  /// The rows of a tile: their numbers in the product, in their matrix, and
  /// their groups or batches; -1: the product has no such row.
  struct Rows {
    int row[kBlock], batch[kBlock];
    bool isFirst[kBlock]; ///< of its batch in the tile
  };

  /// The place of an element: its batch, its row there, and its column in the
  /// links' own input.
  struct Place {
    long long batch, row, column;
  };

  /// Sums of a thread's elements: rows threadRow + kPerSide * i, and columns
  /// given by columnOf().
  struct Sums {
    double value[kMicro][kMicro] = {};
    double magnitude[kMicro][kMicro] = {};
  };

public:
  /// A result before it is rounded, and the scale of its error.
  struct Result {
    double value, magnitude;
  };

  /// The result of row \p row of the product, which belongs to matrix \p batch,
  /// in D's column \p column; computed by one thread, term by term.
  static Result element(const GemmParams &gemm, long long batch, long long row,
                        long long column) {
    double values[kJoined] = {}, magnitudes[kJoined] = {};
    for (int j = 0; j < kJoined; ++j)
      for (long long k = 0; k < gemm.k; ++k) {
        double product = valueA(gemm, batch, rowInA<kSignature>(gemm, row), k) *
                         valueB(gemm, batch, column * kJoined + j, k);
        values[j] += product;
        magnitudes[j] += fabs(product);
      }
    return finishElement(gemm, {batch, row, column * kJoined}, values,
                         magnitudes);
  }

  static void run(const ReferenceGemmParams &params) {
    __shared__ double tileA[kBlockK][kPitch], tileB[kBlockK][kPitch];
    const GemmParams &gemm = params.gemm;
    long long tilesN = (gemm.n + kBlock - 1) / kBlock;
    long long row = params.rowBegin + blockIdx.x / tilesN * kBlock;
    long long column = blockIdx.x % tilesN * kBlock;
    __shared__ Rows rows;
    find(rows, gemm, row, params.rowEnd);
    Sums sums;
    for (long long k = 0; k < gemm.k; k += kBlockK) {
      loadA(tileA, gemm, rows, k);
      // Rows of another batch need another B.
      for (int i = 0; i < kBlock; ++i) {
        if (!rows.isFirst[i])
          continue;
        loadB(tileB, gemm, rows.batch[i], column, k);
        __syncthreads();
        add(sums, tileA, tileB, rows, rows.batch[i]);
        __syncthreads();
      }
    }
    finish(params, sums, rows, row, column);
  }

private:
  /// Finds the rows of D from \p first to \p end, flat over the batch, at most
  /// a tile of them.
  static void find(Rows &rows, const GemmParams &gemm, long long first,
                   long long end) {
    for (int i = threadIdx.x; i < kBlock; i += kThreads) {
      long long flat = first + i;
      rows.row[i] = rows.batch[i] = -1;
      if (flat >= end)
        continue;
      if constexpr (kSignature.hasFlatRows()) {
        if constexpr (!kSignature.scatters)
          setRow(rows, gemm, i, flat);
      } else {
        int batch = static_cast<int>(flat / gemm.m);
        int within = static_cast<int>(flat - batch * gemm.m);
        bool exists = true;
        if constexpr (kSignature.groups == GroupKind::Masked)
          exists = within < groupRows<kSignature.groups>(gemm, batch).end;
        rows.row[i] = exists ? within : -1;
        rows.batch[i] = exists ? batch : -1;
      }
    }
    if constexpr (kSignature.scatters) {
      __syncthreads();
      for (long long row = threadIdx.x; row < gemm.m; row += kThreads) {
        long long at = rowInD<kSignature>(gemm, row) - first;
        if (at >= 0 && at < kBlock && first + at < end)
          setRow(rows, gemm, static_cast<int>(at), row);
      }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kBlock; i += kThreads) {
      rows.isFirst[i] = rows.batch[i] >= 0;
      for (int j = 0; j < i; ++j)
        if (rows.batch[j] == rows.batch[i])
          rows.isFirst[i] = false;
    }
    __syncthreads();
  }

  static void setRow(Rows &rows, const GemmParams &gemm, int i, long long row) {
    if constexpr (kSignature.hasFlatRows()) {
      rows.batch[i] = groupOfRow<kSignature.groups>(gemm, row);
      rows.row[i] = rows.batch[i] < 0 ? -1 : static_cast<int>(row);
    }
  }

  static void loadA(double (&tile)[kBlockK][kPitch], const GemmParams &gemm,
                    const Rows &rows, long long k) {
    constexpr bool kMajor = kSignature.isKMajorA();
    for (int i = threadIdx.x; i < kBlock * kBlockK; i += kThreads) {
      int r = kMajor ? i / kBlockK : i % kBlock;
      int depth = kMajor ? i % kBlockK : i / kBlock;
      double value = 0;
      long long within =
          rows.row[r] < 0 ? -1 : rowInA<kSignature>(gemm, rows.row[r]);
      if (k + depth < gemm.k)
        value = valueA(gemm, rows.batch[r], within, k + depth);
      tile[depth][r] = value;
    }
  }

  static void loadB(double (&tile)[kBlockK][kPitch], const GemmParams &gemm,
                    long long batch, long long column, long long k) {
    constexpr bool kMajor = kSignature.isKMajorB();
    for (int i = threadIdx.x; i < kBlock * kBlockK; i += kThreads) {
      int c = kMajor ? i / kBlockK : i % kBlock;
      int depth = kMajor ? i % kBlockK : i / kBlock;
      double value = 0;
      if (column + c < gemm.n && k + depth < gemm.k)
        value = valueB(gemm, batch, column + c, k + depth);
      tile[depth][c] = value;
    }
  }

  /// An element of A with its scale; 0 in row -1, which does not exist.
  static double valueA(const GemmParams &gemm, long long batch, long long row,
                       long long k) {
    if (row < 0)
      return 0;
    const long long at =
        kSignature.isKMajorA() ? row * gemm.lda + k : k * gemm.lda + row;
    double value = toFloat<kA>(
        static_cast<const Storage<kA> *>(gemm.a)[batch * gemm.strideA + at]);
    return value * scaleOf<kSignature.scaleA>(gemm.scaleA, batch, row, k);
  }

  /// An element of B with its scale.
  static double valueB(const GemmParams &gemm, long long batch,
                       long long column, long long k) {
    if constexpr (kSignature.isPacked())
      return packedWeight<kSignature>(gemm, batch, column, k);
    else {
      const long long at = kSignature.isKMajorB() ? column * gemm.ldb + k
                                                  : k * gemm.ldb + column;
      double value = toFloat<kB>(
          static_cast<const Storage<kB> *>(gemm.b)[batch * gemm.strideB + at]);
      return value * scaleOf<kSignature.scaleB>(gemm.scaleB, batch, column, k);
    }
  }

  /// Column within the tile of a thread's sum \p j; columns that are joined
  /// belong to one thread.
  static int columnOf(int j) {
    int threadColumn = threadIdx.x % kPerSide;
    return kJoined * (threadColumn + kPerSide * (j / kJoined)) + j % kJoined;
  }

  /// Adds the products of the tile's rows of \p batch.
  static void add(Sums &sums, const double (&tileA)[kBlockK][kPitch],
                  const double (&tileB)[kBlockK][kPitch], const Rows &rows,
                  int batch) {
    int threadRow = threadIdx.x / kPerSide;
    for (int depth = 0; depth < kBlockK; ++depth) {
      double a[kMicro], b[kMicro];
#pragma unroll
      for (int i = 0; i < kMicro; ++i) {
        a[i] = tileA[depth][threadRow + kPerSide * i];
        b[i] = tileB[depth][columnOf(i)];
      }
#pragma unroll
      for (int i = 0; i < kMicro; ++i) {
        // These rows are skipped rather than zeroed: B of another batch may
        // hold NaN.
        if (rows.batch[threadRow + kPerSide * i] != batch)
          continue;
#pragma unroll
        for (int j = 0; j < kMicro; ++j) {
          sums.value[i][j] = fma(a[i], b[j], sums.value[i][j]);
          sums.magnitude[i][j] =
              fma(fabs(a[i]), fabs(b[j]), sums.magnitude[i][j]);
        }
      }
    }
  }

  static void finish(const ReferenceGemmParams &params, const Sums &sums,
                     const Rows &rows, long long row, long long column) {
#pragma unroll
    for (int i = 0; i < kMicro; ++i)
#pragma unroll
      for (int j = 0; j < kMicro; j += kJoined) {
        int r = threadIdx.x / kPerSide + kPerSide * i;
        long long c = column + columnOf(j);
        if (row + r >= params.rowEnd || c >= params.gemm.n)
          continue;
        long long at = (row + r - params.rowBegin) * (params.gemm.n / kJoined) +
                       c / kJoined;
        // A kernel has to leave a row that the product does not have unchanged.
        params.reference[at] = 0;
        params.bound[at] = -1;
        if (rows.row[r] < 0)
          continue;
        Result result =
            finishElement(params.gemm, {rows.batch[r], rows.row[r], c},
                          &sums.value[i][j], &sums.magnitude[i][j]);
        params.reference[at] = result.value;
        params.bound[at] = result.magnitude;
      }
  }

  static double outAt(const void *matrix, long long index) {
    return toFloat<kSignature.out>(static_cast<const Out *>(matrix)[index]);
  }

  /// The operands of the links [kFirst, kLast) at \p place.
  template <int kFirst, int kLast>
  static LinkOperands<double> operandsAt(const GemmParams &gemm, Place place) {
    constexpr int kBias = kChain.find(PointwiseOp::Bias);
    constexpr int kResidual = kChain.find(PointwiseOp::Residual);
    double bias = 0, residual = 0;
    if constexpr (kBias >= kFirst && kBias < kLast)
      bias = outAt(gemm.bias, place.batch * gemm.strideBias + place.column);
    if constexpr (kResidual >= kFirst && kResidual < kLast)
      residual =
          outAt(gemm.residual, place.batch * gemm.strideResidual +
                                   place.row * gemm.ldResidual + place.column);
    return sharedOperands<kChain>(bias, residual);
  }

  /// Applies alpha, C and the links before a join to one sum and its magnitude.
  static void finishColumn(const GemmParams &gemm, Place place, double &value,
                           double &magnitude) {
    double alpha = gemm.alphaPtr ? *gemm.alphaPtr : gemm.alpha;
    double beta = gemm.betaPtr ? *gemm.betaPtr : gemm.beta;
    if constexpr (kSignature.hasZeroPointsA()) {
      double share = zeroPointShare<kSignature>(gemm, place.batch, place.row,
                                                place.column);
      share *=
          scaleOf<kSignature.scaleA>(gemm.scaleA, place.batch, place.row, 0);
      share *=
          scaleOf<kSignature.scaleB>(gemm.scaleB, place.batch, place.column, 0);
      value -= share;
      magnitude += fabs(share);
    }
    value *= alpha;
    magnitude *= fabs(alpha);
    if (kSignature.readsC && beta != 0) {
      double c = beta * outAt(gemm.c, place.batch * gemm.strideC +
                                          place.row * gemm.ldc + place.column);
      value += c;
      magnitude += fabs(c);
    }
    constexpr int kJoin = kChain.joinAt();
    auto operands = operandsAt<0, kJoin>(gemm, place);
    value = applyChain<kChain, 0, kJoin>(value, operands);
    magnitude = chainErrorScale<kChain, 0, kJoin>(magnitude, operands);
  }

  /// Finishes the kJoined sums from \p place in the product on, which become
  /// one element.
  static Result finishElement(const GemmParams &gemm, Place place,
                              const double *values, const double *magnitudes) {
    long long column = place.column;
    double value = values[0], magnitude = magnitudes[0];
    finishColumn(gemm, place, value, magnitude);
    if constexpr (kJoined == 2) {
      constexpr int kJoin = kChain.joinAt();
      double x = value, y = values[1];
      double scaleX = magnitude, scaleY = magnitudes[1];
      finishColumn(gemm, {place.batch, place.row, column + 1}, y, scaleY);
      place.column = column / 2;
      auto operands = operandsAt<kJoin + 1, kChain.size()>(gemm, place);
      value = applyChain<kChain, kJoin + 1>(
          joinColumns<kChain.ops[kJoin]>(x, y), operands);
      magnitude = chainErrorScale<kChain, kJoin + 1>(
          joinErrorScale<kChain.ops[kJoin]>(x, y, scaleX, scaleY), operands);
    }
    double weight = rowWeight<kSignature>(gemm, place.row);
    return {value * weight, magnitude * fabs(weight)};
  }
};

/// Writes reference and bound of the rows [rowBegin, rowEnd) of the flattened
/// batch * m rows, on kConfig.blocks(rowEnd - rowBegin, n) blocks.
template <GemmSignature kSignature, ReferenceGemmConfig kConfig>
void referenceGemm(const ReferenceGemmParams &params) {
  ReferenceGemm<kSignature, kConfig>::run(params);
}

} // namespace kiln
