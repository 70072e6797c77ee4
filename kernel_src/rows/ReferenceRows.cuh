//===- rows/ReferenceRows.cuh - the reference of kernels over rows --------===//
//
// The fp64 result before it is rounded to its type, and beside it the scale of
// the error that fp32 arithmetic may make. A block has one row, and makes a
// pass over it for each statistic: slow, but obviously right. Each launch makes
// one of the operands that a problem writes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Convert.cuh"
#include "common/Pointwise.cuh"
#include "rows/ReferenceRowsConfig.h"
#include "rows/RowParams.h"
#include "rows/RowSignature.h"

namespace kiln {

template <RowSignature kSignature, ReferenceRowsConfig kConfig>
class ReferenceRows {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");

  static constexpr RowOp kOp = kSignature.op;
  static constexpr int kThreads = kConfig.threads();
  static constexpr PointwiseChain kChain = kSignature.chain;
  /// The quantised value of the greatest magnitude that shares a scale.
  static constexpr double kGreatest = kSignature.out == DType::INT8 ? 127 : 448;
  /// A greatest magnitude is mere rounding below this fraction of its error.
  static constexpr double kLeastCertain = 1e-6;
  /// A bound that lets any finite value pass.
  static constexpr double kUnbounded = 1e30;
  using In = Storage<kSignature.in>;

  /// A result and the scale of its error.
  struct Result {
    double value, bound;
  };
  /// Statistics of a row that its elements depend on.
  struct Statistics {
    double center = 0;  ///< mean of LayerNorm, maximum of softmax
    double inverse = 1; ///< 1 / deviation, or 1 / sum of exponentials
    double size = 0;    ///< mean of |x| where the center is a mean
  };
  /// Columns whose results share a scale.
  struct Columns {
    long long first, end;
  };
  /// Greatest magnitude and error scale of such results.
  struct Magnitude {
    double value, bound;
  };

public:
  static void run(const ReferenceRowParams &params) {
    const RowParams &rows = params.row;
    if (params.output == RowOperand::Scales && params.scalesAlongRows)
      return finishScalesAlongRows(params);
    for (long long row = params.rowBegin + blockIdx.x; row < params.rowEnd;
         row += gridDim.x) {
      if constexpr (isReduction(kOp)) {
        Result result = reduce(rows, row);
        if (threadIdx.x == 0)
          store(params, row - params.rowBegin, result);
      } else if (params.output == RowOperand::ResidualOut)
        forEachColumn(rows, [&](long long column) {
          store(params, indexOf(params, row, column),
                residualSum(rows, row, column));
        });
      else if (params.output == RowOperand::Scales)
        finishScales(params, row);
      else
        finishRow(params, row, statisticsOf(rows, row));
    }
  }

private:
  //===--------------------------------------------------------------------===//
  // Elements
  //===--------------------------------------------------------------------===//

  static float load(const void *matrix, long long index) {
    return toFloat<kSignature.in>(static_cast<const In *>(matrix)[index]);
  }

  static float loadX(const RowParams &rows, long long row, long long column) {
    return load(rows.x, row * rows.ldx + column);
  }

  static float loadResidual(const RowParams &rows, long long row,
                            long long column) {
    return load(rows.residual, row * rows.ldResidual + column);
  }

  /// x + residual as it is before it is stored.
  static Result residualSum(const RowParams &rows, long long row,
                            long long column) {
    double x = loadX(rows, row, column);
    double residual = loadResidual(rows, row, column);
    return {x + residual, fabs(x) + fabs(residual)};
  }

  /// The input in place of x: x itself, or the sum with the residual as stored.
  /// That rounding is a part of the problem, not an error.
  static double input(const RowParams &rows, long long row, long long column) {
    float x = loadX(rows, row, column);
    if constexpr (kSignature.residual)
      return toFloat<kSignature.in>(
          fromFloat<kSignature.in>(x + loadResidual(rows, row, column)));
    else
      return x;
  }

  /// The mask's term for an element; 0 without a mask.
  static double maskTerm(const RowParams &rows, long long row,
                         long long column) {
    if constexpr (kSignature.mask == RowMask::None)
      return 0;
    else
      return load(rows.mask, row * rows.ldMask + column);
  }

