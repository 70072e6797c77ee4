//===- attention/Sm90AttentionConsumer.cuh - a consumer's tiles -----------===//
//
// A warpgroup with 64 rows of each tile: see Sm90Attention.cuh.
//
// Scores, probabilities and sums take nearly all registers. What a tile needs
// besides is read again from the producer's note where it is wanted, and which
// stage comes next is one number.
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
  static constexpr bool kWindow = kSignature.mask == AttentionMask::Window;
  /// V may hold anything behind the last key.
  static constexpr bool kClearsTail =
      kSignature.pages != AttentionPages::None ||
      kSignature.keyLengths != AttentionLengths::Uniform;

  using Shared = Sm90AttentionShared<kSignature, kConfig>;
  using Tile = Sm90AttentionTile;
  using Output = Sm90AttentionOutput<kSignature, kConfig>;
  using Softmax = AttentionSoftmax<kSignature, kBlock>;
  using Place = RingCount<kConfig.stages>;
  using Queries = RingCount<kConfig.queryBuffers(kSignature)>;
  using QueryTile = SlabTile<true, 64, kKeySlabs * 64>;
  using KeyTile = SlabTile<true, kBlock, kKeySlabs * 64>;
  using ValueTile = SlabTile<false, kValueSlabs * 64, kBlock>;
  using Scores = typename Softmax::Scores;
  using Probabilities = typename Softmax::Probabilities;
  using Sums = typename Output::Sums;

public:
  Sm90AttentionConsumer(const Sm90AttentionParams &params, const Shared &shared)
      : params(params), shared(shared), output(params),
        softmax(params.attention) {}

  void run() {
    // The first turn is there from the start.
    if constexpr (kConfig.ordered)
      if (consumer() == 0)
        ptx::barArrive(turn(0), 2 * kWarpgroup);
#pragma unroll 1
    for (;;) {
      waitForTile(number);
      Tile tile = tileOf(number);
      if (tile.batch < 0)
        break;
      if (tile.blocks.size() > 0) {
        attend(tile);
      } else {
        barrier(); // all have read the note
        release(shared.queryEmpty(number.stage()));
        output.storeNothing(tile);
        number = number.next();
      }
    }
    if constexpr (kConfig.ordered)
      if (consumer() == 0)
        ptx::barSync(turn(0), 2 * kWarpgroup);
  }

