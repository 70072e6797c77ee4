//===- gemm/QuantizeOutput.cuh - e4m3 of a product's results --------------===//
//
// The last step of a plan whose D is e4m3 with scales. It reads the product
// from scratch, and writes D and, unless it is given, the scale of each row or
// of each 128 columns of a row. It has the rules of kernels over rows
// (include/kiln/rows.h): the scale is the greatest magnitude over 448, 1 for
// zeros, and NaN if there is a NaN; results saturate.
//
// Rows that belong to no group are neither read nor written.
//
// With block scales a warp has 128 columns, four neighbours a lane, which stay
// in registers between their greatest magnitude and their results. With
// per-token scales a block has one row, and reads it twice, the second time
// from L2.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Convert.cuh"
#include "common/Dependent.cuh"
#include "gemm/Groups.cuh"
#include "gemm/QuantizeOutputConfig.h"

namespace kiln {

template <QuantizeOutputSignature kSignature, QuantizeOutputConfig kConfig>
class QuantizeOutput {
  static_assert(kConfig.isValid(kSignature), "the config does not fit");
  static constexpr int kEach = 4; ///< neighbours that a lane has
  static constexpr int kGroup = kConfig.kGroup;
  static_assert(kGroup == 32 * kEach, "a warp has a group");
  static constexpr float kGreatest = 448.0f;

public:
  static void run(const QuantizeOutputParams &params) {
    allowSuccessor();
    awaitPredecessor();
    if constexpr (kSignature.scale == ScaleKind::Row)
      quantizeRows(params);
    else
      quantizeGroups(params);
  }

private:
  /// A row, in its matrix and in the source.
  struct Row {
    long long batch, row;
    const char *source;
    unsigned char *d;
    float *scales;

    Row(const QuantizeOutputParams &params, long long number)
        : batch(number / params.rowsPerBatch),
          row(number - batch * params.rowsPerBatch),
          source(static_cast<const char *>(params.source) +
                 number * params.sourcePitch * bytesOf(kSignature.in)),
          d(static_cast<unsigned char *>(params.d) + batch * params.strideD +
            row * params.ldd),
          scales(params.scales + batch * params.scaleBatchStride +
                 row * params.scaleRowStride) {}
  };

  /// Whether a lane's neighbours may be stored by one access.
  static bool storesVectors(const QuantizeOutputParams &params) {
    return ((reinterpret_cast<unsigned long long>(params.d) |
             static_cast<unsigned long long>(params.ldd | params.strideD)) %
            kEach) == 0;
  }

  static bool exists(const QuantizeOutputParams &params, const Row &row) {
    if constexpr (kSignature.groups == GroupKind::None)
      return true;
    else {
      GemmParams gemm;
      gemm.m = params.rowsPerBatch;
      gemm.batch = params.groupCount;
      gemm.groups = params.rowGroups;
      if constexpr (kSignature.groups == GroupKind::Ends)
        return groupOfRow<kSignature.groups>(gemm, row.row) >= 0;
      else
        return row.row <
               groupRows<kSignature.groups>(gemm, static_cast<int>(row.batch))
                   .end;
    }
  }

  static void quantizeGroups(const QuantizeOutputParams &params) {
    const long long groups = (params.columns + kGroup - 1) / kGroup;
    const long long all = params.rows * groups;
    const bool asVectors = storesVectors(params);
    const long long step = static_cast<long long>(gridDim.x) * kConfig.kWarps;
    for (long long i = blockIdx.x * static_cast<long long>(kConfig.kWarps) +
                       threadIdx.x / 32;
         i < all; i += step) {
      const long long number = i / groups, group = i - number * groups;
      const Row row(params, number);
      if (!exists(params, row))
        continue;
      const long long column = group * kGroup + threadIdx.x % 32 * kEach;
      float values[kEach];
      load(values, row, column, params.columns);
      float scale;
      if constexpr (kSignature.scale == ScaleKind::Tensor)
        scale = *row.scales;
      else {
        scale = scaleOf(ofWarp(magnitudeOf(values)));
        if (threadIdx.x % 32 == 0)
          row.scales[group * params.scaleGroupStride] = scale;
      }
      store(row, column, params.columns, asVectors, values, 1.0f / scale);
    }
  }

