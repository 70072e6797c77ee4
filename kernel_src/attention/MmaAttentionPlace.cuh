//===- attention/MmaAttentionPlace.cuh - the rows of a block of mma -------===//
//
// The rows of Q and the keys of a block of `mma`, and the rows of a thread: see
// MmaAttention.cuh.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/AttentionRanges.h"
#include "attention/MmaAttentionConfig.h"
#include "common/Ptx.cuh"

namespace kiln {

/// The rows of one block. They belong to one sequence and one head, or, packed,
/// to the heads of one head of K: row r is of token r / pack, head r % pack.
template <AttentionSignature kSignature, MmaAttentionConfig kConfig>
struct MmaAttentionPlace {
  static constexpr int kWarpRows = 16 * kConfig.rowTiles();

  int sequence, head, kvHead;
  int pack;
  int firstRow;
  AttentionTokens queries, keys;

  /// Finds the rows; false: the block has no rows. The grid is rowBlocks *
  /// section blocks wide and has one row for every `section` heads, over all
  /// sequences, so that blocks that run together work on few heads. Within a
  /// section the row blocks with the most keys come first.
  bool locate(const AttentionParams &params) {
    int group = params.heads / params.kvHeads;
    pack = kConfig.packedHeads(params.queries, group);
    int heads = params.heads / pack;
    int rowBlocks = static_cast<int>(
        kConfig.blocksOf(static_cast<long long>(params.queries) * pack));
    int section = gridDim.x / rowBlocks;
    int x = ptx::ctaidX();
    int of = ptx::ctaidY() * section + x % section;
    sequence = of / heads;
    if (sequence >= params.batch)
      return false;
    head = (of - sequence * heads) * pack;
    kvHead = head / group;
    int rowBlock = x / section;
    if constexpr (kSignature.mask != AttentionMask::None)
      rowBlock = rowBlocks - 1 - rowBlock;
    firstRow = rowBlock * kConfig.blockRows;
    queries = queriesOf<kSignature>(params, sequence);
    keys = keysOfSequence<kSignature>(params, sequence);
    return firstRow < queries.count * pack;
  }

  static unsigned lane() { return threadIdx.x % 32; }
  static int warpRow() { return threadIdx.x / 32 * kWarpRows; }
  /// Row in the block for half \p half of row tile \p tile of this thread.
  static int rowOf(int tile, int half) {
    return warpRow() + tile * 16 + half * 8 + lane() / 4;
  }

  int rowCount() const { return queries.count * pack; } ///< of all blocks
  int tokenOf(int row) const { return (firstRow + row) / pack; }
  int headOf(int row) const { return head + (firstRow + row) % pack; }

  /// Queries of the block, in tokens.
  AttentionRange tokens() const {
    int last = min(firstRow + kConfig.blockRows, rowCount());
    return {firstRow / pack, (last - 1) / pack + 1};
  }
};

} // namespace kiln