  /// Exponent of softmax.
  static double exponent(const RowParams &rows, long long row,
                         long long column) {
    return static_cast<double>(rows.scale) * input(rows, row, column) +
           maskTerm(rows, row, column);
  }

  //===--------------------------------------------------------------------===//
  // Loops and sums over a row
  //===--------------------------------------------------------------------===//

  template <class Body>
  static void forEachColumn(const Columns &columns, Body body) {
    for (long long column = columns.first + threadIdx.x; column < columns.end;
         column += kThreads)
      body(column);
  }
  template <class Body>
  static void forEachColumn(const RowParams &rows, Body body) {
    forEachColumn({0, rows.cols}, body);
  }

  /// Calls body(row, column) for this thread's elements of all rows.
  template <class Body>
  static void forEachElement(const RowParams &rows, Body body) {
    // A division by the run-time extent for each element would cost more than
    // the element.
    long long stepRows = kThreads / rows.cols,
              stepColumns = kThreads % rows.cols;
    long long row = threadIdx.x / rows.cols, column = threadIdx.x % rows.cols;
    while (row < rows.rows) {
      body(row, column);
      row += stepRows;
      column += stepColumns;
      if (column >= rows.cols) {
        column -= rows.cols;
        ++row;
      }
    }
  }

  static double add(double a, double b) { return a + b; }
  /// The greater of two values; NaN if either is.
  static double greater(double a, double b) {
    return a > b || isnan(a) ? a : b;
  }

  /// Combines a value of each thread in a fixed order; every thread gets the
  /// result.
  template <class Combine>
  static double combineBlock(double value, Combine combine) {
    __shared__ double partials[kThreads / 32];
    for (int distance = 16; distance > 0; distance /= 2)
      value = combine(value, __shfl_xor_sync(~0u, value, distance));
    __syncthreads(); // all threads have read the partials of the last call
    if (threadIdx.x % 32 == 0)
      partials[threadIdx.x / 32] = value;
    __syncthreads();
    double result = partials[0];
    for (int i = 1; i < kThreads / 32; ++i)
      result = combine(result, partials[i]);
    return result;
  }

  static double minusInfinity() {
    return __longlong_as_double(static_cast<long long>(0xfff0000000000000ull));
  }

  //===--------------------------------------------------------------------===//
  // Reductions
  //===--------------------------------------------------------------------===//

  /// Adds element \p x to this thread's part of the reduction.
  static void accumulate(Result &sum, double x) {
    if constexpr (kOp == RowOp::Max)
      sum.value = greater(sum.value, x);
    else if constexpr (kOp == RowOp::SumSquares) {
      sum.value += x * x;
      sum.bound += x * x;
    } else {
      sum.value += x;
      sum.bound += fabs(x);
    }
  }

  /// The value of \p row, or of all rows.
  static Result reduce(const RowParams &rows, long long row) {
    Result sum = {kOp == RowOp::Max ? minusInfinity() : 0.0, 0.0};
    if (rows.allRows)
      forEachElement(rows, [&](long long each, long long column) {
        accumulate(sum, loadX(rows, each, column));
      });
    else
      forEachColumn(rows, [&](long long column) {
        accumulate(sum, loadX(rows, row, column));
      });
    if constexpr (kOp == RowOp::Max)
      return {combineBlock(sum.value, greater), 0};
    double count = kOp != RowOp::Mean ? 1.0
                   : rows.allRows ? static_cast<double>(rows.rows) * rows.cols
                                  : static_cast<double>(rows.cols);
    return {combineBlock(sum.value, add) / count,
            combineBlock(sum.bound, add) / count};
  }

  //===--------------------------------------------------------------------===//
  // Rows to rows
  //===--------------------------------------------------------------------===//

  static Statistics statisticsOf(const RowParams &rows, long long row) {
    if constexpr (kOp == RowOp::Softmax)
      return softmaxStatistics(rows, row);
    else if constexpr (kOp == RowOp::RmsNorm || kOp == RowOp::LayerNorm)
      return normStatistics(rows, row);
    else
      return {};
  }

  static Statistics softmaxStatistics(const RowParams &rows, long long row) {
    double greatest = minusInfinity();
    forEachColumn(rows, [&](long long column) {
      greatest = greater(greatest, exponent(rows, row, column));
    });
    greatest = combineBlock(greatest, greater);
    double sum = 0;
    forEachColumn(rows, [&](long long column) {
      sum += exp(exponent(rows, row, column) - greatest);
    });
    return {greatest, 1 / combineBlock(sum, add)};
  }

