//===- attention/Sm90MlaConfig.h - knobs of MLA ---------------------------===//
#pragma once

#include "attention/AttentionSignature.h"
#include "common/Slab.h"

namespace kiln {

/// MLA for sm_90a, bf16 and fp16: V is the first columns of K, and all query
/// heads share them. A block has 64 rows of queries, packed heads of packed
/// tokens, and two consumers. Each makes the scores of every other block of
/// keys, and has half of the columns of O.
struct Sm90MlaConfig {
  /// Blocks of rows of one sequence that load keys together, each a part, by
  /// multicast.
  int cluster = 1;
  /// Pieces of a consumer's columns of O; keys are given back piece by piece.
  int pieces = 2;
  /// Run-time value: quarters of a block for each SM that splits make up.
  int fill = 4;

  static constexpr const char *kName = "sm90mla";

  template <class F> static constexpr void forEachField(F &&f) {
    f("cl", "cluster", &Sm90MlaConfig::cluster, 1);
    f("pc", "pieces", &Sm90MlaConfig::pieces, 2);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&f) {
    f("f", "fill", &Sm90MlaConfig::fill, 4);
  }

  static constexpr int kWarpgroup = 128;
  static constexpr int kConsumers = 2;
  static constexpr int kRows = 64; ///< of one wgmma, and of a block
  static constexpr int kKeys = 64; ///< of a block of keys
  static constexpr int kStages = kConsumers;
  static constexpr int kMostCluster = 4;
  /// A box of TMA begins where the swizzle repeats.
  static constexpr int kLeastBoxRows = 8;
  static constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;

  constexpr int threads() const { return (kConsumers + 1) * kWarpgroup; }
  constexpr int minBlocks() const { return 1; }
  /// Keys of a block that each block of the cluster loads.
  constexpr int loadedKeys() const { return kKeys / cluster; }
  /// The most boxes that these keys have, at one page each.
  constexpr int mostBoxes() const { return loadedKeys() / kLeastBoxRows; }

  // Slabs of 64 elements in the rows of Q and K.
  static constexpr int keySlabs(const AttentionSignature &s) {
    return (s.headDim + Slab::kElements - 1) / Slab::kElements;
  }
  static constexpr int valueSlabs(const AttentionSignature &s) {
    return s.valueDim / Slab::kElements;
  }
  /// Columns of O of a consumer, and of one of its pieces.
  static constexpr int width(const AttentionSignature &s) {
    return s.valueDim / kConsumers;
  }
  constexpr int pieceWidth(const AttentionSignature &s) const {
    return width(s) / pieces;
  }

  // Groups of slabs that are loaded and given back together: group 0 has the
  // slabs that are not in V, group 1 + 2 p + c has piece p of consumer c.
  constexpr int groups() const { return 1 + kConsumers * pieces; }
  static constexpr int pieceGroup(int piece, int consumer) {
    return 1 + kConsumers * piece + consumer;
  }
  constexpr int firstSlab(const AttentionSignature &s, int group) const {
    if (group == 0)
      return valueSlabs(s);
    int piece = (group - 1) / kConsumers, consumer = (group - 1) % kConsumers;
    return (consumer * pieces + piece) * slabCount(s, group);
  }
  constexpr int slabCount(const AttentionSignature &s, int group) const {
    return group == 0 ? keySlabs(s) - valueSlabs(s)
                      : valueSlabs(s) / (kConsumers * pieces);
  }

  // Shared memory: Q, two blocks of keys, a block of probabilities, and for
  // each row its greatest score and a consumer's sum.
  static constexpr int kSlabBytes = kRows * Slab::kBytes;
  static constexpr int tileBytes(const AttentionSignature &s) {
    return keySlabs(s) * kSlabBytes;
  }
  constexpr int barriers() const { return 2 * kStages * groups(); }
  static constexpr int kRowBytes = (1 + kConsumers) * kRows * 4;
  constexpr int sharedBytes(const AttentionSignature &s) const {
    return kAlignment + (1 + kStages) * tileBytes(s) + kSlabBytes + kRowBytes +
           barriers() * 8 + 2 * mostBoxes() * 4;
  }
  /// Alignment of swizzled tiles; dynamic shared memory is aligned to 16 bytes.
  static constexpr int kAlignment = 1024;

  constexpr bool isValid(const AttentionSignature &s) const {
    if (s.q != DType::BF16 && s.q != DType::FP16)
      return false;
    if (s.kv != s.q || s.out != s.q || s.align != 16 || s.scales)
      return false;
    if ((s.valueDim != 256 && s.valueDim != 512) || s.headDim % 16 != 0 ||
        s.headDim <= s.valueDim || s.headDim > s.valueDim + Slab::kElements)
      return false;
    return (cluster == 1 || cluster == 2 || cluster == kMostCluster) &&
           (pieces == 1 || pieces == 2 || pieces == 4) &&
           pieceWidth(s) >= Slab::kElements && fill >= 1;
  }

  friend constexpr bool operator==(const Sm90MlaConfig &,
                                   const Sm90MlaConfig &) = default;
};

} // namespace kiln
