//===- attention/Sm90MlaConsumer.cuh - a consumer of MLA ------------------===//
//
// A warpgroup that makes the scores of every other block of keys, and has half
// of the columns of O: see Sm90MlaAttention.cuh.
//
// The sums of O are pieces of columns. A product with V is issued piece by
// piece, and the keys of a piece are given back as soon as its product has
// ended.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/AttentionSoftmax.cuh"
#include "attention/Sm90MlaOutput.cuh"
#include "attention/Sm90MlaTiles.cuh"
#include "common/SlabTile.cuh"
#include "common/WgmmaRegisters.cuh"

namespace kiln {

/// Consumer number \p kRole.
template <AttentionSignature kSignature, Sm90MlaConfig kConfig, int kRole>
class Sm90MlaConsumer {
  static constexpr int kKeys = Sm90MlaConfig::kKeys;
  static constexpr int kWarpgroup = Sm90MlaConfig::kWarpgroup;
  static constexpr int kConsumers = Sm90MlaConfig::kConsumers;
  static constexpr int kPieces = kConfig.pieces;
  static constexpr int kWidth = kConfig.pieceWidth(kSignature);
  static constexpr int kOther = kConsumers - 1 - kRole;
  static constexpr int kStep = 16; ///< k of a wgmma
  static constexpr unsigned kSlabStep = Sm90MlaConfig::kSlabBytes >> 4;
  /// V may hold anything behind the last key.
  static constexpr bool kClearsTail =
      kSignature.pages != AttentionPages::None ||
      kSignature.keyLengths != AttentionLengths::Uniform;

  using Shared = Sm90MlaShared<kSignature, kConfig>;
  using Softmax = AttentionSoftmax<kSignature, kKeys>;
  using Output = Sm90MlaOutput<kSignature, kConfig>;
  using RowTile = SlabTile<true, 64, 64>; ///< a slab of Q, K or probabilities
  using ValueTile = SlabTile<false, kWidth, kKeys>;
  using Scores = typename Softmax::Scores;
  using Probabilities = typename Softmax::Probabilities;
  using Sums = typename Output::Sums;

public:
  Sm90MlaConsumer(const AttentionParams &params, const Shared &shared,
                  const Sm90MlaWork &work)
      : params(params), shared(shared), work(work), softmax(params),
        query(RowTile::descriptor(shared.query())),
        key(RowTile::descriptor(shared.key(kRole))),
        weights(RowTile::descriptor(shared.probabilities())) {}

  void run() {
    loadQueries();
    Sums sums;
#pragma unroll
    for (int p = 0; p < kPieces; ++p)
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i)
        sums[p][i] = 0.0f;
    softmax.reset();
    if constexpr (kRole == 0)
      attendEven(sums);
    else
      attendOdd(sums);
    finish(sums);
  }

private:
  int blockCount() const { return work.blocks.size(); }
  /// Blocks are read from the last one to the first.
  int blockOf(int number) const { return work.blocks.end - 1 - number; }
  static unsigned phaseOf(int number) { return number / kConsumers & 1; }
  static int thread() { return threadIdx.x % kWarpgroup; }

  //===--------------------------------------------------------------------===//
  // Blocks of keys
  //===--------------------------------------------------------------------===//

  /// The consumer of blocks 0, 2, ...
  void attendEven(Sums &sums) {
    Scores scores;
    Probabilities probabilities;
    float shrink[2];
#pragma unroll 1
    for (int number = 0; number < blockCount(); number += 2) {
      multiplyKeys(number, scores);
      if (number + 1 < blockCount())
        ptx::barArrive(kIssued, kBoth);
      ptx::wgmmaWait<0>();
      ptx::pin(scores);
      release(kRole, 0);
      weigh(number, scores, shrink);
      Softmax::round(scores, probabilities);
      publish(number, probabilities);
      rescale(sums, shrink);
      multiplyOwn(probabilities, sums);
      giveBack(kRole, sums);
      ptx::pin(probabilities);
      if (number + 1 < blockCount()) {
        take(shrink);
        rescale(sums, shrink);
        multiplyOther(number + 1, sums);
        giveBack(kOther, sums);
      }
    }
  }

