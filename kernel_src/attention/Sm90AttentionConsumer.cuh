//===- attention/Sm90AttentionConsumer.cuh - a consumer's tiles -----------===//
//
// A warpgroup with 64 rows of each tile: see Sm90Attention.cuh.
//
// Scores, probabilities and sums take nearly all registers. All other values of
// a tile are read again from the producer's note where they are needed, and one
// number says which stage comes next.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/AttentionSoftmax.cuh"
#include "attention/Sm90AttentionOutput.cuh"
#include "attention/Sm90AttentionTiles.cuh"
#include "common/Ring.cuh"
#include "common/SlabTile.cuh"
#include "common/WgmmaRegisters.cuh"

namespace kiln {

template <AttentionSignature kSignature, Sm90AttentionConfig kConfig>
class Sm90AttentionConsumer {
  static constexpr int kConsumers = kConfig.consumers;
  static constexpr int kBlock = kConfig.blockN;
  static constexpr int kWarpgroup = Sm90AttentionConfig::kWarpgroup;
  static constexpr int kKeySlabs = kConfig.keySlabs(kSignature);
  static constexpr int kValueSlabs = kConfig.valueSlabs(kSignature);
  static constexpr int kDepth = kConfig.keyDepth(kSignature);
  static constexpr int kWidth = kConfig.valueWidth(kSignature);
  /// Scores of a thread whose weights are made while the product with V runs;
  /// the others are made behind the wait for it. Half of them is best for long
  /// rows, none for short rows (H200: 1 to 3 %).
  static constexpr int kEarly =
      kWidth > 64 && kConsumers < 3 ? kBlock / 4 / 4 * 4 : 0;
  /// As kEarly, for steps that raise origins. With two consumers it is three
  /// quarters under a mask and for e4m3.
  static constexpr bool kDelays =
      kSignature.mask != AttentionMask::None ||
      (kSignature.q == DType::E4M3 && kConsumers < 3);
  static constexpr int kEarlyRaised =
      kDelays && kConsumers < 3 ? kBlock / 2 / 4 * 3 / 8 * 8 : kBlock / 2;
  static constexpr bool kWindow = kSignature.mask == AttentionMask::Window;
  /// Elements along k of a product.
  static constexpr int kStep = kConfig.stepDepth(kSignature);
  static constexpr bool kTransposed = kConfig.transposesValues(kSignature);
  static constexpr int kElementBytes = bytesOf(kSignature.q);
  static constexpr int kSlabElements = kConfig.slabElements(kSignature);
  /// Whether weights are made over the origins of the blocks before. Scores
  /// with softcap or slopes take too many registers to be made in two places.
  static constexpr bool kKeepsOrigins =
      !kSignature.softcap && !kSignature.alibi;
  /// Idle rows are those behind the boxes of Q, which no copy fills, and those
  /// behind a group's heads.
  static constexpr bool kHasIdleRows = kConfig.hasIdleRows();
  /// With one buffer of Q the next tile's Q waits for the last scores of this
  /// tile, so Q is given back early and these scores are not computed again.
  static constexpr bool kGivesQueriesEarly =
      kConfig.queryBuffers(kSignature) == 1;
  /// V may hold anything behind the last key. (The warps that transpose V clear
  /// that themselves.)
  static constexpr bool kClearsTail =
      !kTransposed && valuesEndInAnything(kSignature);

