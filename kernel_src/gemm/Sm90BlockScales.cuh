//===- gemm/Sm90BlockScales.cuh - block scales on wgmma's sums ------------===//
//
// Every 128 steps of k the sums of a group of products go to registers, times
// the scales of their rows and columns there. One side of a tile has a scale
// for each row of A, the other one a scale for 128 columns of the product.
// Threads read the scales straight from memory, at any strides, one block of k
// ahead: the lanes of a warp find them in the caches.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"
#include "gemm/GemmScales.cuh"
#include "gemm/Sm90Tiles.cuh"

namespace kiln {

/// Adds sums without scales.
template <GemmSignature kSignature, Sm90GemmConfig kConfig,
          bool kExists = kSignature.hasBlockScales()>
class Sm90BlockScales {
public:
  Sm90BlockScales(const GemmParams &, const Sm90Tile &, int) {}
  void load(int) {}
  void take() {}
  template <int kWidth>
  void add(int, int, const float (&set)[kWidth / 2], float *sums) const {
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i)
      sums[i] += set[i];
  }
};

/// The scales of a consumer's part of a tile.
template <GemmSignature kSignature, Sm90GemmConfig kConfig>
class Sm90BlockScales<kSignature, kConfig, true> {
  static constexpr bool kSwap = kConfig.swapAB;
  static constexpr int kUnit = Sm90GemmConfig::kUnit;
  static constexpr int kUnits = kConfig.units();
  static constexpr int kColumns = kConfig.consumerColumns();
  static constexpr ScaleKind kOfRows =
      kSwap ? kSignature.scaleB : kSignature.scaleA;
  static constexpr ScaleKind kOfColumns =
      kSwap ? kSignature.scaleA : kSignature.scaleB;
  static constexpr int kParts = kConfig.promotedParts(kSignature);
  static constexpr int kPartColumns = kConfig.promotedColumns(kSignature);
  static constexpr int kBlock = scaledRows(ScaleKind::Block128x128);
  /// Without swapAB each part of the columns has one scale or two.
  static constexpr bool kMixes =
      !kSwap && !kConfig.columnsHaveOneScale(kSignature);
  static constexpr int kEach = kMixes ? 2 : 1;
  /// A thread's rows of a unit, 8 apart, that have different scales.
  static constexpr int kRows = kSwap ? 1 : 2;
  /// Neighbouring parts that share a scale: tiles begin at multiples of their
  /// columns.
  static constexpr int kSharers =
      kSwap || kMixes ? 1 : kConfig.columnsOfOneScale() / kPartColumns;
  /// With swapAB each column has its own scale, and lanes divide them.
  static constexpr int kColumnLoads =
      kSwap ? (kColumns + 31) / 32 : kParts / kSharers * kEach;

public:
  Sm90BlockScales(const GemmParams &params, const Sm90Tile &tile,
                  int consumer) {
    const ScaleParams &rows = kSwap ? params.scaleB : params.scaleA;
    const ScaleParams &columns = kSwap ? params.scaleA : params.scaleB;
    const int rowEnd = static_cast<int>(kSwap ? params.n : params.m);
    const int columnEnd = static_cast<int>(kSwap ? params.m : params.n);
    last = static_cast<int>(params.k - 1) / scaledDepth(kOfRows);
    rowBase = rows.data + tile.batch * rows.batchStride;
    columnBase = columns.data + tile.batch * columns.batchStride;
    // The addresses are kept, rather than derived again for each block of k.
    ptx::opaque(rowBase);
    ptx::opaque(columnBase);
    rowStep = static_cast<unsigned>(rows.depthStride);
    columnStep = static_cast<unsigned>(columns.depthStride);
    int thread = threadIdx.x % Sm90GemmConfig::kWarpgroup;
    int row = tile.rowBegin + thread / 32 * 16 + thread % 32 / 4;
    if constexpr (kConfig.rowSharers() > 1)
      row += consumer * kUnits * kUnit;
    // Rows and columns outside of D take the scale of the last one inside.
    auto placeOf = [&]<ScaleKind kKind>(const ScaleParams &scales, int at,
                                        int end) {
      return min(at, end - 1) / scaledRows(kKind) *
             static_cast<unsigned>(scales.rowStride);
    };
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit)
#pragma unroll
      for (int i = 0; i < kRows; ++i)
        rowAt[unit][i] = placeOf.template operator()<kOfRows>(
            rows, row + unit * kUnit + i * 8, rowEnd);
    int column = tile.columnBegin;
    if constexpr (kConfig.columnSharers() > 1)
      column += consumer * kColumns;
    if constexpr (kMixes)
      begin = column % kBlock;
#pragma unroll
    for (int i = 0; i < kColumnLoads; ++i) {
      int first = kSwap ? column + i * 32 + thread % 32
                        : column + i / kEach * kSharers * kPartColumns +
                              i % kEach * kBlock;
      columnAt[i] =
          placeOf.template operator()<kOfColumns>(columns, first, columnEnd);
    }
  }

  /// Starts to load the scales for k's block number \p depth. It may lie behind
  /// the last block: all of its products are 0.
  void load(int depth) {
    depth = static_cast<int>(
        min(static_cast<unsigned>(depth), static_cast<unsigned>(last)));
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit)
#pragma unroll
      for (int i = 0; i < kRows; ++i)
        nextOfRows[unit][i] =
            ptx::ldGlobalFloat(rowBase + (rowAt[unit][i] + depth * rowStep));