private:
  /// Computes \p tile and those behind it, up to one without keys.
  void attend(Tile tile) {
    Scores scores;
    Probabilities probabilities;
    Sums sums;
    float shrink[2], inverse[2];
    int block = tile.blocks.end - 1;

    // The first block: there is no product to overlap with.
    softmax.reset();
    waitForKeys(place);
    ptx::pin(scores);
    ptx::wgmmaFence();
    multiplyKeys(place, scores);
    ptx::wgmmaWait<0>();
    ptx::pin(scores);
    releaseKeys(place, block == tile.blocks.begin);
    weigh(tile, block, true, scores, shrink);
    Softmax::round(scores, probabilities);
    clearTail(tile);
    bool isLater = false; // the sums of a tile begin with its first product

#pragma unroll 1
    for (;;) {
      // The next scores are of this tile, or of the next one.
      bool isNew = __any_sync(~0u, block == tile.blocks.begin);
      if (isNew) {
        waitForTile(number.next());
        tile = tileOf(number.next());
        if (tile.blocks.size() == 0)
          break;
        output.finish(tileOf(number), softmax, inverse);
        softmax.reset();
        number = number.next();
        block = tile.blocks.end;
      }
      --block;
      Place next = place.next();
      waitForKeys(next);
      if constexpr (kConfig.ordered)
        ptx::barSync(turn(consumer()), 2 * kWarpgroup);
      ptx::pin(scores);
      ptx::pin(sums);
      ptx::pin(probabilities);
      ptx::wgmmaFence();
      multiplyKeys(next, scores);
      multiplyValues(probabilities, sums, isLater);
      if constexpr (kConfig.ordered)
        ptx::barArrive(turn((consumer() + 1) % kConsumers), 2 * kWarpgroup);
      // The scores are there, the product with V still runs.
      ptx::wgmmaWait<1>();
      ptx::pin(scores);
      releaseKeys(next, block == tile.blocks.begin);
      weigh(tile, block, isNew, scores, shrink);
      // Two waits, of which each begins a block of code: in one with the
      // exponentials ptxas 13.0 puts most of these behind the wait.
      if (isNew) {
        waitForValues(sums, probabilities);
        output.store(tileOf(number.last()), sums, inverse);
      } else {
        waitForValues(sums, probabilities);
#pragma unroll
        for (int i = 0; i < kWidth / 2; ++i)
          sums[i] *= shrink[i / 2 % 2];
      }
      release(shared.valueEmpty(place.stage()));
      place = next;
      Softmax::round(scores, probabilities);
      if (isNew)
        clearTail(tile);
      isLater = !isNew;
    }
    ptx::pin(sums);
    ptx::pin(probabilities);
    multiplyValues(probabilities, sums, isLater);
    output.finish(tileOf(number), softmax, inverse);
    ptx::wgmmaWait<0>();
    ptx::pin(sums);
    release(shared.valueEmpty(place.stage()));
    place = place.next();
    output.store(tileOf(number), sums, inverse);
    number = number.next();
  }

  /// Makes probabilities of the products with the keys of \p block, with a mask
  /// where one is needed: behind the first block of a tile without one in the
  /// signature it is not.
  void weigh(const Tile &tile, int block, bool isFirst, Scores &scores,
             float (&shrink)[2]) {
    if constexpr (kSignature.softcap || kSignature.alibi) {
      Tile note = tileOf(number);
      AttentionRow rows[2];
      output.rowsOf(note, rows);
      softmax.score(scores, block * kBlock, rows, note.queries.count,
                    note.keys);
    }
    bool isMasked = block >= tile.unmasked.end;
    if constexpr (kWindow)
      isMasked |= block < tile.unmasked.begin;
    if (isMasked && (isFirst || kSignature.mask != AttentionMask::None))
      mask(block, scores);
    softmax.add(scores, shrink);
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

  /// Issues scores = Q K^T, of the keys at \p at.
  void multiplyKeys(Place at, Scores &scores) const {
    unsigned long long query =
        QueryTile::descriptor(shared.query(number.stage(), consumer()));
    unsigned long long key = KeyTile::descriptor(shared.key(at.stage()));
#pragma unroll
    for (int k = 0; k < kDepth; k += 16)
      ptx::wgmma<kSignature.q, kBlock, 0, 0>(
          scores, query + QueryTile::stepOffset(k),
          key + KeyTile::stepOffset(k), k > 0);
    ptx::wgmmaCommit();
  }

  /// Issues sums += P V, or = where \p accumulate is 0, of the values at hand.
  void multiplyValues(const Probabilities &probabilities, Sums &sums,
                      int accumulate) const {
    ptx::mbarrierWait(shared.valueFull(place.stage()), place.phase());
    ptx::wgmmaFence();
    unsigned long long value =
        ValueTile::descriptor(shared.value(place.stage()));
#pragma unroll
    for (int k = 0; k < kBlock; k += 16)
      ptx::wgmmaRegisters<kSignature.q, kWidth, 1>(
          sums, probabilities + k / 4, value + ValueTile::stepOffset(k),
          k > 0 ? 1 : accumulate);
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

  /// For the note of a tile, and its Q.
  void waitForTile(Queries at) const {
    ptx::mbarrierWait(shared.queryFull(at.stage()), at.phase());
  }
  void waitForKeys(Place at) const {
    ptx::mbarrierWait(shared.keyFull(at.stage()), at.phase());
  }
  Tile tileOf(Queries at) const { return readTile(shared.note(at.count)); }

  /// Gives the stage of K back, and with the last scores of a tile Q.
  void releaseKeys(Place at, bool isLast) const {
    release(shared.keyEmpty(at.stage()));
    if (isLast)
      release(shared.queryEmpty(number.stage()));
  }

  /// Says that all threads of this consumer are done with something. (They
  /// are: wgmma ends for all of them at once.)
  static void release(unsigned barrier) {
    if (threadIdx.x % kWarpgroup == 0)
      ptx::mbarrierArrive(barrier);
  }

  /// Before the first product of \p tile: clears the rows of V behind the last
  /// key, which may hold anything; a probability of zero makes no NaN go away.
  /// Each consumer does so, before its own product.
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

  static int consumer() {
    return static_cast<int>(Output::thread() / kWarpgroup);
  }

  // Barriers of the block: 0 is all threads', then one for each consumer, and
  // one for each consumer's turn.
  static void barrier() { ptx::barSync(1 + consumer(), kWarpgroup); }
  static int turn(int consumer) { return 1 + kConsumers + consumer; }

  const Sm90AttentionParams &params;
  const Shared &shared;
  Output output;
  Softmax softmax;
  Place place;    ///< of K and V of the block whose probabilities are at hand
  Queries number; ///< of the tile whose scores come next
};

} // namespace kiln