  using Shared = Sm90AttentionShared<kSignature, kConfig>;
  using Tile = Sm90AttentionTile;
  using Part = Sm90AttentionPart;
  using Seam = Sm90AttentionSeam<kSignature, kConfig>;
  using Output = Sm90AttentionOutput<kSignature, kConfig>;
  using Softmax = AttentionSoftmax<kSignature, kBlock>;
  using Place = RingCount<kConfig.stages>;
  using Queries = RingCount<kConfig.queryBuffers(kSignature)>;
  static constexpr int kRowElements = kKeySlabs * kSlabElements;
  using QueryTile = SlabTile<true, 64, kRowElements, kElementBytes>;
  using KeyTile = SlabTile<true, kBlock, kRowElements, kElementBytes>;
  using ValueTile =
      SlabTile<kTransposed, kTransposed ? kWidth : kValueSlabs * kSlabElements,
               kTransposed ? kConfig.transposedSlabs(kSignature) * kSlabElements
                           : kBlock,
               kElementBytes>;
  using Scores = typename Softmax::Scores;
  using Probabilities = typename Softmax::Probabilities;
  using Sums = typename Output::Sums;
  /// Factors of a thread's two rows.
  struct Factors {
    float row[2];
  };

public:
  /// \p role: number of the consumer, which the compiler knows to be the same
  /// in all lanes.
  Sm90AttentionConsumer(const Sm90AttentionParams &params, const Shared &shared,
                        int role)
      : params(params), shared(shared), role(role), output(params),
        softmax(params.attention),
        queries(QueryTile::descriptor(shared.query(0, role))),
        keys(KeyTile::descriptor(shared.key(0))),
        values(ValueTile::descriptor(shared.value(0))) {}

  void run() {
    // The first turn is open from the start.
    if constexpr (kConfig.ordered)
      if (consumer() == 0)
        ptx::barArrive(turn(0), 2 * kWarpgroup);
#pragma unroll 1
    for (;;) {
      waitForTile(number);
      Tile tile = ownOf(number);
      if (tile.batch < 0)
        break;
      pass(partOf(number).back);
      if (tile.blocks.size() > 0) {
        attend(tile);
      } else {
        barrier(); // all threads have read the note
        releaseOfWarp(shared.queryEmpty(number.stage()));
        output.storeNothing(tile);
        number = number.next();
      }
    }
    if constexpr (kConfig.ordered)
      if (consumer() == 0)
        ptx::barSync(turn(0), 2 * kWarpgroup);
  }

private:
  /// Computes \p tile and the tiles behind it, up to the first one without
  /// keys.
  void attend(Tile tile) {
    Scores scores;
    Probabilities probabilities;
    Sums sums;
    float inverse[2];
    int block = tile.blocks.end - 1;

    // The first block: there is no product to overlap with.
    softmax.reset(tile.batch, output.keyHeadOf(tile));
    waitForKeys(place);
    if constexpr (Seam::kSkips)
      waitForTurn();
    ptx::pin(scores);
    ptx::wgmmaFence();
    multiplyKeys(place, scores);
    if constexpr (Seam::kSkips)
      endTurn();
    ptx::wgmmaWait<0>();
    ptx::pin(scores);
    releaseKeys(place, block == tile.blocks.begin);
    weighFirst(tile, block, scores);
    Softmax::round(scores, probabilities);
    clearTail(tile);
    clear(sums);

#pragma unroll 1
    for (;;) {
#pragma unroll 1
      for (--block; __any_sync(~0u, block >= tile.blocks.begin); --block) {
        issue(place.next(), scores, probabilities, sums, [] {});
        bool isLast = block == tile.blocks.begin;
        // The vote tells ptxas that warps do not diverge here.
        if (!kKeepsOrigins || __any_sync(~0u, isSlow(tile, block))) {
          releaseKeys(place.next(), isLast);
          Factors from, shrink = raise<false>(tile, block, scores, from);
          softmax.template weighAll<0, kEarlyRaised>(scores, from.row);
          if constexpr (kDelays)
            softmax.pin(scores);
          endValues<kDelays>(block, sums, probabilities);
          softmax.template weighAll<kEarlyRaised, kBlock / 2>(scores, from.row);
          scale(sums, shrink);
        } else {
          float part[2] = {};
          softmax.template weigh<0, kEarly>(scores, softmax.origins(), part);
          if constexpr (kEarly > 0)
            Softmax::pin(scores, part);
          endValues<(kEarly > 0)>(block, sums, probabilities);
          softmax.template weigh<kEarly, kBlock / 2>(scores, softmax.origins(),
                                                     part);
          if (__any_sync(~0u, Softmax::isTooMuch(part))) {
            Factors shrink = amend(scores, part);
            scale(sums, shrink);
          }
          softmax.add(part);
          releaseKeys(place.next(), isLast);
        }
        place = place.next();
        Softmax::round(scores, probabilities);
      }
      // The next scores belong to the next tile.
      waitForTile(number.next());
      tile = ownOf(number.next());
      if (__any_sync(~0u, tile.blocks.size() == 0 ||
                              passedBefore(number.next()) > kConfig.stages))
        break;
      number = number.next();
      block = tile.blocks.end - 1;
      auto finish = [&] {
        output.finish(tileOf(number.last()), softmax, inverse);
        softmax.reset(tile.batch, output.keyHeadOf(tile));
      };
      if constexpr (!Seam::kEndsLate)
        finish();
      Place at = place.next();
      if constexpr (Seam::kSkips)
#pragma unroll 1
        for (int i = passedBefore(number); __any_sync(~0u, i > 0); --i) {
          passKeys(at);
          at = at.next();
        }
      issue(at, scores, probabilities, sums, [&] {
        if constexpr (Seam::kEndsLate)
          finish();
      });
      releaseKeys(at, block == tile.blocks.begin);
      weighFirst(tile, block, scores);
      waitForValues(sums, probabilities);
      release(shared.valueEmpty(place.stage()));
      place = place.next();
      if constexpr (Seam::kSkips)
#pragma unroll 1
        for (int i = passedBefore(number); __any_sync(~0u, i > 0); --i) {
          passValues(place);
          place = place.next();
        }
      output.store(tileOf(number.last()), sums, inverse);
      clear(sums);
      Softmax::round(scores, probabilities);
      clearTail(tile);
    }
    ptx::pin(sums);
    ptx::pin(probabilities);
    multiplyValues(probabilities, sums);
    output.finish(tileOf(number), softmax, inverse);
    ptx::wgmmaWait<0>();
    ptx::pin(sums);
    release(shared.valueEmpty(place.stage()));
    place = place.next();
    output.store(tileOf(number), sums, inverse);
    if constexpr (Seam::kSkips)
      pass(partOf(number).front);
    number = number.next();
  }