  static Statistics normStatistics(const RowParams &rows, long long row) {
    double mean = 0, size = 0;
    if constexpr (kOp == RowOp::LayerNorm) {
      forEachColumn(rows, [&](long long column) {
        double x = input(rows, row, column);
        mean += x;
        size += fabs(x);
      });
      mean = combineBlock(mean, add) / rows.cols;
      size = combineBlock(size, add) / rows.cols;
    }
    double squares = 0;
    forEachColumn(rows, [&](long long column) {
      double distance = input(rows, row, column) - mean;
      squares += distance * distance;
    });
    squares = combineBlock(squares, add) / rows.cols;
    return {mean, 1 / sqrt(squares + static_cast<double>(rows.epsilon)), size};
  }

  /// An element before it is quantised.
  static Result element(const RowParams &rows, long long row, long long column,
                        const Statistics &statistics) {
    if constexpr (kOp == RowOp::Softmax)
      return softmaxElement(rows, row, column, statistics);
    double x = input(rows, row, column);
    if constexpr (kOp == RowOp::Quantize) {
      LinkOperands<double> operands;
      readLinks(operands, rows, row, column);
      return {applyChain<kChain>(x, operands),
              chainErrorScale<kChain>(fabs(x), operands)};
    }
    double weight = 1, bias = 0;
    if constexpr (kSignature.weight)
      weight = load(rows.weight, column);
    if constexpr (kSignature.bias)
      bias = load(rows.bias, column);
    double factor = statistics.inverse * weight;
    return {(x - statistics.center) * factor + bias,
            (fabs(x) + statistics.size) * fabs(factor) + fabs(bias)};
  }

  /// The operands of an element for link kLink and later links.
  template <int kLink = 0>
  static void readLinks(LinkOperands<double> &values, const RowParams &rows,
                        long long row, long long column) {
    if constexpr (kLink < kChain.size()) {
      constexpr LinkShape kShape = shapeOf(kChain.ops[kLink]);
      if constexpr (kShape == LinkShape::Scalar)
        values.link[kLink] = rows.scalePtr ? *rows.scalePtr : rows.scale;
      else if constexpr (kShape == LinkShape::Matrix)
        values.link[kLink] =
            load(rows.links[kLink], row * rows.ldLink + column);
      else if constexpr (kShape == LinkShape::Row)
        values.link[kLink] = load(rows.links[kLink], column);
      readLinks<kLink + 1>(values, rows, row, column);
    }
  }

  static Result softmaxElement(const RowParams &rows, long long row,
                               long long column, const Statistics &statistics) {
    double distance = exponent(rows, row, column) - statistics.center;
    double value = exp(distance) * statistics.inverse;
    if (value == 0)
      return {0, 0};
    double scale = 1 + fabs(distance);
    // An exponent that is computed carries the error of its own terms.
    if (kSignature.mask != RowMask::None || rows.scale != 1)
      scale += fabs(rows.scale * input(rows, row, column)) +
               fabs(maskTerm(rows, row, column)) + fabs(statistics.center);
    return {value, value * scale};
  }

  //===--------------------------------------------------------------------===//
  // Results
  //===--------------------------------------------------------------------===//

  static void store(const ReferenceRowParams &params, long long index,
                    const Result &result) {
    params.reference[index] = result.value;
    params.bound[index] = result.bound;
  }

  static long long indexOf(const ReferenceRowParams &params, long long row,
                           long long column) {
    return (row - params.rowBegin) * params.row.cols + column;
  }

  /// Scales of a row, and the columns of the \p index-th of them.
  static long long scalesOfRow(const RowParams &rows) {
    constexpr int kEach = kSignature.scaleColumns();
    if constexpr (kEach > 0)
      return (rows.cols + kEach - 1) / kEach;
    return 1;
  }
  static Columns columnsOf(const RowParams &rows, long long index) {
    constexpr int kEach = kSignature.scaleColumns();
    if constexpr (kEach > 0)
      return {index * kEach,
              min((index + 1) * kEach, static_cast<long long>(rows.cols))};
    return {0, rows.cols};
  }

