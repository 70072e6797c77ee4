//===- gemm/Sm90Vectors.cuh - the vectors that an epilogue reads ----------===//
//
// The bias, per-token and per-channel scales, weights of rows, and zero points
// of A with the sums of B's columns: a consumer loads all of them before the
// products of a tile, and reads them piece by piece behind the products.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "gemm/GemmEpilogue.cuh"
#include "gemm/Sm90Vector.cuh"

namespace kiln {

template <GemmSignature kSignature, Sm90GemmConfig kConfig> class Sm90Vectors {
  static constexpr bool kSwap = kConfig.swapAB;
  template <DType kType, bool kAlongRows, bool kExists>
  using Vector = Sm90Vector<kSignature, kConfig, kType, kAlongRows, kExists>;
  using Bias = Vector<kSignature.out, kSwap, kAddsBias<kSignature>>;
  /// Scales of the rows and of the columns of D, unless computeRun applies
  /// them.
  template <ScaleKind kKind, bool kAlongRows>
  using Scales =
      Vector<DType::FP32, kAlongRows,
             kKind == ScaleKind::Row && kSignature.columnsPerOutput() == 1>;
  using RowScales = Scales<kSignature.scaleA, !kSwap>;
  using ColumnScales = Scales<kSignature.sumScaleB(), kSwap>;
  /// Integers, carried as the bits of floats.
  using ZeroPoints =
      Vector<DType::FP32, !kSwap, kSignature.zeroA == ScaleKind::Row>;
  using ColumnSums = Vector<DType::FP32, kSwap, kSignature.hasZeroPointsA()>;
  using RowWeights =
      Vector<DType::FP32, !kSwap,
             kSignature.hasRowWeights && kSignature.columnsPerOutput() == 1>;

public:
  /// The entries of one piece.
  struct Piece {
    typename Bias::Piece bias;
    typename RowScales::Piece rowScales;
    typename ColumnScales::Piece columnScales;
    typename ZeroPoints::Piece zeroPoints;
    typename ColumnSums::Piece columnSums;
    typename RowWeights::Piece rowWeights;

    /// Multiplies a thread's two sums in column block \p block, in the second
    /// or the first of its rows, by the scales of their row and columns.
    void scale(int block, bool isSecond, float (&pair)[2]) const {
      float ofRows[2] = {1, 1}, ofColumns[2] = {1, 1};
      rowScales.ofPair(ofRows, block, isSecond);
      columnScales.ofPair(ofColumns, block, isSecond);
      if constexpr (kSignature.scaleA == ScaleKind::Row)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          pair[i] *= ofRows[i];
      if constexpr (kSignature.sumScaleB() == ScaleKind::Row)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          pair[i] *= ofColumns[i];
    }

    /// Turns two such int32 sums, whose bits are in \p pair, into fp32 and
    /// subtracts zero points.
    void subtractZeroPoints(const EpilogueOperands &operands, int block,
                            bool isSecond, float (&pair)[2]) const {
      float ofRows[2] = {}, ofColumns[2] = {};
      zeroPoints.ofPair(ofRows, block, isSecond);
      columnSums.ofPair(ofColumns, block, isSecond);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        int zeroPoint = kSignature.zeroA == ScaleKind::Row
                            ? __float_as_int(ofRows[i])
                            : operands.zeroPoint;
        pair[i] = static_cast<float>(withoutZeroPoint(
            __float_as_int(pair[i]), zeroPoint, __float_as_int(ofColumns[i])));
      }
    }
  };

  /// Loads the entries for the consumer's rows and columns of the tile's sides
  /// from \p row and \p column on. Rows from \p groupEnd on have no weights.
  void load(const EpilogueOperands &operands, const GemmParams &params, int row,
            int column, int groupEnd) {
    int m = static_cast<int>(params.m), n = static_cast<int>(params.n);
    int rowOfD = kSwap ? column : row, columnOfD = kSwap ? row : column;
    bias.load(operands.bias, columnOfD, n);
    rowScales.load(operands.rowScales, rowOfD, m);
    columnScales.load(operands.columnScales, columnOfD, n);
    zeroPoints.load(operands.zeroPoints, rowOfD, m);
    columnSums.load(operands.columnSums, columnOfD, n);
    rowWeights.load(rowOfD, [&](int r) {
      return r < groupEnd ? rowWeight<kSignature>(params, r) : 0.0f;
    });
  }

  /// The entries of piece \p number of the consumer.
  Piece piece(int number) const {
    return {bias.piece(number),         rowScales.piece(number),
            columnScales.piece(number), zeroPoints.piece(number),
            columnSums.piece(number),   rowWeights.piece(number)};
  }

private:
  Bias bias;
  RowScales rowScales;
  ColumnScales columnScales;
  ZeroPoints zeroPoints;
  ColumnSums columnSums;
  RowWeights rowWeights;
};

} // namespace kiln