  /// Skips \p count blocks that no row of this consumer sees.
  void pass(int count) {
    if constexpr (Seam::kSkips)
#pragma unroll 1
      for (; __any_sync(~0u, count > 0); --count) {
        passKeys(place);
        passValues(place);
        place = place.next();
      }
  }
  void passKeys(Place at) const {
    waitForKeys(at);
    waitForTurn();
    endTurn();
    releaseOfWarp(shared.keyEmpty(at.stage()));
  }
  /// Waits with one thread alone, since no other thread of this consumer reads
  /// these values, and they may be overwritten by then.
  void passValues(Place at) const {
    if (threadIdx.x % kWarpgroup == 0) {
      ptx::mbarrierWait(shared.valueFull(at.stage()), at.phase());
      ptx::mbarrierArrive(shared.valueEmpty(at.stage()));
    }
    __syncwarp();
  }

  /// Issues the scores of the block at \p next, then the product of the current
  /// probabilities with V, and calls \p meanwhile. Returns when the scores are
  /// there, while that product still runs.
  template <class F>
  void issue(Place next, Scores &scores, Probabilities &probabilities,
             Sums &sums, F &&meanwhile) const {
    waitForKeys(next);
    waitForTurn();
    ptx::pin(scores);
    ptx::pin(sums);
    ptx::pin(probabilities);
    ptx::wgmmaFence();
    multiplyKeys(next, scores);
    multiplyValues(probabilities, sums);
    endTurn();
    meanwhile();
    ptx::wgmmaWait<1>();
    ptx::pin(scores);
  }

