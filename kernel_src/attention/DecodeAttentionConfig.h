//===- attention/DecodeAttentionConfig.h - knobs of the decode kernel -----===//
#pragma once

#include "attention/AttentionSignature.h"

namespace kiln {

/// Split-KV decoding by mma.sync, sm_80 and up: K and V pass few rows of
/// queries. A block has `rows` rows of the heads that share a head of K. Its
/// warps take tiles of keys in turn, each through a ring of `stages` tiles of
/// its own. Rows of O that do not fit into a warp's registers are divided:
/// `parts` warps share one ring and the same scores, and each has its own
/// columns of O.
struct DecodeAttentionConfig {
  int rows = 16;  ///< 8, 16 or 32
  int tile = 16;  ///< keys: 16 or 32
  int stages = 3; ///< tiles of a ring
  int warps = 4;
  int parts = 0;         ///< of the columns of O, each for a warp; 0: one
  int sharedQueries = 0; ///< 1: Q in shared memory, not in registers
  int cluster = 0;       ///< 1: the blocks of all splits are a cluster (sm_90)
  /// Run-time value: quarters of a block for each SM that splits make up.
  int fill = 4;
  /// Run-time value, of the host: MiB of the workspace for rows of K and V that
  /// a step ahead of the kernel collects; 0: it reads them where they are.
  int collectRoom = 0;

  static constexpr const char *kName = "decode";
  static constexpr int kMaxCluster = 8;

  template <class F> static constexpr void forEachField(F &&f) {
    f("r", "rows", &DecodeAttentionConfig::rows, 16);
    f("t", "tile", &DecodeAttentionConfig::tile, 16);
    f("st", "stages", &DecodeAttentionConfig::stages, 3);
    f("w", "warps", &DecodeAttentionConfig::warps, 4);
    f("p", "parts", &DecodeAttentionConfig::parts, 0);
    f("sq", "sharedQueries", &DecodeAttentionConfig::sharedQueries, 0);
    f("cl", "cluster", &DecodeAttentionConfig::cluster, 0);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&f) {
    f("f", "fill", &DecodeAttentionConfig::fill, 4);
    f("cr", "collectRoom", &DecodeAttentionConfig::collectRoom, 0);
  }

  constexpr int threads() const { return 32 * warps; }
  constexpr int minBlocks() const { return 1; }
  /// Warps that share a ring, and rings of a block.
  constexpr int partCount() const { return parts > 0 ? parts : 1; }
  constexpr int rings() const { return warps / partCount(); }
  /// Row tiles of the instruction, which has 16 rows.
  constexpr int rowTiles() const { return (rows + 15) / 16; }

  //===--------------------------------------------------------------------===//
  // Where things lie in shared memory
  //===--------------------------------------------------------------------===//

  /// Chunks of 16 bytes that are multiplied for a row of \p elements. The
  /// number is even: a row with an odd number gets a last chunk of zeros.
  static constexpr int chunks(int elements, DType type) {
    return (elements * bytesOf(type) + 31) / 32 * 2;
  }
  /// Bytes of a copy; addresses and rows are multiples of it.
  static constexpr int copyBytes(const AttentionSignature &s) {
    return s.align;
  }
  /// Lanes that copy a row of \p elements, \p bytes each at a time: a power of
  /// two that divides the number of pieces of a row. A quarter of the lanes may
  /// be idle where copies are smaller than 16 bytes and so many, or where a
  /// copy would load less than 64 bytes of a row (16 sequences of 8192 keys,
  /// H200: 190 us at head dim 104, with two lanes on a row, 104 us at 100).
  static constexpr int copyLanes(int elements, DType type, int bytes) {
    int pieces = chunks(elements, type) * 16 / bytes;
    int lanes = pieces & -pieces;
    constexpr int kFewLanes = 4;
    if (bytes < 16 || lanes < kFewLanes)
      for (int more = 2 * lanes; more <= 32; more *= 2)
        if ((pieces + more - 1) / more * more * 3 <= pieces * 4)
          lanes = more;
    return lanes < 32 ? lanes : 32;
  }
  /// Copies that one lane makes for a tile of K or of V.
  constexpr int copies(int elements, const AttentionSignature &s) const {
    int bytes = copyBytes(s), lanes = copyLanes(elements, s.kv, bytes);
    int pieces = chunks(elements, s.kv) * 16 / bytes;
    return (pieces + lanes - 1) / lanes * (tile * lanes / 32);
  }
  /// Bits of a chunk's index that are XORed with a phase of the row, so that
  /// the same chunk of eight rows falls into different banks. Rows of other
  /// sizes get an odd number of chunks for the same purpose. (Padding costs 4 %
  /// of the rate at which copies arrive on an H200, at rows of 256 bytes.)
  static constexpr int swizzleBits(int elements, DType type) {
    int count = chunks(elements, type);
    return count % 8 == 0 ? 7 : count % 4 == 0 ? 3 : 0;
  }
  static constexpr int phase(int elements, DType type, int row) {
    int bits = swizzleBits(elements, type);
    return (bits == 3 ? row >> 1 : row) & bits;
  }
  /// Bytes from row to row.
  static constexpr int pitch(int elements, DType type) {
    return (chunks(elements, type) + (swizzleBits(elements, type) ? 0 : 1)) *
           16;
  }
  /// Offset of chunk \p chunk of row \p row in a tile.
  static constexpr unsigned chunkOffset(int elements, DType type, int row,
                                        int chunk) {
    return row * pitch(elements, type) +
           (chunk ^ phase(elements, type, row)) * 16;
  }
  /// chunkOffset() of a chunk that lies \p chunk chunks, an even number, behind
  /// chunk 0 or 1 of the row, whose offset is \p at. The tile begins at a
  /// multiple of 128 bytes.
  static constexpr unsigned furtherChunk(int elements, DType type, unsigned at,
                                         int chunk) {
    unsigned bytes = chunk * 16, permuted = swizzleBits(elements, type) * 16;
    return (at ^ (bytes & permuted)) + (bytes & ~permuted);
  }
  constexpr int keyTileBytes(const AttentionSignature &s) const {
    return tile * pitch(s.headDim, s.kv);
  }
  /// A tile of K and one of V.
  constexpr int stageBytes(const AttentionSignature &s) const {
    return keyTileBytes(s) + tile * pitch(s.valueDim, s.kv);
  }
  /// Whether V may be the first columns of K, as in MLA: then the tile of K
  /// serves for both.
  constexpr bool mayShareTiles(const AttentionSignature &s) const {
    return partCount() > 1 && s.headDim > s.valueDim &&
           swizzleBits(s.headDim, s.kv) == 7 &&
           swizzleBits(s.valueDim, s.kv) == 7;
  }
  constexpr int ringBytes(const AttentionSignature &s) const {
    return stages * stageBytes(s);
  }