  static void quantizeRows(const QuantizeOutputParams &params) {
    __shared__ unsigned ofWarps[kConfig.kWarps];
    const bool asVectors = storesVectors(params);
    constexpr int kStep = kConfig.kWarps * kGroup;
    for (long long number = blockIdx.x; number < params.rows;
         number += gridDim.x) {
      const Row row(params, number);
      if (!exists(params, row))
        continue;
      unsigned greatest = 0;
      for (long long c = threadIdx.x * kEach; c < params.columns; c += kStep) {
        float values[kEach];
        load(values, row, c, params.columns);
        greatest = max(greatest, magnitudeOf(values));
      }
      greatest = ofWarp(greatest);
      if (threadIdx.x % 32 == 0)
        ofWarps[threadIdx.x / 32] = greatest;
      __syncthreads();
      for (int warp = 0; warp < kConfig.kWarps; ++warp)
        greatest = max(greatest, ofWarps[warp]);
      const float scale = scaleOf(greatest);
      if (threadIdx.x == 0)
        *row.scales = scale;
      for (long long c = threadIdx.x * kEach; c < params.columns; c += kStep) {
        float values[kEach];
        load(values, row, c, params.columns);
        store(row, c, params.columns, asVectors, values, 1.0f / scale);
      }
      __syncthreads(); // before the magnitudes of the next row
    }
  }

  /// Greatest magnitude, as bits, in which NaN exceeds all numbers.
  static unsigned magnitudeOf(const float (&values)[kEach]) {
    unsigned greatest = 0;
#pragma unroll
    for (float value : values)
      greatest = max(greatest, __float_as_uint(value) & 0x7fffffffu);
    return greatest;
  }
  static unsigned ofWarp(unsigned greatest) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2)
      greatest = max(greatest, __shfl_xor_sync(~0u, greatest, mask));
    return greatest;
  }

  /// As RowMath::scaleOf: the scale is normal, so that its inverse is finite.
  static float scaleOf(unsigned greatest) {
    constexpr float kLeast = 0x1p-126f;
    const float magnitude = __uint_as_float(greatest);
    const float scale = magnitude / kGreatest;
    return magnitude == 0 ? 1.0f : scale < kLeast ? kLeast : scale;
  }

  /// Memory behind the columns is scratch, and is replaced by 0.
  static void load(float (&values)[kEach], const Row &row, long long column,
                   long long columns) {
    constexpr int kBytes = bytesOf(kSignature.in);
#pragma unroll
    for (float &value : values)
      value = 0;
    if (column >= columns)
      return;
    if (column + kEach <= columns)
      return loadFloats<kSignature.in>(values, row.source + column * kBytes);
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      values[i] = toFloat<kSignature.in>(loadOrZero<kSignature.in>(
          row.source + (column + i) * kBytes, column + i < columns));
  }

  static void store(const Row &row, long long column, long long columns,
                    bool asVectors, const float (&values)[kEach],
                    float inverse) {
    float scaled[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      scaled[i] = values[i] * inverse;
    if (asVectors && column + kEach <= columns)
      return storeFloats<DType::E4M3>(row.d + column, scaled);
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (column + i < columns)
        row.d[column + i] = fromFloat<DType::E4M3>(scaled[i]);
  }
};

/// Writes D and its scales on a one-dimensional grid of kConfig.blocks()
/// blocks.
template <QuantizeOutputSignature kSignature, QuantizeOutputConfig kConfig>
void quantizeOutput(const QuantizeOutputParams &params) {
  QuantizeOutput<kSignature, kConfig>::run(params);
}

} // namespace kiln
