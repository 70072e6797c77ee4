//===- attention/MmaAttentionConfig.h - knobs of mma.sync attention -------===//
#pragma once

#include "attention/AttentionSignature.h"

namespace kiln {

/// Layout of a tile in shared memory: rows of `dim` elements of 16 bits. The
/// 16-byte chunks of a row are permuted, or rows are padded where the number of
/// chunks does not allow that.
struct AttentionTileShape {
  int dim; ///< a multiple of 16
  bool swizzled;

  constexpr int rowBytes() const { return 2 * dim; }
  /// Whether an XOR of chunks stays within the row.
  constexpr bool permutes() const {
    return swizzled &&
           (rowBytes() == 32 || rowBytes() == 64 || rowBytes() % 128 == 0);
  }
  /// Bytes from row to row. An odd number of chunks keeps eight rows in
  /// different banks.
  constexpr int pitch() const {
    return rowBytes() + (swizzled && !permutes() ? 16 : 0);
  }
};

/// Attention by mma.sync, sm_80 and up. A block computes blockRows rows of
/// queries by `warps` warps, blockKeys keys at a time, with one tile each of Q,
/// K and V in shared memory. The fields are thirteen decisions in which
/// attention kernels differ, from the plainest to the fastest; their order is
/// the total order of configs.
struct MmaAttentionConfig {
  int dtype = 15;    ///< of the inputs, as numbered by torch: kFp16, kBf16
  int headDim = 128; ///< that tiles have: the greater of both, in steps of 16
  int blockRows = 64, blockKeys = 64;
  int warps = 4;
  /// 1: tiles are loaded by asynchronous copies; 0: through registers.
  int asyncCopy = 0;
  /// 1: K of the next step is in flight under this PV, V under this QK.
  int eagerLoads = 0;
  int swizzled = 0; ///< conflict-free layout of tiles; 0: plain rows
  /// 8-element columns of an operand that are loaded at once for a product: 2
  /// (one step of the instruction), or 0 for the whole tile.
  int queryTiles = 0, keyTiles = 0, valueTiles = 0;
  /// 1: an operand with such steps loads the next one while one multiplies.
  int doubleBuffer = 0;
  int optimizedSoftmax = 0; ///< exp2 with the scale folded in
  /// Run-time value of the host: MiB of the workspace for rows of K and V that
  /// a step ahead of the kernel collects; 0: the kernel reads them in place.
  int collectRoom = 0;

  static constexpr const char *kName = "mma";
  static constexpr int kFp16 = 5, kBf16 = 15;
  static constexpr int kFieldCount = 13;

  /// Visits the knobs of the translation unit: key, member name, member,
  /// default.
  template <class F> static constexpr void forEachField(F &&f) {
    f("dt", "dtype", &MmaAttentionConfig::dtype, 15);
    f("d", "headDim", &MmaAttentionConfig::headDim, 128);
    f("br", "blockRows", &MmaAttentionConfig::blockRows, 64);
    f("bc", "blockKeys", &MmaAttentionConfig::blockKeys, 64);
    f("w", "warps", &MmaAttentionConfig::warps, 4);
    f("ac", "asyncCopy", &MmaAttentionConfig::asyncCopy, 0);
    f("el", "eagerLoads", &MmaAttentionConfig::eagerLoads, 0);
    f("sw", "swizzled", &MmaAttentionConfig::swizzled, 0);
    f("qt", "queryTiles", &MmaAttentionConfig::queryTiles, 0);
    f("kt", "keyTiles", &MmaAttentionConfig::keyTiles, 0);
    f("vt", "valueTiles", &MmaAttentionConfig::valueTiles, 0);
    f("db", "doubleBuffer", &MmaAttentionConfig::doubleBuffer, 0);
    f("os", "optimizedSoftmax", &MmaAttentionConfig::optimizedSoftmax, 0);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&f) {
    f("cr", "collectRoom", &MmaAttentionConfig::collectRoom, 0);
  }