  static Magnitude magnitudeOf(const RowParams &rows, long long row,
                               const Columns &columns,
                               const Statistics &statistics) {
    Magnitude greatest = {0, 0};
    forEachColumn(columns, [&](long long column) {
      Result result = element(rows, row, column, statistics);
      greatest.value = greater(greatest.value, fabs(result.value));
      greatest.bound = greater(greatest.bound, result.bound);
    });
    return {combineBlock(greatest.value, greater),
            combineBlock(greatest.bound, greater)};
  }

  /// All scales of a row.
  static void finishScales(const ReferenceRowParams &params, long long row) {
    if constexpr (kSignature.quantizes()) {
      const long long count = scalesOfRow(params.row);
      const Statistics statistics = statisticsOf(params.row, row);
      for (long long at = 0; at < count; ++at)
        finishScale(params, (row - params.rowBegin) * count + at, row, at,
                    statistics);
    }
  }
  /// Scales of which a line has one of each row: a block makes some of them.
  static void finishScalesAlongRows(const ReferenceRowParams &params) {
    if constexpr (kSignature.quantizes()) {
      const long long count = params.row.rows;
      const long long all = (params.rowEnd - params.rowBegin) * count;
      for (long long index = blockIdx.x; index < all; index += gridDim.x) {
        const long long row = index % count;
        finishScale(params, index, row, params.rowBegin + index / count,
                    statisticsOf(params.row, row));
      }
    }
  }
  /// Scale \p at of row \p row.
  static void finishScale(const ReferenceRowParams &params, long long index,
                          long long row, long long at,
                          const Statistics &statistics) {
    const Magnitude magnitude =
        magnitudeOf(params.row, row, columnsOf(params.row, at), statistics);
    if (threadIdx.x == 0)
      store(params, index, scaleOf(magnitude));
  }

  static void finishRow(const ReferenceRowParams &params, long long row,
                        const Statistics &statistics) {
    const RowParams &rows = params.row;
    if constexpr (kSignature.quantizes())
      for (long long at = 0; at < scalesOfRow(rows); ++at) {
        const Columns columns = columnsOf(rows, at);
        const Magnitude magnitude = magnitudeOf(rows, row, columns, statistics);
        forEachColumn(columns, [&](long long column) {
          store(params, indexOf(params, row, column),
                quantized(element(rows, row, column, statistics), magnitude));
        });
      }
    else
      forEachColumn(rows, [&](long long column) {
        store(params, indexOf(params, row, column),
              element(rows, row, column, statistics));
      });
  }

  /// True when results cancel to rounding errors or to zeros: both are right,
  /// and their scales are unrelated.
  static bool isUncertain(const Magnitude &magnitude) {
    return magnitude.value < kLeastCertain * magnitude.bound;
  }

  /// The scale of results; NaN if one of them is NaN.
  static Result scaleOf(const Magnitude &magnitude) {
    // The scale is normal in fp32, so that its inverse is finite.
    constexpr double kLeast = 0x1p-126;
    double scale = magnitude.value == 0
                       ? 1.0
                       : greater(magnitude.value / kGreatest, kLeast);
    return {scale,
            isUncertain(magnitude) ? kUnbounded : magnitude.bound / kGreatest};
  }

  /// \p result divided by its scale, within the type's range but not
  /// rounded.
  static Result quantized(const Result &result, const Magnitude &magnitude) {
    double scale = scaleOf(magnitude).value;
    double value = result.value / scale;
    if (kSignature.out == DType::INT8 && isnan(value))
      return {0, 0}; // int8 stores NaN as 0
    // NaN passes through.
    value = value > kGreatest    ? kGreatest
            : value < -kGreatest ? -kGreatest
                                 : value;
    if (isUncertain(magnitude))
      return {value, kUnbounded};
    // The error of the element, and the error of the scale.
    double relative =
        magnitude.value > 0 ? magnitude.bound / magnitude.value : 0.0;
    return {value, result.bound / scale + fabs(value) * relative};
  }
};

/// Writes rows [rowBegin, rowEnd) of the operand params.output, on
/// kConfig.blocks(rowEnd - rowBegin) blocks or any other number.
template <RowSignature kSignature, ReferenceRowsConfig kConfig>
void referenceRows(const ReferenceRowParams &params) {
  ReferenceRows<kSignature, kConfig>::run(params);
}

} // namespace kiln
