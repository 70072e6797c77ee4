//===- rows/RowSignature.h - the signature of kernels over rows -----------===//
//
// Normalisations, softmax, row quantisation and reductions read each row of a
// matrix once, reduce it and, except for reductions, write it again. One set of
// kernels serves all of them: the signature says how rows are reduced and how
// the result is used. Shared by the host and every kernel over rows.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"

namespace kiln {

/// The operation on a row x.
enum class RowOp : int {
  RmsNorm = 10,   ///< x / sqrt(mean(x^2) + eps) * weight + bias
  LayerNorm = 20, ///< (x - mean(x)) / sqrt(var(x) + eps) * weight + bias
  Softmax = 30,  ///< exp(s - max(s)) / sum(exp(s - max(s))), s = scale*x + mask
  Quantize = 40, ///< x itself, for an output with scales
  Sum = 50,      ///< from here on: one value for each row, or for all
  Max = 60,
  Mean = 70,
  SumSquares = 80,
};

/// True when \p op leaves one value of a row instead of a row.
constexpr bool isReduction(RowOp op) {
  return static_cast<int>(op) >= static_cast<int>(RowOp::Sum);
}

/// How an additive mask covers a matrix.
enum class RowMask : int {
  None = 0,
  Matrix = 1, ///< rows x cols
  Row = 2,    ///< one row of cols values for all rows
};

/// Alignment of the rows that a config serves, compared with the alignment that
/// accesses to its vectors need. It is a knob, as a vector's width is.
enum class RowStart : int {
  Aligned =
      0,     ///< every row of every operand aligned, and a multiple of vectors
  Alike = 1, ///< any, but with the same offset in all matrices
  Any = 2,   ///< any, with another offset in each matrix
};

/// True when \p threads of a block of \p blockThreads can share a row: an equal
/// part of the block, made of whole warps or an equal part of one.
constexpr bool isRowGroup(int threads, int blockThreads) {
  return threads <= blockThreads && blockThreads % threads == 0 &&
         (threads % 32 == 0 || 32 % threads == 0);
}

/// True when vectors of \p vector elements can serve rows with this start. Rows
/// of a reduction belong to one matrix.
constexpr bool isRowStart(int start, int vector, RowOp op) {
  return start == 0 ||
         (vector > 1 && start >= 0 &&
          start <= static_cast<int>(isReduction(op) ? RowStart::Alike
                                                    : RowStart::Any));
}

/// The lanes of a warp that share the vectors of one block of columns, and the
/// vectors of the block that each of them has. Without such blocks, one of one.
struct ScaleShare {
  int lanes = 1, items = 1;

  /// Vectors of a block.
  constexpr int vectors() const { return lanes * items; }
};

/// The part of a problem over rows for which its kernels are specialised. All
/// sizes and strides are run-time parameters; alignment belongs to the config.
struct RowSignature {
  RowOp op = RowOp::RmsNorm;
  DType in = DType::BF16;  ///< of all operands that are read
  DType out = DType::BF16; ///< of y; E4M3 and INT8 come with scales
  bool weight = false, bias = false;
  /// x + residual, rounded to `in`, replaces x, and is stored as well (residual
  /// add).
  bool residual = false;
  RowMask mask = RowMask::None;
  /// A quantised y has a scale for each row (per-token), or for each block of
  /// 1 x 128.
  ScaleKind scales = ScaleKind::Row;
  PointwiseChain chain{}; ///< chain(x) replaces x, for Quantize

  /// True when y = round(value / its scale). The scale is the greatest
  /// magnitude of the row, or of the block, over the greatest number of the
  /// type, or 1 for zeros.
  constexpr bool quantizes() const {
    return out == DType::E4M3 || out == DType::INT8;
  }

  /// Columns of a block that has a scale of its own; 0: there are no blocks.
  constexpr int scaleColumns() const {
    return quantizes() ? scaledDepth(scales) : 0;
  }
  constexpr bool hasBlocks() const { return scaleColumns() > 0; }

  /// The share of the lanes in a block, where \p rowThreads threads of a CUDA
  /// block have a row by vectors of \p vector elements.
  constexpr ScaleShare scaleShare(int vector, int rowThreads) const {
    if (!hasBlocks())
      return {};
    const int vectors = vector < scaleColumns() ? scaleColumns() / vector : 1;
    int lanes = rowThreads < 32 ? rowThreads : 32;
    lanes = vectors < lanes ? vectors : lanes;
    return {lanes, vectors / lanes};
  }

  /// True where results depend on the statistics of whole rows.
  constexpr bool hasStatistics() const {
    return op != RowOp::Quantize || !hasBlocks();
  }

  /// True where the greatest result to quantise is known together with the
  /// statistics: it is the greatest of the weighted values times their common
  /// factor.
  constexpr bool scalesAtOnce() const {
    return op == RowOp::RmsNorm && quantizes() && !bias && !hasBlocks();
  }

  /// True where the greatest result to quantise needs a reduction of its own.
  constexpr bool reducesTwice() const {
    return quantizes() && op != RowOp::Quantize && !scalesAtOnce() &&
           !hasBlocks();
  }

  /// Links of the chain whose operand has \p shape.
  constexpr int links(LinkShape shape) const {
    int found = 0;
    for (PointwiseOp link : chain.ops)
      found += shapeOf(link) == shape;
    return found;
  }
  /// Matrices that are read like x, element by element, before the statistics:
  /// a mask, or operands of links.
  constexpr int matrices() const {
    return (mask == RowMask::Matrix) + links(LinkShape::Matrix);
  }
  /// Operands that all rows share: weight, bias, a mask of one row, operands of
  /// links.
  constexpr int sharedRows() const {
    return weight + bias + (mask == RowMask::Row) + links(LinkShape::Row);
  }
  /// True where one of them enters the statistics.
  constexpr bool preparesWithRow() const {
    return mask == RowMask::Row || links(LinkShape::Row) > 0;
  }

  /// Bytes through which \p rowBlocks blocks of each of \p rowCount rows
  /// exchange statistics: 16 for each pair of a row's blocks, in each
  /// reduction.
  constexpr long long exchangeBytes(long long rowCount,
                                    long long rowBlocks) const {
    const int reductions = hasStatistics() + reducesTwice();
    return 16 * reductions * rowCount * rowBlocks * rowBlocks;
  }

  /// True for the combinations that every template accepts.
  constexpr bool isWellFormed() const {
    bool inOk = isFloat(in),
         norm = op == RowOp::RmsNorm || op == RowOp::LayerNorm;
    bool outOk =
        isFloat(out) || (quantizes() && (norm || op == RowOp::Quantize));
    if (op == RowOp::Quantize ? !quantizes() : chain.size() > 0)
      return false;
    if (!norm && (weight || bias || residual))
      return false;
    return inOk && outOk && (mask == RowMask::None || op == RowOp::Softmax) &&
           (scales == ScaleKind::Row || scales == ScaleKind::Block1x128) &&
           links(LinkShape::Column) == 0 && links(LinkShape::Scalar) <= 1;
  }

  friend constexpr bool operator==(const RowSignature &,
                                   const RowSignature &) = default;

private:
  static constexpr bool isFloat(DType type) {
    return type == DType::FP32 || type == DType::FP16 || type == DType::BF16;
  }
};

} // namespace kiln
