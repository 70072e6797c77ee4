//===- attention/Sm90AttentionOutput.cuh - from wgmma's sums to O ---------===//
//
// Rows of O go from registers to memory. Four lanes have a row's neighbouring
// columns, two each. They exchange them so that each lane has eight columns, 16
// bytes, and a row gets 64 bytes at a time. (A store through shared memory and
// TMA takes fewer instructions, but needs the place of Q or V, for which the
// next tile waits; and it works for whole tiles of a sequence only.)
//
// With split-KV the sums are stored in fp32 for the kernel that merges them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/AttentionColumns.cuh"
#include "attention/AttentionSoftmax.cuh"
#include "attention/DecodeSplits.h"
#include "attention/Sm90AttentionTiles.cuh"

namespace kiln {

template <AttentionSignature kSignature, Sm90AttentionConfig kConfig>
class Sm90AttentionOutput {
  static constexpr int kWidth = kConfig.valueWidth(kSignature);
  static constexpr int kPacked = kConfig.packed;
  /// Groups of eight columns that four lanes exchange.
  static constexpr int kGroups = kWidth / 8;

  using Tile = Sm90AttentionTile;

public:
  using Sums = float[kWidth / 2];
  using Softmax = AttentionSoftmax<kSignature, kConfig.blockN>;

  explicit Sm90AttentionOutput(const Sm90AttentionParams &params)
      : params(params) {}

  /// This thread of the block, as a value that is opaque to the compiler:
  /// values derived from it occupy no registers while tiles are computed.
  static unsigned thread() {
    unsigned value = threadIdx.x;
    ptx::opaque(value);
    return value;
  }

  /// The two rows of this thread. Idle rows get a token behind the last one.
  void rowsOf(const Tile &tile, AttentionRow (&rows)[2]) const {
    constexpr int kWarpgroup = Sm90AttentionConfig::kWarpgroup;
    int thread = this->thread(), consumer = thread / kWarpgroup;
    int first = thread % kWarpgroup / 32 * 16 + thread % 32 / 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      int row = first + i * 8;
      int token =
          tile.token + consumer * kConfig.consumerTokens() + row / kPacked;
      bool isIdle = kConfig.boxRows() < Sm90AttentionConfig::kUnit &&
                    row >= kConfig.boxRows();
      rows[i] = {tile.head + row % kPacked,
                 isIdle ? tile.queries.count : token};
      if constexpr (kConfig.ragged) {
        const AttentionParams &attention = params.attention;
        int group = attention.heads / attention.kvHeads;
        // Slopes and sinks are read for idle rows, too, so these get an
        // existing head.
        if (tile.head % group + row % kPacked >= group)
          rows[i] = {tile.head, tile.queries.count};
      }
    }
  }

  /// The head of K and V of the tile's heads.
  int keyHeadOf(const Tile &tile) const {
    const AttentionParams &attention = params.attention;
    return tile.head / (attention.heads / attention.kvHeads);
  }

  /// Ends the softmax of \p tile: stores the logarithms of its sums, and sets
  /// \p inverse to the factors for the rows of O.
  void finish(const Tile &tile, Softmax &softmax, float (&inverse)[2]) const {
    const AttentionParams &attention = params.attention;
    AttentionRow rows[2];
    rowsOf(tile, rows);
    float logSum[2];
    softmax.finish(rows, isPart() ? nullptr : attention.sinks, inverse, logSum);
    if constexpr (kSignature.scales) {
      float scale =
          scaleOf(attention, attention.vScale, tile.batch, keyHeadOf(tile));
      inverse[0] *= scale;
      inverse[1] *= scale;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
      storeLogSum(tile, rows[i], logSum[i]);
  }

  /// Stores the rows of \p tile.
  void store(const Tile &tile, const Sums &sums,
             const float (&inverse)[2]) const {
    AttentionRow rows[2];
    rowsOf(tile, rows);
#pragma unroll
    for (int i = 0; i < 2; ++i)
      if (isPart())
        storePart(tile, rows[i], sums + 2 * i, inverse[i]);
      else
        storeRow(tile, rows[i], sums + 2 * i, inverse[i]);
  }

  /// Stores the rows of a tile that sees no keys.
  void storeNothing(const Tile &tile) const {
    AttentionRow rows[2];
    rowsOf(tile, rows);
    Sums sums;
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i)
      sums[i] = 0.0f;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      storeLogSum(tile, rows[i], -Softmax::kInfinity);
      // The sums of a part without keys are never read.
      if (!isPart())
        storeRow(tile, rows[i], sums, 1.0f);
    }
  }

private:
  static int lane() { return thread() % 32; }
  bool isPart() const { return params.attention.splits > 1; }

  void storeLogSum(const Tile &tile, const AttentionRow &row,
                   float value) const {
    const AttentionParams &attention = params.attention;
    if (lane() % 4 != 0 || row.token >= tile.queries.count)
      return;
    if (isPart())
      attention.partialLse[partOf(tile, row)] = value;
    else if constexpr (kSignature.lse)
      attention.lse[lseOffset<kSignature>(attention, tile.batch, tile.queries,
                                          row.head, row.token)] = value;
  }

  /// Row of the partial results.
  long long partOf(const Tile &tile, const AttentionRow &row) const {
    const AttentionParams &attention = params.attention;
    return tile.split * partialRows<kSignature>(attention) +
           partialRow<kSignature>(attention, tile.batch, tile.queries, row.head,
                                  row.token);
  }

  /// \p sums: the sums of the row. This lane has two of every eight columns;
  /// the next two of them lie four behind.
  void storePart(const Tile &tile, const AttentionRow &row, const float *sums,
                 float inverse) const {
    if (row.token >= tile.queries.count)
      return;
    float *part = params.attention.partialO +
                  partOf(tile, row) * kSignature.valueDim + lane() % 4 * 2;
#pragma unroll
    for (int j = 0; j < kGroups; ++j)
      if (8 * j < kSignature.valueDim)
        *reinterpret_cast<float2 *>(part + 8 * j) = {sums[4 * j] * inverse,
                                                     sums[4 * j + 1] * inverse};
  }

  void storeRow(const Tile &tile, const AttentionRow &row, const float *sums,
                float inverse) const {
    bool exists = row.token < tile.queries.count;
    int quarter = lane() % 4;
    unsigned short *o =
        static_cast<unsigned short *>(params.attention.o) +
        queryOffset<kSignature>(params.attention.oStrides, tile.batch,
                                tile.queries, row.head, row.token) +
        quarter * 8;
#pragma unroll
    for (int j = 0; j < kGroups; j += 4) {
      unsigned bits[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        bits[i] =
            j + i < kGroups
                ? packPair<kSignature.out>(sums[4 * (j + i)] * inverse,
                                           sums[4 * (j + i) + 1] * inverse)
                : 0;
      exchangeColumns(bits, quarter);
      if (exists && 8 * j + quarter * 8 < kSignature.valueDim)
        ptx::stGlobal128(o + 8 * j, {bits[0], bits[1], bits[2], bits[3]});
    }
  }

  const Sm90AttentionParams &params;
};

} // namespace kiln