  static void clear(Sums &sums) {
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i)
      sums[i] = 0.0f;
  }

  static void scale(Sums &sums, const Factors &factors) {
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i)
      sums[i] *= factors.row[i / 2 % 2];
  }

  /// Whether some row of \p tile does not see all of \p block.
  static bool isMasked(const Tile &tile, int block) {
    return block >= tile.unmasked.end ||
           (kWindow && block < tile.unmasked.begin);
  }

  /// Whether the weights of \p block, which is not the first block of \p tile,
  /// need maxima first. Behind the first block only masks of the signature hide
  /// keys.
  bool isSlow(const Tile &tile, int block) const {
    if (kSignature.mask != AttentionMask::None && isMasked(tile, block))
      return true;
    return softmax.hasFresh() ||
           (kGivesQueriesEarly && block == tile.blocks.begin);
  }

  /// Turns products with the keys of \p block into scores.
  void score(int block, Scores &scores) const {
    if constexpr (kSignature.softcap || kSignature.alibi) {
      Tile note = tileOf(number);
      AttentionRow rows[2];
      output.rowsOf(note, rows);
      softmax.score(scores, block * kBlock, rows, note.queries.count,
                    note.keys);
    }
  }

  /// Turns products with the keys of \p block into scores and moves the origins
  /// to the greatest scores so far. \p from: the origins for the weights.
  /// Returns the factors for the sums.
  template <bool kIsFirst>
  Factors raise(const Tile &tile, int block, Scores &scores, Factors &from) {
    score(block, scores);
    if constexpr (kIsFirst || kSignature.mask != AttentionMask::None)
      if (isMasked(tile, block))
        mask(block, scores);
    Factors shrink;
    softmax.raise(scores, from.row, shrink.row);
    return shrink;
  }

  /// Makes the weights of the first block of a tile.
  void weighFirst(const Tile &tile, int block, Scores &scores) {
    if constexpr (kKeepsOrigins)
      if (__any_sync(~0u, kHasIdleRows || tile.token + kConfig.tileTokens() >
                                              tile.queries.count)) {
        Tile note = tileOf(number);
        AttentionRow rows[2];
        output.rowsOf(note, rows);
        softmax.leaveOut(rows, note.queries.count);
      }
    Factors from;
    raise<true>(tile, block, scores, from);
    softmax.template weighAll<0, kBlock / 2>(scores, from.row);
  }

  /// Ends the product with V, and gives its stage back. With kIsBlock the wait
  /// is a loop of one round, and so a basic block of its own, over which ptxas
  /// 13.0 moves no exponentials.
  template <bool kIsBlock>
  void endValues(int block, Sums &sums, Probabilities &probabilities) const {
    if constexpr (kIsBlock) {
      do
        waitForValues(sums, probabilities);
      while (__any_sync(~0u, block < 0));
    } else {
      waitForValues(sums, probabilities);
    }
    release(shared.valueEmpty(place.stage()));
  }

  /// Mends the weights of a block, some of which are too great.
  Factors amend(Scores &weights, float (&part)[2]) {
    Factors shrink;
    if (__any_sync(~0u, Softmax::isLost(part))) {
      multiplyKeysAgain(place.next(), weights);
      Factors from;
      softmax.raise(weights, from.row, shrink.row);
      part[0] = part[1] = 0.0f;
      softmax.template weigh<0, kBlock / 2>(weights, from.row, part);
    } else {
      softmax.lower(weights, part, shrink.row);
    }
    return shrink;
  }

  void mask(int block, Scores &scores) const {
    Tile note = tileOf(number);
    AttentionRow rows[2];
    output.rowsOf(note, rows);
    AttentionRange seen = {0, note.keys};
    if (params.attention.splits > 1)
      seen = keysOfSplit(seen, note.split, params.attention.splitKeys);
    softmax.mask(scores, block * kBlock, rows, note.queries.count, note.keys,
                 seen);
  }

  //===--------------------------------------------------------------------===//
  // Products
  //===--------------------------------------------------------------------===//

  /// Issues scores = Q K^T for the keys at \p at.
  void multiplyKeys(Place at, Scores &scores) const {
    unsigned long long query = queries + number.stage() * (Shared::kQuery >> 4);
    unsigned long long key = keys + at.stage() * (Shared::kKey >> 4);
#pragma unroll
    for (int k = 0; k < kDepth; k += kStep)
      ptx::wgmma<kSignature.q, kBlock, 0, 0>(
          scores, query + QueryTile::stepOffset(k),
          key + KeyTile::stepOffset(k), k > 0);
    ptx::wgmmaCommit();
  }

  /// As multiplyKeys(), but by a single warp and slow; waits for the scores.
  void multiplyKeysAgain(Place at, Scores &scores) const {
    int thread = Output::thread(), lane = thread % 32;
    unsigned query = shared.query(number.stage(), thread / kWarpgroup) +
                     (thread % kWarpgroup / 32 * 16 + lane % 16) * Slab::kBytes;
    unsigned key =
        shared.key(at.stage()) + (lane / 16 * 8 + lane % 8) * Slab::kBytes;
    // The sums are computed in several loops along k: with one loop ptxas would
    // spill some.
#pragma unroll
    for (int j = 0; j < kBlock; j += 16) {
      float *sums = scores + j / 2;
#pragma unroll
      for (int i = 0; i < 8; ++i)
        sums[i] = 0.0f;
#pragma unroll 1
      for (int k = 0; k < kDepth * kElementBytes; k += 32) {
        // Two chunks of 16 bytes, swizzled as by TMA.
        unsigned chunk = k % Slab::kBytes / 16;
        unsigned a[4], b[4];
        ptx::ldmatrixX4(
            a, query + k / Slab::kBytes * Sm90AttentionConfig::kSlabBytes +
                   ((chunk + lane / 16) ^ lane % 8) * 16);
        ptx::ldmatrixX4(b, key + j * Slab::kBytes +
                               k / Slab::kBytes * (kBlock * Slab::kBytes) +
                               ((chunk + lane / 8 % 2) ^ lane % 8) * 16);
        multiply(sums, a, b[0], b[1]);
        multiply(sums + 4, a, b[2], b[3]);
      }
    }
  }
  static void multiply(float *d, const unsigned (&a)[4], unsigned b0,
                       unsigned b1) {
    float(&sums)[4] = *reinterpret_cast<float(*)[4]>(d);
    if constexpr (kSignature.q == DType::BF16)
      ptx::mmaBf16(sums, a, b0, b1);
    else if constexpr (kSignature.q == DType::E4M3)
      ptx::mmaE4m3(sums, a, b0, b1);
    else
      ptx::mmaFp16(sums, a, b0, b1);
  }

  /// Issues sums += P V for the values of the current stage.
  void multiplyValues(const Probabilities &probabilities, Sums &sums) const {
    ptx::mbarrierWait(shared.valueFull(place.stage()), place.phase());
    ptx::wgmmaFence();
    unsigned long long value = values + place.stage() * (Shared::kValue >> 4);
#pragma unroll
    for (int k = 0; k < kBlock; k += kStep)
      ptx::wgmmaRegisters<kSignature.q, kWidth, !kTransposed>(
          sums, probabilities + k / kStep * 4, value + ValueTile::stepOffset(k),
          1);
    ptx::wgmmaCommit();
  }

  /// Ends the product with V.
  static void waitForValues(Sums &sums, Probabilities &probabilities) {
    ptx::wgmmaWait<0>();
    ptx::pin(sums);
    ptx::pin(probabilities);
  }

  //===--------------------------------------------------------------------===//
  // Stages and notes
  //===--------------------------------------------------------------------===//

  /// Waits for the note of a tile, and for its Q.
  void waitForTile(Queries at) const {
    ptx::mbarrierWait(shared.queryFull(at.stage()), at.phase());
  }
  void waitForKeys(Place at) const {
    ptx::mbarrierWait(shared.keyFull(at.stage()), at.phase());
  }
  Tile tileOf(Queries at) const { return readTile(shared.note(at.count)); }
  Part partOf(Queries at) const {
    if constexpr (Seam::kSkips)
      return readPart(shared.note(at.count), consumer());
    return {};
  }
  /// The tile, with only those of its blocks that this consumer sees.
  Tile ownOf(Queries at) const {
    Tile tile = tileOf(at);
    Part part = partOf(at);
    tile.blocks.begin += part.front;
    tile.blocks.end -= part.back;
    return tile;
  }
  /// Blocks to skip between those of the current tile and those of the next
  /// one.
  int passedBefore(Queries next) const {
    return partOf(next.last()).front + partOf(next).back;
  }

  /// Gives the stage of K back, and with the last scores of a tile also Q. Each
  /// warp does so, because it may have read them on its own.
  void releaseKeys(Place at, bool isLast) const {
    releaseOfWarp(shared.keyEmpty(at.stage()));
    if (isLast)
      releaseOfWarp(shared.queryEmpty(number.stage()));
  }
  static void releaseOfWarp(unsigned barrier) {
    if (threadIdx.x % 32 == 0)
      ptx::mbarrierArrive(barrier);
  }

  /// Signals that all threads of this consumer are done with a buffer. (They
  /// are: wgmma ends for all of them at once.)
  static void release(unsigned barrier) {
    if (threadIdx.x % kWarpgroup == 0)
      ptx::mbarrierArrive(barrier);
  }

  /// Clears the rows of V behind the last key before the first product of
  /// \p tile. They may hold anything, and a probability of zero does not remove
  /// a NaN. Each consumer does so before its own product.
  void clearTail(const Tile &tile) const {
    if constexpr (!kClearsTail)
      return;
    int first = tile.keys - (tile.blocks.end - 1) * kBlock;
    if (first >= kBlock)
      return;
    ptx::mbarrierWait(shared.valueFull(place.stage()), place.phase());
    unsigned value = shared.value(place.stage());
    constexpr int kChunks = Slab::kBytes / 16;
    int chunks = (kBlock - first) * kChunks;
#pragma unroll 1
    for (int i = threadIdx.x % kWarpgroup; i < kValueSlabs * chunks;
         i += kWarpgroup)
      ptx::stShared128(value + (i / chunks * kBlock + first) * Slab::kBytes +
                           i % chunks * 16,
                       {0, 0, 0, 0});
    ptx::fenceProxyAsync();
    barrier();
  }

  int consumer() const { return role; }

  // Barriers of the block: barrier 0 is for all threads, then there is one for
  // each consumer, and one for each consumer's turn.
  void barrier() const { ptx::barSync(1 + consumer(), kWarpgroup); }
  static int turn(int consumer) { return 1 + kConsumers + consumer; }

  void waitForTurn() const {
    if constexpr (kConfig.ordered)
      ptx::barSync(turn(consumer()), 2 * kWarpgroup);
  }
  void endTurn() const {
    if constexpr (kConfig.ordered)
      ptx::barArrive(turn((consumer() + 1) % kConsumers), 2 * kWarpgroup);
  }

  const Sm90AttentionParams &params;
  const Shared &shared;
  int role;
  Output output;
  Softmax softmax;
  Place place;    ///< of K and V of the block with the current probabilities
  Queries number; ///< of the tile with the next scores
  /// Descriptors of the tiles in the first buffer of each.
  unsigned long long queries, keys, values;
};

} // namespace kiln
