//===- attention/Sm90AttentionConfig.h - knobs of wgmma attention ---------===//
#pragma once

#include "attention/AttentionSignature.h"
#include "common/Slab.h"
#include "common/Types.h"

namespace kiln {

/// Warp-specialised wgmma attention for sm_90a, bf16, fp16 and e4m3: the
/// prefill of a transformer. One producer loads Q and blocks of K and V by TMA.
/// Each of `consumers` warpgroups has 64 rows of queries, their scores, their
/// running softmax and their part of O in registers. The producer's other warps
/// transpose V of e4m3.
struct Sm90AttentionConfig {
  int consumers = 2;
  int blockN = 128; ///< keys of a block
  int stages = 2;   ///< blocks of K, and of V, in flight
  int ordered = 0;  ///< 1: consumers issue their products in turns
  int dynamic = 0;  ///< 1: blocks draw tiles from a counter, longest first
  /// Query heads of one head of K whose rows share a tile.
  int packed = 1;
  /// 1: `packed` does not divide the query heads of a head of K; the last tile
  /// of a head of K has fewer.
  int ragged = 0;
  /// 1: K and V are rows that a step ahead of the kernel has collected.
  int collected = 0;
  int splits = 1; ///< run-time value; parts of a sequence's keys
  /// Run-time value of the host: MiB of the workspace for collected rows.
  int collectRoom = 0;

  static constexpr const char *kName = "sm90";

  template <class F> static constexpr void forEachField(F &&f) {
    f("wg", "consumers", &Sm90AttentionConfig::consumers, 2);
    f("bn", "blockN", &Sm90AttentionConfig::blockN, 128);
    f("st", "stages", &Sm90AttentionConfig::stages, 2);
    f("or", "ordered", &Sm90AttentionConfig::ordered, 0);
    f("dy", "dynamic", &Sm90AttentionConfig::dynamic, 0);
    f("pk", "packed", &Sm90AttentionConfig::packed, 1);
    f("rg", "ragged", &Sm90AttentionConfig::ragged, 0);
    f("kc", "collected", &Sm90AttentionConfig::collected, 0);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&f) {
    f("sp", "splits", &Sm90AttentionConfig::splits, 1);
    f("cr", "collectRoom", &Sm90AttentionConfig::collectRoom, 0);
  }

  static constexpr int kWarpgroup = 128;
  /// Rows of one wgmma, which are those of a consumer.
  static constexpr int kUnit = 64;
  /// The producer's notes of tiles. A note is read until the rows of its tile
  /// are stored; by then the scores of the next tile are issued and its Q is
  /// given back. So the producer may write the notes of two more tiles
  /// meanwhile.
  static constexpr int kNotes = 4, kNoteBytes = 64;

  constexpr int threads() const { return (consumers + 1) * kWarpgroup; }
  constexpr int minBlocks() const { return 1; }
  /// With one consumer the registers of the launch suffice for all warps.
  constexpr bool tradesRegisters() const { return consumers > 1; }
  constexpr int producerRegisters() const { return consumers > 2 ? 32 : 40; }
  constexpr int consumerRegisters() const { return consumers > 2 ? 160 : 232; }

  /// Query tokens of a consumer. Its rows are one token after the other, with
  /// the packed heads of a token next to each other; rows behind them are idle.
  constexpr int consumerTokens() const { return kUnit / packed; }
  constexpr int tileTokens() const { return consumers * consumerTokens(); }
  constexpr int boxRows() const { return consumerTokens() * packed; }
  constexpr bool hasIdleRows() const { return ragged || boxRows() < kUnit; }
  /// Tiles that the \p group heads of a head of K need for one token.
  constexpr long long groupTiles(long long group) const {
    return (group + packed - 1) / packed;
  }

  /// wgmma multiplies e4m3 only with k contiguous, and k of P V are keys.
  static constexpr bool transposesValues(const AttentionSignature &signature) {
    return signature.q == DType::E4M3;
  }
  /// Warps that transpose: the producer's except the warp that loads.
  static constexpr int kTransposers = 3;

