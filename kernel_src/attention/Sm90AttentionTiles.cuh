//===- attention/Sm90AttentionTiles.cuh - tiles of wgmma attention --------===//
//
// What both roles share: where things lie in shared memory, which tile comes
// when, and which blocks of keys it reads.
//
// The producer decides which tile is next and leaves a note of it: lengths are
// read and divisions are made while consumers compute.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/AttentionRanges.h"
#include "attention/Sm90AttentionConfig.h"
#include "attention/Sm90AttentionParams.h"
#include "attention/Sm90AttentionSchedule.h"
#include "common/PtxSm90.cuh"

namespace kiln {

/// Shared memory of a block, as offsets in its window.
template <AttentionSignature kSignature, Sm90AttentionConfig kConfig>
struct Sm90AttentionShared {
  unsigned base;

  static constexpr int kQuery = kConfig.queryBytes(kSignature);
  static constexpr int kKey = kConfig.keyBytes(kSignature);
  /// Of V as it is stored, and as it is multiplied.
  static constexpr int kStored = kConfig.valueBytes(kSignature);
  static constexpr bool kTransposes = kConfig.transposesValues(kSignature);
  static constexpr int kValue =
      kTransposes ? kConfig.transposedBytes(kSignature) : kStored;
  static constexpr int kStages = kConfig.stages;
  static constexpr int kQueries = kConfig.queryBuffers(kSignature);
  static constexpr int kNotes = Sm90AttentionConfig::kNotes;

  /// Rows of a consumer, in slabs.
  unsigned query(int buffer, int consumer) const {
    return base + buffer * kQuery + consumer * (kQuery / kConfig.consumers);
  }
  unsigned key(int stage) const {
    return base + kQueries * kQuery + stage * kKey;
  }
  unsigned value(int stage) const { return key(kStages) + stage * kValue; }
  /// V as it comes in: what is multiplied, or what is still to be transposed.
  unsigned stored(int stage) const {
    return kTransposes ? value(kStages) + stage * kStored : value(stage);
  }
  /// The producer's note of its tile number \p tile.
  unsigned note(unsigned tile) const {
    return base + kConfig.tileBytes(kSignature) +
           tile % kNotes * Sm90AttentionConfig::kNoteBytes;
  }

  // Full: the note of a tile is written, and its Q is there.
  unsigned queryFull(int buffer) const { return barrier(buffer); }
  unsigned queryEmpty(int buffer) const { return barrier(kQueries + buffer); }
  unsigned keyFull(int stage) const { return barrier(2 * kQueries + stage); }
  unsigned keyEmpty(int stage) const {
    return barrier(2 * kQueries + kStages + stage);
  }
  unsigned valueFull(int stage) const {
    return barrier(2 * (kQueries + kStages) + stage);
  }
  unsigned valueEmpty(int stage) const {
    return barrier(2 * kQueries + 3 * kStages + stage);
  }
  unsigned storedFull(int stage) const {
    return kTransposes ? barrier(2 * kQueries + 4 * kStages + stage)
                       : valueFull(stage);
  }
  unsigned storedEmpty(int stage) const {
    return kTransposes ? barrier(2 * kQueries + 5 * kStages + stage)
                       : valueEmpty(stage);
  }
  /// For who transposes V: how many keys a stage has; none: that was all.
  unsigned count(int stage) const {
    return barrier(kConfig.barriers(kSignature)) + 4 * stage;
  }

private:
  unsigned barrier(int index) const {
    return note(0) + kNotes * Sm90AttentionConfig::kNoteBytes + index * 8;
  }
};

/// Whether blocks of V may hold anything behind the last key of a sequence, as
/// opposed to the zeros that TMA has beyond a tensor: a probability of zero
/// makes no NaN go away.
constexpr bool valuesEndInAnything(const AttentionSignature &signature) {
  return signature.pages != AttentionPages::None ||
         signature.keyLengths != AttentionLengths::Uniform;
}

/// Rows of some heads of a sequence, and the blocks of keys that they see.
struct Sm90AttentionTile {
  int batch = -1; ///< -1: no more tiles
  int head = 0;   ///< first of those that share the tile
  int split = 0;
  int token = 0;           ///< first of the tile's, of its sequence
  AttentionTokens queries; ///< of the sequence
  int keys = 0;            ///< likewise
  AttentionRange blocks;   ///< of keys that some row sees
  AttentionRange unmasked; ///< of keys that every row sees
};

/// Writes and reads the producer's note of a tile.
inline void writeTile(unsigned note, const Sm90AttentionTile &tile) {
  auto bits = [](int value) { return static_cast<unsigned>(value); };
  ptx::stShared128(note, {bits(tile.batch), bits(tile.head), bits(tile.split),
                          bits(tile.token)});
  ptx::stShared128(note + 16, {bits(tile.queries.first),
                               bits(tile.queries.count), bits(tile.keys), 0});
  ptx::stShared128(note + 32,
                   {bits(tile.blocks.begin), bits(tile.blocks.end),
                    bits(tile.unmasked.begin), bits(tile.unmasked.end)});
}
inline Sm90AttentionTile readTile(unsigned note) {
  uint4 a = ptx::ldShared128(note), b = ptx::ldShared128(note + 16),
        c = ptx::ldShared128(note + 32);
  auto number = [](unsigned bits) { return static_cast<int>(bits); };
  return {.batch = number(a.x),
          .head = number(a.y),
          .split = number(a.z),
          .token = number(a.w),
          .queries = {number(b.x), number(b.y)},
          .keys = number(b.z),
          .blocks = {number(c.x), number(c.y)},
          .unmasked = {number(c.z), number(c.w)}};
}

/// The tiles of a block of the grid, in order; for the producer.
template <AttentionSignature kSignature, Sm90AttentionConfig kConfig>
class Sm90AttentionWalk {
public:
  explicit Sm90AttentionWalk(const Sm90AttentionParams &params)
      : params(params),
        number(params.schedule.number(0, blockIdx.x, gridDim.x)) {}

