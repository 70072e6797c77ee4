//===- gemm/ReferenceQuantized.cuh - the reference of an e4m3 D -----------===//
//
// The results of a product, rounded to their type before the quantisation and
// divided by their scale, but not rounded to e4m3; or the scales. A block has
// one scale: it computes all results that share it, one a thread, term by term.
// It is slow, but obviously right.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "gemm/ReferenceGemm.cuh"
#include "gemm/ReferenceQuantizedConfig.h"

namespace kiln {

template <GemmSignature kSignature, ReferenceQuantizedConfig kConfig>
class ReferenceQuantized {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");

  using Product = ReferenceGemm<kSignature, ReferenceGemmConfig{}>;
  static constexpr int kThreads = kConfig.threads();
  static constexpr double kGreatest = 448;
  /// A greatest magnitude is mere rounding below this fraction of its error.
  static constexpr double kLeastCertain = isFp8(kSignature.in) ? 0x1p-6 : 1e-5;
  /// A bound that lets any finite value pass.
  static constexpr double kUnbounded = 1e30;

  /// Columns of a row that share a scale; row -1 does not exist in the product.
  struct Place {
    long long batch, row, first, end;
  };
  /// Greatest magnitude and error scale of the elements that share a scale.
  struct Magnitude {
    double value, bound;
  };

public:
  static void run(const ReferenceQuantizedParams &params) {
    const long long units = unitsOf(params);
    for (long long unit = blockIdx.x; unit < units; unit += gridDim.x)
      if (params.ofScales)
        finishScale(params, unit);
      else
        finishElements(params, unit);
  }

private:
  static long long columnsPerScale(const ReferenceQuantizedParams &params) {
    return kConfig.scale == ScaleKind::Row ? params.columns
                                           : ReferenceQuantizedConfig::kGroup;
  }
  static long long scalesOfRow(const ReferenceQuantizedParams &params) {
    const long long each = columnsPerScale(params);
    return (params.columns + each - 1) / each;
  }
  /// Units of work for blocks: scales, or sets of elements that share one.
  static long long unitsOf(const ReferenceQuantizedParams &params) {
    const long long lines = params.rowEnd - params.rowBegin;
    return lines * (params.ofScales ? params.lineScales : scalesOfRow(params));
  }

  /// Row \p row of matrix \p matrix of D.
  static Place placeOf(const ReferenceQuantizedParams &params, long long matrix,
                       long long row, long long group) {
    const long long first = group * columnsPerScale(params);
    Place place = {matrix, row, first,
                   min(first + columnsPerScale(params), params.columns)};
    if constexpr (kSignature.groups == GroupKind::Ends) {
      place.batch = groupOfRow<kSignature.groups>(params.gemm, row);
      if (place.batch < 0)
        place.row = -1;
    }
    if constexpr (kSignature.groups == GroupKind::Masked)
      if (row >=
          groupRows<kSignature.groups>(params.gemm, static_cast<int>(matrix))
              .end)
        place.row = -1;
    return place;
  }

  static typename Product::Result
  elementOf(const ReferenceQuantizedParams &params, const Place &place,
            long long column) {
    typename Product::Result result =
        Product::element(params.gemm, place.batch, place.row, column);
    // This rounding is a part of the problem, not an error.
    result.value = toFloat<kSignature.out>(
        fromFloat<kSignature.out>(static_cast<float>(result.value)));
    return result;
  }

  /// The greater of two values; NaN if either is.
  static double greater(double a, double b) {
    return a > b || isnan(a) ? a : b;
  }
  /// The greatest value among all threads, for each of them.
  static double greatestOf(double value) {
    __shared__ double partials[kThreads / 32];
    for (int distance = 16; distance > 0; distance /= 2)
      value = greater(value, __shfl_xor_sync(~0u, value, distance));
    __syncthreads(); // all threads have read the partials of the last call
    if (threadIdx.x % 32 == 0)
      partials[threadIdx.x / 32] = value;
    __syncthreads();
    double result = partials[0];
    for (int i = 1; i < kThreads / 32; ++i)
      result = greater(result, partials[i]);
    return result;
  }

