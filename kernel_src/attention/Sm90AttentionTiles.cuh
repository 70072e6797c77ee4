//===- attention/Sm90AttentionTiles.cuh - tiles of wgmma attention --------===//
//
// The parts that producer and consumers share: the layout of shared memory, the
// order of tiles, and the blocks of keys that a tile reads.
//
// The producer decides which tile is next and leaves a note of it: it reads
// lengths and makes divisions while consumers compute.
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
  /// Bytes of V as it is stored, and as it is multiplied.
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
  /// V as it is loaded: ready to multiply, or still to be transposed.
  unsigned stored(int stage) const {
    return kTransposes ? value(kStages) + stage * kStored : value(stage);
  }
  /// The producer's note of its tile number \p tile.
  unsigned note(unsigned tile) const {
    return base + kConfig.tileBytes(kSignature) +
           tile % kNotes * Sm90AttentionConfig::kNoteBytes;
  }

  // Full: the note of a tile is written, and its Q is loaded.
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
  /// For the warps that transpose V: the number of keys of a stage; none: the
  /// end.
  unsigned count(int stage) const {
    return barrier(kConfig.barriers(kSignature)) + 4 * stage;
  }

private:
  unsigned barrier(int index) const {
    return note(0) + kNotes * Sm90AttentionConfig::kNoteBytes + index * 8;
  }
};

/// Whether blocks of V may hold anything behind the last key of a sequence, as
/// opposed to the zeros that TMA gives beyond a tensor: a probability of zero
/// does not remove a NaN.
constexpr bool valuesEndInAnything(const AttentionSignature &signature) {
  return signature.pages != AttentionPages::None ||
         signature.keyLengths != AttentionLengths::Uniform;
}

/// Rows of some heads of a sequence, and the blocks of keys that they see.
struct Sm90AttentionTile {
  int batch = -1; ///< -1: no more tiles
  int head = 0;   ///< first of the heads that share the tile
  int split = 0;
  int token = 0;           ///< first of the tile, within its sequence
  AttentionTokens queries; ///< of the sequence
  int keys = 0;            ///< likewise
  int firstKey = 0;        ///< where the sequence's keys begin
  AttentionRange blocks;   ///< of keys that some row sees
  AttentionRange unmasked; ///< of keys that every row sees
};

/// The blocks of a tile that some row of a consumer sees are contiguous. These
/// are the numbers of blocks in front of them and behind them, 16 bits each.
struct Sm90AttentionPart {
  int front = 0, back = 0;

  static constexpr int kMost = 0xffff;
};

/// Decides how the transition between tiles is made cheaper.
template <AttentionSignature kSignature, Sm90AttentionConfig kConfig>
struct Sm90AttentionSeam {
  /// Whether Q of the next tile is loaded during this tile, into a buffer of
  /// its own, and not behind this tile's last block of K.
  static constexpr bool kBringsQueriesAhead =
      kConfig.queryBuffers(kSignature) > 1;
  static constexpr bool kIsCausal = kSignature.mask == AttentionMask::Causal;
  static constexpr bool kIsWindow = kSignature.mask == AttentionMask::Window;
  /// Whether registers run short (ptxas 13.0): with two consumers for windows
  /// of great head dims; with three where scores have softcap or slopes, where
  /// windows have to tell idle rows apart, and for e4m3.
  static constexpr bool kIsTight = [] {
    if (kConfig.consumers < 3)
      return kIsWindow && kConfig.valueWidth(kSignature) > 128;
    return kSignature.softcap || kSignature.alibi ||
           kConfig.transposesValues(kSignature) ||
           (kIsWindow && kConfig.packed > 1);
  }();
  /// Whether the loop uses at most \p ofTwo registers with two consumers, or
  /// \p ofThree with three.
  static constexpr bool usesAtMost(int ofTwo, int ofThree) {
    int most = kConfig.consumers > 2 ? ofThree : ofTwo;
    return !kIsTight && kConfig.registerUse(kSignature) <= most;
  }
  /// Whether a tile's softmax ends while the first scores of the next tile are
  /// computed, which needs registers.
  static constexpr bool kEndsLate = !kSignature.scales && usesAtMost(184, 120);
  /// Whether there are stages for all blocks at an end of a tile that one
  /// consumer sees and another does not. In windows some of these blocks are
  /// read last: these and the block before them hold stages of V while a
  /// consumer waits for the next tile's keys, which are loaded behind all
  /// values of this tile.
  static constexpr bool hasRoomToSkip() {
    int tokens = (kConfig.consumers - 1) * kConfig.consumerTokens();
    int blocks = (tokens + kConfig.blockN - 1) / kConfig.blockN;
    return blocks + (kIsWindow ? 1 : 0) <= kConfig.stages;
  }
  /// Whether a consumer skips blocks that none of its rows sees. Where blocks
  /// are a multiple of tiles the diagonal leaves none to skip, and with more
  /// registers in use (head dim 256) the loop grows by 7 %.
  static constexpr bool kSkips = kSignature.mask != AttentionMask::None &&
                                 kConfig.consumers > 1 &&
                                 kConfig.blockN % kConfig.tileTokens() != 0 &&
                                 hasRoomToSkip() &&
                                 usesAtMost(184, kIsCausal ? 128 : 120);
};