  bool isDone() const { return number >= params.schedule.numbers(); }

  /// Goes on: blocks have tiles by turns, or draw the next number.
  void next() {
    if constexpr (kConfig.dynamic) {
      unsigned drawn = ptx::atomAddAcqRel(params.attention.counter, 1);
      number = gridDim.x + drawn;
      // Each block draws until there is no tile left: the last one of all
      // leaves the counter as it was.
      if (drawn + 1 == params.schedule.numbers())
        *params.attention.counter = 0;
    } else {
      number = params.schedule.number(++turn, blockIdx.x, gridDim.x);
    }
  }

  /// The tile, and where the keys of its sequence begin.
  Sm90AttentionTile tile(int &firstKey) const {
    const AttentionParams &attention = params.attention;
    Sm90AttentionPlace place = params.schedule.place(number);
    unsigned groups = attention.heads / kConfig.packed;
    unsigned unit = place.head / attention.splits;
    Sm90AttentionTile tile;
    tile.split = static_cast<int>(place.head % attention.splits);
    tile.head = static_cast<int>(unit % groups) * kConfig.packed;
    tile.batch = static_cast<int>(unit / groups);
    tile.token = static_cast<int>(place.rowBlock) * kConfig.tileTokens();
    tile.queries = queriesOf<kSignature>(attention, tile.batch);
    AttentionTokens keys = keysOfSequence<kSignature>(attention, tile.batch);
    tile.keys = keys.count;
    firstKey = keys.first;
    AttentionReach reach =
        reachOf(kSignature.mask, attention.left, attention.right);
    AttentionRange rows = {
        tile.token, min(tile.token + kConfig.tileTokens(), tile.queries.count)};
    AttentionRange any = keysOfAny(reach, rows, tile.queries.count, keys.count);
    AttentionRange all = keysOfAll(reach, rows, tile.queries.count, keys.count);
    if (attention.splits > 1) {
      any = keysOfSplit(any, tile.split, attention.splitKeys);
      all = keysOfSplit(all, tile.split, attention.splitKeys);
    }
    tile.blocks = blocksWith(any, kConfig.blockN);
    tile.unmasked = blocksWithin(all, kConfig.blockN);
    return tile;
  }

private:
  const Sm90AttentionParams &params;
  unsigned number, turn = 0;
};

} // namespace kiln