  static bool isUncertain(const Magnitude &magnitude) {
    return magnitude.value < kLeastCertain * magnitude.bound;
  }
  static double scaleOf(const Magnitude &magnitude) {
    // The scale is normal in fp32, so that its inverse is finite.
    constexpr double kLeast = 0x1p-126;
    return magnitude.value == 0 ? 1.0
                                : greater(magnitude.value / kGreatest, kLeast);
  }

  static void finishScale(const ReferenceQuantizedParams &params,
                          long long unit) {
    const long long line = params.rowBegin + unit / params.lineScales;
    const long long column = unit % params.lineScales;
    // A line has the scales of a row, or one scale of each row of a matrix.
    const long long each =
        params.linesAreRows ? params.gemm.m : scalesOfRow(params);
    const long long matrix = line / each, within = line - matrix * each;
    const Place place = params.linesAreRows
                            ? placeOf(params, matrix, within, column)
                            : placeOf(params, matrix, column, within);
    Magnitude greatest = {0, 0};
    if (place.row >= 0)
      for (long long c = place.first + threadIdx.x; c < place.end;
           c += kThreads) {
        const auto result = elementOf(params, place, c);
        greatest.value = greater(greatest.value, fabs(result.value));
        greatest.bound = greater(greatest.bound, result.magnitude);
      }
    greatest = {greatestOf(greatest.value), greatestOf(greatest.bound)};
    if (threadIdx.x != 0)
      return;
    params.reference[unit] = place.row < 0 ? 0 : scaleOf(greatest);
    params.bound[unit] = place.row < 0           ? -1
                         : isUncertain(greatest) ? kUnbounded
                                                 : greatest.bound / kGreatest;
  }

  static void finishElements(const ReferenceQuantizedParams &params,
                             long long unit) {
    const long long scales = scalesOfRow(params);
    const long long row = params.rowBegin + unit / scales;
    const long long matrix = row / params.gemm.m;
    const Place place =
        placeOf(params, matrix, row - matrix * params.gemm.m, unit % scales);
    const long long offset = unit / scales * params.columns;
    Magnitude greatest = {0, 0};
    for (long long c = place.first + threadIdx.x; c < place.end;
         c += kThreads) {
      typename Product::Result result = {0, -1};
      if (place.row >= 0)
        result = elementOf(params, place, c);
      greatest.value = greater(greatest.value, fabs(result.value));
      greatest.bound = greater(greatest.bound, result.magnitude);
      params.reference[offset + c] = result.value;
      params.bound[offset + c] = result.magnitude;
    }
    double scale = 1;
    if constexpr (kConfig.scale == ScaleKind::Tensor)
      scale = params.scale[place.row < 0 ? 0 : matrix * params.scaleStride];
    else {
      greatest = {greatestOf(greatest.value), greatestOf(greatest.bound)};
      scale = scaleOf(greatest);
    }
    if (place.row < 0)
      return;
    // Each thread reads its own results.
    for (long long c = place.first + threadIdx.x; c < place.end; c += kThreads)
      quantize(params.reference[offset + c], params.bound[offset + c], scale,
               greatest);
  }

  /// Divides \p value by \p scale, within the type's range but not rounded, and
  /// turns \p bound into the bound of the quotient.
  static void quantize(double &value, double &bound, double scale,
                       const Magnitude &greatest) {
    value /= scale;
    // NaN passes through.
    value = value > kGreatest    ? kGreatest
            : value < -kGreatest ? -kGreatest
                                 : value;
    bound /= fabs(scale);
    if constexpr (kConfig.scale == ScaleKind::Tensor)
      return;
    if (isUncertain(greatest)) {
      bound = kUnbounded;
      return;
    }
    // The error of the element, and the error of the scale.
    if (greatest.value > 0)
      bound = 2 * (bound + fabs(value) * greatest.bound / greatest.value);
  }
};

/// Writes rows [rowBegin, rowEnd) of D, or of its scales, on kConfig.blocks()
/// blocks or any other number.
template <GemmSignature kSignature, ReferenceQuantizedConfig kConfig>
void referenceQuantized(const ReferenceQuantizedParams &params) {
  ReferenceQuantized<kSignature, kConfig>::run(params);
}

} // namespace kiln