/// Writes and reads the producer's note of a tile.
inline void writeTile(unsigned note, const Sm90AttentionTile &tile) {
  auto bits = [](int value) { return static_cast<unsigned>(value); };
  ptx::stShared128(note, {bits(tile.batch), bits(tile.head), bits(tile.split),
                          bits(tile.token)});
  ptx::stShared128(note + 16,
                   {bits(tile.queries.first), bits(tile.queries.count),
                    bits(tile.keys), bits(tile.firstKey)});
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
          .firstKey = number(b.w),
          .blocks = {number(c.x), number(c.y)},
          .unmasked = {number(c.z), number(c.w)}};
}

/// Adds to the note of a tile the part of each consumer.
inline void writePart(unsigned note, int consumer,
                      const Sm90AttentionPart &part) {
  ptx::stShared32(note + 48 + 4 * consumer,
                  static_cast<unsigned>(part.front | part.back << 16));
}
inline Sm90AttentionPart readPart(unsigned note, int consumer) {
  unsigned bits = ptx::ldShared32(note + 48 + 4 * consumer);
  return {static_cast<int>(bits & 0xffff), static_cast<int>(bits >> 16)};
}

/// The blocks of keys that some rows of a tile see.
struct Sm90AttentionSight {
  AttentionRange blocks, unmasked; ///< as in Sm90AttentionTile
};

/// The sight of \p tokens tokens of \p tile, from \p first on.
template <AttentionSignature kSignature, Sm90AttentionConfig kConfig>
Sm90AttentionSight sightOf(const AttentionParams &params,
                           const Sm90AttentionTile &tile, int first,
                           int tokens) {
  AttentionReach reach = reachOf(kSignature.mask, params.left, params.right);
  int queries = tile.queries.count;
  AttentionRange rows = {first, min(first + tokens, queries)};
  AttentionRange any = keysOfAny(reach, rows, queries, tile.keys);
  AttentionRange all = keysOfAll(reach, rows, queries, tile.keys);
  if (params.splits > 1) {
    any = keysOfSplit(any, tile.split, params.splitKeys);
    all = keysOfSplit(all, tile.split, params.splitKeys);
  }
  return {.blocks = blocksWith(any, kConfig.blockN),
          .unmasked = blocksWithin(all, kConfig.blockN)};
}

/// Writes the parts of \p tile. If a note cannot count the blocks, every
/// consumer gets all of them.
template <AttentionSignature kSignature, Sm90AttentionConfig kConfig>
void writeParts(unsigned note, const AttentionParams &params,
                const Sm90AttentionTile &tile) {
  constexpr int kTokens = kConfig.consumerTokens();
#pragma unroll 1
  for (int consumer = 0; consumer < kConfig.consumers; ++consumer) {
    Sm90AttentionPart part;
    if (tile.blocks.size() > 0 &&
        tile.blocks.size() <= Sm90AttentionPart::kMost) {
      AttentionRange seen =
          sightOf<kSignature, kConfig>(params, tile,
                                       tile.token + consumer * kTokens, kTokens)
              .blocks;
      if (seen.size() > 0)
        part = {seen.begin - tile.blocks.begin, tile.blocks.end - seen.end};
      else
        part = {0, tile.blocks.size()};
    }
    writePart(note, consumer, part);
  }
}

/// The tiles of a block of the grid, in order. Only the producer has them.
template <AttentionSignature kSignature, Sm90AttentionConfig kConfig>
class Sm90AttentionWalk {
public:
  explicit Sm90AttentionWalk(const Sm90AttentionParams &params)
      : params(params),
        number(params.schedule.number(0, blockIdx.x, gridDim.x)) {}

  bool isDone() const { return number >= params.schedule.numbers(); }

  /// Advances to the next tile: a fixed turn, or the next number drawn.
  void next() {
    if constexpr (kConfig.dynamic) {
      unsigned drawn = ptx::atomAddAcqRel(params.attention.counter, 1);
      number = gridDim.x + drawn;
      // Each block draws until no tile is left. The last block to do so resets
      // the counter.
      if (drawn + 1 == params.schedule.numbers())
        *params.attention.counter = 0;
    } else {
      number = params.schedule.number(++turn, blockIdx.x, gridDim.x);
    }
  }

  Sm90AttentionTile tile() const {
    const AttentionParams &attention = params.attention;
    Sm90AttentionPlace place = params.schedule.place(number);
    unsigned groups = attention.heads / kConfig.packed;
    unsigned group = 1, ofGroup = 1; // heads, and tiles of them
    if constexpr (kConfig.ragged) {
      group = attention.heads / attention.kvHeads;
      ofGroup = (group + kConfig.packed - 1) / kConfig.packed;
      groups = attention.kvHeads * ofGroup;
    }
    unsigned unit = place.head / attention.splits;
    Sm90AttentionTile tile;
    tile.split = static_cast<int>(place.head % attention.splits);
    unsigned inBatch = unit % groups;
    tile.head = static_cast<int>(inBatch) * kConfig.packed;
    if constexpr (kConfig.ragged)
      tile.head = static_cast<int>(inBatch / ofGroup * group +
                                   inBatch % ofGroup * kConfig.packed);
    tile.batch = static_cast<int>(unit / groups);
    tile.token = static_cast<int>(place.rowBlock) * kConfig.tileTokens();
    tile.queries = queriesOf<kSignature>(attention, tile.batch);
    AttentionTokens keys = keysOfSequence<kSignature>(attention, tile.batch);
    tile.keys = keys.count;
    tile.firstKey = keys.first;
    Sm90AttentionSight sight = sightOf<kSignature, kConfig>(
        attention, tile, tile.token, kConfig.tileTokens());
    tile.blocks = sight.blocks;
    tile.unmasked = sight.unmasked;
    return tile;
  }

private:
  const Sm90AttentionParams &params;
  unsigned number, turn = 0;
};

} // namespace kiln