  /// The consumer of blocks 1, 3, ...
  void attendOdd(Sums &sums) {
    Scores scores;
    Probabilities probabilities;
    float shrink[2];
    int number = 0;
#pragma unroll 1
    for (; number + 1 < blockCount(); number += 2) {
      // The barrier puts these products behind those of the even block, whose
      // softmax then runs under these.
      ptx::barSync(kIssued, kBoth);
      multiplyKeys(number + 1, scores);
      ptx::wgmmaWait<0>();
      ptx::pin(scores);
      release(kRole, 0);
      take(shrink);
      rescale(sums, shrink);
      multiplyOther(number, sums);
      weigh(number + 1, scores, shrink);
      giveBack(kOther, sums);
      Softmax::round(scores, probabilities);
      publish(number + 1, probabilities);
      rescale(sums, shrink);
      multiplyOwn(probabilities, sums);
      giveBack(kRole, sums);
      ptx::pin(probabilities);
    }
    if (number < blockCount()) {
      take(shrink);
      rescale(sums, shrink);
      multiplyOther(number, sums);
      giveBack(kOther, sums);
    }
  }

  /// Turns the scores of a block into exponentials.
  void weigh(int number, Scores &scores, float (&shrink)[2]) {
    int block = blockOf(number);
    bool isMasked = !work.unmasked.contains(block);
    if (kSignature.softcap || kSignature.alibi || isMasked) {
      AttentionRow rows[2];
      rowsOf(rows);
      softmax.score(scores, block * kKeys, rows, work.queries.count,
                    work.keys.count);
      if (isMasked)
        softmax.mask(scores, block * kKeys, rows, work.queries.count,
                     work.keys.count, work.range);
    }
    float from[2], part[2] = {};
    softmax.raise(scores, from, shrink);
    softmax.template weigh<0, kKeys / 2>(scores, from, part);
    softmax.add(part);
  }