  /// Steps of 16 elements in which Q K^T is multiplied.
  static constexpr int keySteps(const AttentionSignature &s) {
    return chunks(s.headDim, s.kv) / bytesOf(s.kv);
  }
  /// Q as operands of the instruction: 16 bytes a lane for each row tile and
  /// step.
  constexpr int queryBytes(const AttentionSignature &s) const {
    return sharedQueries ? rowTiles() * keySteps(s) * 32 * 16 : 0;
  }

  /// Columns of O that are multiplied.
  static constexpr int valueCols(const AttentionSignature &s) {
    return chunks(s.valueDim, s.kv) * 16 / bytesOf(s.kv);
  }
  /// Columns of O of one warp; the last warps may have fewer, or none. The unit
  /// is a group of chunks that the permutation keeps together.
  constexpr int partCols(const AttentionSignature &s) const {
    int unit = swizzleBits(s.valueDim, s.kv) * 16 + 16;
    unit = (unit < 32 ? 32 : unit) / bytesOf(s.kv);
    int cols = (valueCols(s) + partCount() - 1) / partCount();
    return (cols + unit - 1) / unit * unit;
  }
  /// Floats from row to row of the sums that warps leave for the merge. Rows of
  /// accumulators start 8 banks apart.
  static constexpr int sumPitch(const AttentionSignature &s) {
    return valueCols(s) + 8;
  }
  /// Sums of `rows` rows, each with its greatest score and its total.
  constexpr int sumFloats(const AttentionSignature &s) const {
    return rows * (sumPitch(s) + 2);
  }
  /// Offset of Q: behind the rings, whose memory is used again for the sums of
  /// the warps and, in a cluster, for the sums of the block.
  constexpr int queryOffset(const AttentionSignature &s) const {
    int loads = rings() * ringBytes(s);
    int sums = (rings() + (cluster ? 1 : 0)) * sumFloats(s) * 4;
    return ((loads > sums ? loads : sums) + 15) / 16 * 16;
  }
  constexpr int sharedBytes(const AttentionSignature &s) const {
    return queryOffset(s) + queryBytes(s);
  }

  constexpr bool isValid(const AttentionSignature &s) const {
    bool kvFits = s.kv == DType::E4M3 || s.kv == s.q;
    if (!kvFits || s.align < 4 || s.headDim * bytesOf(s.kv) % s.align != 0 ||
        s.valueDim * bytesOf(s.kv) % s.align != 0 || s.headDim < 8 ||
        s.valueDim < 8 || s.headDim > 576 || s.valueDim > 576 ||
        s.headDim * bytesOf(s.q) % s.align != 0)
      return false;
    return (rows == 8 || rows == 16 || rows == 32) &&
           (tile == 16 || tile == 32) && stages >= 2 && stages <= 16 &&
           warps >= 1 && warps <= 16 && parts >= 0 &&
           warps % partCount() == 0 && cluster >= 0 && cluster <= 1 &&
           sharedQueries >= 0 && sharedQueries <= 1 && fill >= 1;
  }

  friend constexpr bool operator==(const DecodeAttentionConfig &,
                                   const DecodeAttentionConfig &) = default;
};

} // namespace kiln