  // Slabs of 128 bytes along the rows of Q and K, and along those of V.
  static constexpr int slabElements(const AttentionSignature &signature) {
    return Slab::elements(bytesOf(signature.q));
  }
  static constexpr int slabsOf(int elements, int slabElements) {
    return (elements + slabElements - 1) / slabElements;
  }
  static constexpr int keySlabs(const AttentionSignature &signature) {
    return slabsOf(signature.headDim, slabElements(signature));
  }
  static constexpr int valueSlabs(const AttentionSignature &signature) {
    return slabsOf(signature.valueDim, slabElements(signature));
  }
  /// Elements along k of one wgmma.
  static constexpr int stepDepth(const AttentionSignature &signature) {
    return 32 / bytesOf(signature.q);
  }
  /// Elements of a row that are multiplied; TMA fills up with zeros.
  static constexpr int keyDepth(const AttentionSignature &signature) {
    int step = stepDepth(signature);
    return (signature.headDim + step - 1) / step * step;
  }
  static constexpr int valueWidth(const AttentionSignature &signature) {
    return (signature.valueDim + 15) / 16 * 16;
  }

  static constexpr int kSlabBytes = kUnit * Slab::kBytes; ///< of one consumer
  constexpr int queryBytes(const AttentionSignature &signature) const {
    return consumers * keySlabs(signature) * kSlabBytes;
  }
  constexpr int keyBytes(const AttentionSignature &signature) const {
    return keySlabs(signature) * blockN * Slab::kBytes;
  }
  constexpr int valueBytes(const AttentionSignature &signature) const {
    return valueSlabs(signature) * blockN * Slab::kBytes;
  }
  /// Slabs of transposed V, along the keys.
  constexpr int transposedSlabs(const AttentionSignature &signature) const {
    return slabsOf(blockN, slabElements(signature));
  }
  constexpr int transposedBytes(const AttentionSignature &signature) const {
    return transposesValues(signature)
               ? transposedSlabs(signature) * valueWidth(signature) *
                     Slab::kBytes
               : 0;
  }
  constexpr int ringBytes(const AttentionSignature &signature) const {
    return stages * (keyBytes(signature) + valueBytes(signature) +
                     transposedBytes(signature));
  }
  /// Two buffers of Q where there is room: then the next tile's Q is loaded
  /// during this tile, else during its last block.
  constexpr int queryBuffers(const AttentionSignature &signature) const {
    return 2 * queryBytes(signature) + ringBytes(signature) + kOverhead <=
                   kMostShared
               ? 2
               : 1;
  }
  /// Full and empty barriers of Q, of each stage of K and V, and of transposed
  /// V.
  constexpr int barriers(const AttentionSignature &signature) const {
    return 2 * queryBuffers(signature) +
           (transposesValues(signature) ? 6 : 4) * stages;
  }
  /// The number of keys that the producer announces for each stage of V to the
  /// warps that transpose it.
  constexpr int countBytes(const AttentionSignature &signature) const {
    return transposesValues(signature) ? 4 * stages : 0;
  }
  constexpr int tileBytes(const AttentionSignature &signature) const {
    return queryBuffers(signature) * queryBytes(signature) +
           ringBytes(signature);
  }
  constexpr int sharedBytes(const AttentionSignature &signature) const {
    return kAlignment + tileBytes(signature) + kNotes * kNoteBytes +
           barriers(signature) * 8 + countBytes(signature);
  }
  /// Alignment of swizzled tiles; dynamic shared memory is aligned to 16 bytes.
  static constexpr int kAlignment = 1024;
  static constexpr int kOverhead = kAlignment + 512;
  /// Shared memory of a block on sm_90, the only architecture of this template.
  static constexpr int kMostShared = 232448;

  /// Registers of a thread for scores, probabilities and sums.
  constexpr int registerUse(const AttentionSignature &signature) const {
    return blockN / 2 + blockN * bytesOf(signature.q) / 8 +
           valueWidth(signature) / 2;
  }
  constexpr bool isValid(const AttentionSignature &signature) const {
    bool isE4M3 = signature.q == DType::E4M3;
    if (signature.kv != signature.q || signature.align != 16)
      return false;
    if (signature.out != DType::BF16 && signature.out != DType::FP16)
      return false;
    if (!isE4M3 && signature.out != signature.q)
      return false;
    if (signature.headDim % 8 != 0 || signature.valueDim % 8 != 0 ||
        signature.headDim < 8 || signature.valueDim < 8 ||
        signature.headDim > 256 || signature.valueDim > 256)
      return false;
    return consumers >= 1 && consumers <= 3 && blockN >= 16 && blockN <= 256 &&
           blockN % stepDepth(signature) == 0 && stages >= 2 && stages <= 4 &&
           ordered >= 0 && ordered <= (consumers > 1) && dynamic >= 0 &&
           dynamic <= 1 && packed >= 1 && packed <= kUnit && ragged >= 0 &&
           ragged <= (packed > 1) && splits >= 1;
  }

  friend constexpr bool operator==(const Sm90AttentionConfig &,
                                   const Sm90AttentionConfig &) = default;
};

} // namespace kiln