  static void rescale(Sums &sums, const float (&shrink)[2]) {
#pragma unroll
    for (int p = 0; p < kPieces; ++p)
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i)
        sums[p][i] *= shrink[i / 2 % 2];
  }

  void rowsOf(AttentionRow (&rows)[2]) const {
    unsigned at = threadIdx.x;
    ptx::opaque(at); // values derived from it are computed again
    int first = at % kWarpgroup / 32 * 16 + at % 32 / 4;
#pragma unroll
    for (int i = 0; i < 2; ++i)
      rows[i] = work.row(first + 8 * i);
  }

  //===--------------------------------------------------------------------===//
  // Products
  //===--------------------------------------------------------------------===//

  /// Returns \p descriptor as a value that the compiler takes for a new one:
  /// the descriptors of further steps are computed from it again, and occupy no
  /// registers throughout.
  static unsigned long long again(unsigned long long descriptor) {
    auto low = static_cast<unsigned>(descriptor);
    ptx::opaque(low);
    return descriptor >> 32 << 32 | low;
  }

  /// Issues scores = Q K^T for one of this consumer's blocks.
  void multiplyKeys(int number, Scores &scores) const {
    ptx::pin(scores);
    unsigned long long query = again(this->query), key = again(this->key);
#pragma unroll
    for (int group = 0; group < kConfig.groups(); ++group) {
      ptx::mbarrierWait(shared.full(kRole, group), phaseOf(number));
      ptx::wgmmaFence();
#pragma unroll
      for (int i = 0; i < kConfig.slabCount(kSignature, group); ++i) {
        int slab = kConfig.firstSlab(kSignature, group) + i;
#pragma unroll
        for (int k = 0; k < Slab::kElements; k += kStep) {
          if (slab * Slab::kElements + k >= kSignature.headDim)
            continue;
          unsigned at = slab * kSlabStep + RowTile::stepOffset(k);
          ptx::wgmma<kSignature.q, kKeys, 0, 0>(scores, query + at, key + at,
                                                group + i + k > 0);
        }
      }
    }
    ptx::wgmmaCommit();
  }

  unsigned long long values(int stage, int piece) const {
    int group = Sm90MlaConfig::pieceGroup(0, kRole);
    return again(ValueTile::descriptor(
        shared.key(stage) +
        (kConfig.firstSlab(kSignature, group) * Slab::kElements +
         piece * kWidth) /
            Slab::kElements * Sm90MlaConfig::kSlabBytes));
  }

  /// Issues sums += P V for one of this consumer's blocks, one group of
  /// products for each piece.
  void multiplyOwn(Probabilities &probabilities, Sums &sums) const {
    pinAll(sums);
    ptx::pin(probabilities);
    ptx::wgmmaFence();
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      unsigned long long value = values(kRole, p);
#pragma unroll
      for (int k = 0; k < kKeys; k += kStep)
        ptx::wgmmaRegisters<kSignature.q, kWidth, 1>(
            sums[p], probabilities + k / 4, value + ValueTile::stepOffset(k),
            1);
      ptx::wgmmaCommit();
    }
  }

  /// Issues sums += P V for a block of the other consumer.
  void multiplyOther(int number, Sums &sums) const {
    pinAll(sums);
    unsigned long long weights = again(this->weights);
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      ptx::mbarrierWait(
          shared.full(kOther, Sm90MlaConfig::pieceGroup(p, kRole)),
          phaseOf(number));
      ptx::wgmmaFence();
      unsigned long long value = values(kOther, p);
#pragma unroll
      for (int k = 0; k < kKeys; k += kStep)
        ptx::wgmma<kSignature.q, kWidth, 0, 1>(
            sums[p], weights + RowTile::stepOffset(k),
            value + ValueTile::stepOffset(k), 1);
      ptx::wgmmaCommit();
    }
  }

  /// Ends the last product with V, and gives its keys back.
  void giveBack(int stage, Sums &sums) const {
    giveBackPieces<0>(stage);
    pinAll(sums);
  }
  template <int kPiece> void giveBackPieces(int stage) const {
    ptx::wgmmaWait<kPieces - 1 - kPiece>();
    release(stage, Sm90MlaConfig::pieceGroup(kPiece, kRole));
    if constexpr (kPiece + 1 < kPieces)
      giveBackPieces<kPiece + 1>(stage);
  }

  static void pinAll(Sums &sums) {
#pragma unroll
    for (int p = 0; p < kPieces; ++p)
      ptx::pin(sums[p]);
  }

  /// Gives a group of slabs back to all blocks that load a part of it.
  void release(int stage, int group) const {
    unsigned barrier = shared.empty(stage, group);
    if constexpr (kConfig.cluster == 1) {
      if (thread() == 0)
        ptx::mbarrierArrive(barrier);
    } else {
      if (thread() < kConfig.cluster)
        ptx::mbarrierArriveCluster(
            ptx::mapaSharedCluster(barrier, threadIdx.x % kWarpgroup));
    }
  }

  //===--------------------------------------------------------------------===//
  // The exchange between consumers
  //===--------------------------------------------------------------------===//

  // Barriers of the block: barrier 0 is for all threads, then one for the
  // probabilities of each consumer, one for both, one for each alone, and one
  // that says that the scores of an even block are issued.
  static constexpr int kBoth = kConsumers * kWarpgroup;
  static constexpr int kIssued = 2 + 2 * kConsumers;
  static int published(int consumer) { return 1 + consumer; }
  static void together() { ptx::barSync(1 + kConsumers, kBoth); }
  void alone() const { ptx::barSync(2 + kConsumers + kRole, kWarpgroup); }

  /// Gives the other consumer the probabilities of a block. (It has ended its
  /// product with the previous ones, since it has published its own after
  /// that.)
  void publish(int number, const Probabilities &probabilities) const {
    clearTail(number);
    unsigned lane = threadIdx.x % 32, warp = thread() / 32;
    unsigned row = warp * 16 + lane / 8 % 2 * 8 + lane % 8;
    unsigned line = shared.probabilities() + row * Slab::kBytes;
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      unsigned chunk = (2 * k + lane / 16) ^ (row & 7);
      ptx::stmatrixX4(line + chunk * 16,
                      {probabilities[4 * k], probabilities[4 * k + 1],
                       probabilities[4 * k + 2], probabilities[4 * k + 3]});
    }
    const float(&origins)[2] = softmax.origins();
    if (lane % 4 == 0)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        ptx::stShared32(rowAddress(shared.greatest(), i),
                        __float_as_uint(origins[i]));
    ptx::fenceProxyAsync();
    ptx::barArrive(published(kRole), kBoth);
  }

  /// Waits for the probabilities of the other consumer's block; \p shrink: the
  /// factors for the sums.
  void take(float (&shrink)[2]) {
    ptx::barSync(published(kOther), kBoth);
    float known[2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      known[i] =
          __uint_as_float(ptx::ldShared32(rowAddress(shared.greatest(), i)));
    softmax.raiseTo(known, shrink);
  }

  /// The word of row \p i of the thread.
  static unsigned rowAddress(unsigned base, int i) {
    unsigned lane = threadIdx.x % 32, warp = thread() / 32;
    return base + (warp * 16 + lane / 4 + 8 * i) * 4;
  }

  /// Clears the rows of V behind the last key before the probabilities of the
  /// last block, which is read first, are published. These rows may hold
  /// anything, and a probability of zero does not remove a NaN.
  void clearTail(int number) const {
    if constexpr (!kClearsTail)
      return;
    int first = work.keys.count - blockOf(number) * kKeys;
    if (first >= kKeys)
      return;
    constexpr int kChunks = Slab::kBytes / 16;
    constexpr int kSlabs = Sm90MlaConfig::valueSlabs(kSignature);
    unsigned value = shared.key(kRole);
    int chunks = (kKeys - first) * kChunks;
#pragma unroll 1
    for (int i = thread(); i < kSlabs * chunks; i += kWarpgroup)
      ptx::stShared128(value + (i / chunks * kKeys + first) * Slab::kBytes +
                           i % chunks * 16,
                       {0, 0, 0, 0});
    ptx::fenceProxyAsync();
    alone();
  }

  //===--------------------------------------------------------------------===//
  // The beginning and the end
  //===--------------------------------------------------------------------===//

  /// Loads packed rows of Q to shared memory; idle rows become zeros.
  void loadQueries() const {
    constexpr int kChunk = 8; ///< elements
    constexpr int kChunks =
        Sm90MlaConfig::keySlabs(kSignature) * Slab::kElements / kChunk;
    constexpr int kTeam = 8; ///< threads of a row: a line of a slab
    constexpr int kTeams = kBoth / kTeam;
    int lane = threadIdx.x % kTeam;
#pragma unroll
    for (int first = 0; first < Sm90MlaConfig::kRows; first += kTeams) {
      int index = first + threadIdx.x / kTeam;
      AttentionRow row = work.row(index);
      bool exists = row.token < work.queries.count;
      const unsigned short *from =
          static_cast<const unsigned short *>(params.q) +
          (exists ? queryOffset<kSignature>(params.qStrides, work.sequence,
                                            work.queries, row.head, row.token)
                  : 0);
      unsigned to =
          shared.query() + index * Slab::kBytes + (lane ^ (index & 7)) * 16;
#pragma unroll
      for (int chunk = 0; chunk < kChunks; chunk += kTeam) {
        int element = (chunk + lane) * kChunk;
        bool inside = exists && element < kSignature.headDim;
        copyOrZero(to + chunk / kTeam * Sm90MlaConfig::kSlabBytes,
                   from + (inside ? element : 0), inside);
      }
    }
    ptx::cpAsyncCommit();
    ptx::cpAsyncWait<0>();
    ptx::fenceProxyAsync();
    together();
  }
  static void copyOrZero(unsigned shared, const void *from, bool inside) {
    ptx::cpAsyncOrZero16(shared, from, inside, ptx::createPolicyEvictFirst());
  }

  void finish(const Sums &sums) {
    AttentionRow rows[2];
    rowsOf(rows);
    float(&totals)[2] = softmax.gather();
    if (threadIdx.x % 4 == 0)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        ptx::stShared32(rowAddress(shared.total(kRole), i),
                        __float_as_uint(totals[i]));
    together();
    // Both consumers add in one order, so they write the same sums.
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float even = __uint_as_float(
                ptx::ldShared32(rowAddress(shared.total(0), i))),
            odd = __uint_as_float(
                ptx::ldShared32(rowAddress(shared.total(1), i)));
      totals[i] = even + odd;
    }
    float inverse[2], logSum[2];
    softmax.conclude(rows, work.isPart ? nullptr : params.sinks, inverse,
                     logSum);
    Output(params, work, kRole).store(rows, sums, inverse, logSum);
  }

  const AttentionParams &params;
  const Shared &shared;
  const Sm90MlaWork &work;
  Softmax softmax;
  /// Descriptors of Q, of this consumer's keys, and of the other's
  /// probabilities.
  unsigned long long query, key, weights;
};

} // namespace kiln