  static constexpr int dtypeOf(DType type) {
    return type == DType::FP16 ? kFp16 : type == DType::BF16 ? kBf16 : 0;
  }
  static constexpr int roundUp16(int dim) { return (dim + 15) / 16 * 16; }
  /// Head dimension of the tiles for \p signature.
  static constexpr int headDimOf(const AttentionSignature &signature) {
    int most = signature.headDim > signature.valueDim ? signature.headDim
                                                      : signature.valueDim;
    return roundUp16(most);
  }
  /// Shapes of the tiles of Q and K, and of V.
  constexpr AttentionTileShape
  keyShape(const AttentionSignature &signature) const {
    return {roundUp16(signature.headDim), swizzled != 0};
  }
  constexpr AttentionTileShape
  valueShape(const AttentionSignature &signature) const {
    return {roundUp16(signature.valueDim), swizzled != 0};
  }

  constexpr int threads() const { return 32 * warps; }
  /// Two blocks of 4 warps have as many registers as threads can have.
  constexpr int minBlocks() const { return warps == 4 ? 2 : 1; }
  /// Row tiles of 16, the instruction's height, that a warp has.
  constexpr int rowTiles() const { return blockRows / warps / 16; }

  /// Dynamic shared memory of a block. O is staged in the room of Q.
  constexpr int sharedBytes(const AttentionSignature &signature) const {
    int keyPitch = keyShape(signature).pitch();
    int valuePitch = valueShape(signature).pitch();
    int queryPitch = keyPitch > valuePitch ? keyPitch : valuePitch;
    return blockRows * queryPitch + blockKeys * (keyPitch + valuePitch);
  }

  /// Limits of the template itself; the pruner checks the limits of an
  /// architecture (shared memory, registers).
  constexpr bool isValid(const AttentionSignature &signature) const {
    return fitsSignature(signature) && hasShape() && hasSchedule();
  }
  constexpr bool fitsSignature(const AttentionSignature &signature) const {
    return dtypeOf(signature.q) == dtype && dtype != 0 &&
           signature.kv == signature.q && bytesOf(signature.out) == 2 &&
           headDim == headDimOf(signature) && headDim <= 256 &&
           signature.align >= 4;
  }
  /// Whether each warp has whole instructions, and its lanes can hold the page
  /// numbers for the rows of a tile.
  constexpr bool hasShape() const {
    return (warps == 4 || warps == 8) && blockRows > 0 &&
           blockRows % (16 * warps) == 0 && blockRows <= 256 && blockKeys > 0 &&
           blockKeys % 16 == 0 && blockKeys <= 128;
  }
  constexpr bool hasSchedule() const {
    return isFlag(asyncCopy) && isFlag(eagerLoads) && isFlag(swizzled) &&
           isFlag(doubleBuffer) && isFlag(optimizedSoftmax) &&
           isTiles(queryTiles) && isTiles(keyTiles) && isTiles(valueTiles) &&
           (asyncCopy != 0 || eagerLoads == 0);
  }

  /// Heads whose rows share a block, with the heads of one token next to each
  /// other: all heads of a head of K where that saves a tenth of the blocks,
  /// else 1.
  constexpr int packedHeads(long long queries, int group) const {
    long long together = blocksOf(queries * group);
    return 10 * together < 9 * blocksOf(queries) * group ? group : 1;
  }
  constexpr long long blocksOf(long long rows) const {
    return (rows + blockRows - 1) / blockRows;
  }

  friend constexpr bool operator==(const MmaAttentionConfig &,
                                   const MmaAttentionConfig &) = default;
  /// A total order: lexicographic by the fields.
  friend constexpr bool operator<(const MmaAttentionConfig &a,
                                  const MmaAttentionConfig &b) {
    int order = 0;
    forEachField(
        [&](const char *, const char *, int MmaAttentionConfig::*field, int) {
          if (order == 0)
            order = (a.*field > b.*field) - (a.*field < b.*field);
        });
    return order < 0;
  }

private:
  static constexpr bool isFlag(int value) { return value == 0 || value == 1; }
  static constexpr bool isTiles(int value) { return value == 0 || value == 2; }
};

} // namespace kiln