#pragma unroll
    for (int i = 0; i < kColumnLoads; ++i)
      nextOfColumns[i] =
          ptx::ldGlobalFloat(columnBase + (columnAt[i] + depth * columnStep));
  }

  /// Makes the loaded scales the current ones.
  void take() {
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit)
#pragma unroll
      for (int i = 0; i < kRows; ++i)
        ofRows[unit][i] = nextOfRows[unit][i];
#pragma unroll
    for (int i = 0; i < kColumnLoads; ++i)
      ofColumns[i] = nextOfColumns[i];
  }

  /// Adds \p set, the sums of part \p part of the columns of \p unit.
  template <int kWidth>
  void add(int unit, int part, const float (&set)[kWidth / 2],
           float *sums) const {
    if constexpr (kSwap)
      addOwn<kWidth>(unit, part, set, sums);
    else {
      float factors[kEach][2];
#pragma unroll
      for (int i = 0; i < kEach; ++i)
#pragma unroll
        for (int row = 0; row < 2; ++row)
          factors[i][row] =
              ofRows[unit][row] * ofColumns[part / kSharers * kEach + i];
      // From this column of the part on, columns belong to its second block.
      int end = kBlock - (begin + part * kWidth) % kBlock;
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) {
        bool isSecond = kMixes && i / 4 * 8 >= end;
        sums[i] += set[i] * factors[isSecond ? kEach - 1 : 0][i % 4 / 2];
      }
    }
  }

private:
  /// add() with a scale for each column: in column block j lane l has columns 2
  /// (l % 4) and the next, in two rows of one block of B.
  template <int kWidth>
  void addOwn(int unit, int part, const float (&set)[kWidth / 2],
              float *sums) const {
    int lane = threadIdx.x % 4 * 2;
    float factors[kColumnLoads]; // for this lane's columns
#pragma unroll
    for (int i = 0; i < kColumnLoads; ++i)
      factors[i] = ofColumns[i] * ofRows[unit][0];
#pragma unroll
    for (int block = 0; block < kWidth / 8; ++block) {
      int column = part * kWidth + block * 8;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float factor =
            __shfl_sync(~0u, factors[column / 32], column % 32 + lane + i);
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          int at = block * 4 + row * 2 + i;
          sums[at] += set[at] * factor;
        }
      }
    }
  }

  const float *rowBase, *columnBase; ///< of the batch
  // Offsets of scales, which the host keeps below 2^32.
  unsigned rowAt[kUnits][kRows], columnAt[kColumnLoads], rowStep, columnStep;
  int last;      ///< block of k
  int begin = 0; ///< of the consumer's columns in a block of B
  float ofRows[kUnits][kRows] = {}, ofColumns[kColumnLoads] = {};
  float nextOfRows[kUnits][kRows], nextOfColumns[kColumnLoads];
};

} // namespace kiln
