//===- sample/SampleGroup.cuh - the blocks of a row, and what they tell ---===//
//
// A row has one block, or the blocks of a cluster. All threads of a row call
// these functions together. Memory that others write, or read, is used in
// turns: a block that begins a meeting knows that all have left the one before
// the last.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Warp.cuh"
#include "sample/SampleLayout.h"
#include "sample/SampleNumbers.h"

namespace kiln {

/// The members of tallies that a meeting merges.
enum class SampleMerge {
  Best,
  TwoBests, ///< `mass` is a rank, too
  Sums,     ///< all: the best with its key, and sums of masses and counts
};

template <SampleSignature kSignature, int kThreads, int kKept, int kBlocks>
class SampleGroup {
public:
  static constexpr SampleLayout kLayout =
      sampleLayout(kSignature, kKept, kBlocks);
  static constexpr int kWarps = kThreads / 32;
  /// Threads of a group whose greatest key is told.
  static constexpr int kGroupThreads = kThreads * kBlocks / kSampleGroups;
  static_assert(kGroupThreads >= 1 && kGroupThreads <= 32,
                "a group is a part of a warp");

  explicit SampleGroup(unsigned char *memory) : memory(memory) {
    if constexpr (kBlocks > 1) {
      rank = ptx::clusterCtaRank();
      ptx::barrierClusterArriveRelaxed();
    }
  }

  unsigned rowRank() const { return rank; }
  bool isLeader() const { return rank == 0; }

  template <class T> T *at(int offset) const {
    return reinterpret_cast<T *>(memory + offset);
  }
  unsigned &word(int which) const { return at<unsigned>(kLayout.words)[which]; }

  /// Waits until the blocks of the row have begun, before any writes into
  /// another's memory.
  void awaitStart() {
    if constexpr (kBlocks > 1)
      if (!hasStarted) {
        __syncwarp(); // the barrier needs converged warps
        ptx::barrierClusterWait();
        hasStarted = true;
      }
  }

  /// A barrier of all threads of the row, behind which they see each other's
  /// shared memory.
  void sync() {
    if constexpr (kBlocks > 1) {
      awaitStart();
      __syncwarp();
      ptx::barrierClusterArriveRelease();
      ptx::barrierClusterWait();
    } else
      __syncthreads();
  }

  /// The tally of all threads of the row, in each of them.
  template <SampleMerge kMerge> SampleTally merge(SampleTally mine) {
    SampleTally *partials = nextPartials();
    mergeWarp<kMerge>(mine);
    if (lane() == 0)
      partials[warp()] = mine;
    __syncthreads();
    if constexpr (kBlocks == 1) {
      mine = lane() < kWarps ? partials[lane()] : SampleTally{};
      mergeWarp<kMerge>(mine);
    } else {
      if (warp() == 0) {
        mine = lane() < kWarps ? partials[lane()] : SampleTally{};
        mergeWarp<kMerge>(mine);
      }
      mine = exchange<kMerge>(mine);
    }
    return mine;
  }

  /// The greatest of the block's threads, in each of them.
  unsigned long long bestOfBlock(unsigned long long rank) {
    SampleTally *partials = nextPartials();
    rank = greatestOfWarp(rank);
    if (lane() == 0)
      partials[warp()].best = rank;
    __syncthreads();
    return greatestOfWarp(lane() < kWarps ? partials[lane()].best : 0ull);
  }
  unsigned greatestKeyOfBlock(unsigned key) {
    SampleTally *partials = nextPartials();
    key = greatestOfWarp(key);
    if (lane() == 0)
      partials[warp()].key = key;
    __syncthreads();
    return greatestOfWarp(lane() < kWarps ? partials[lane()].key : 0u);
  }

  /// The greatest of the row's blocks, given that of each block in all of its
  /// threads.
  unsigned long long bestOfRow(unsigned long long rank) {
    if constexpr (kBlocks > 1) {
      SampleTally mine;
      mine.best = rank;
      rank = exchange<SampleMerge::Best>(mine).best;
    }
    return rank;
  }

  /// The lowest token that threads of the block offer. The block meets between
  /// these calls.
  void clearLeast() {
    if (threadIdx.x == 0)
      word(SampleWord::Least) = ~0u;
  }
  void offerLeast(unsigned token) {
    atomicMin(&word(SampleWord::Least), token);
  }
  unsigned least() const { return word(SampleWord::Least); }

  //===--------------------------------------------------------------------===//
  // A bound of the k greatest keys
  //===--------------------------------------------------------------------===//

  /// Tells all blocks of the row the greatest key of each group of threads;
  /// they know them after the next merge() or sync().
  void tellMaxima(unsigned key) {
    awaitStart();
#pragma unroll
    for (int distance = kGroupThreads / 2; distance > 0; distance /= 2)
      key = max(key, __shfl_xor_sync(~0u, key, distance));
    if (threadIdx.x % kGroupThreads != 0)
      return;
    auto *place = at<unsigned>(kLayout.maxima) +
                  rank * (kSampleGroups / kBlocks) +
                  threadIdx.x / kGroupThreads;
    if constexpr (kBlocks == 1)
      *place = key;
    else
#pragma unroll
      for (unsigned peer = 0; peer < kBlocks; ++peer)
        ptx::stSharedClusterF32(inBlock(place, peer), __uint_as_float(key));
  }

  /// A key that at least \p count of the maxima reach, which is within 2^-7 of
  /// the greatest such key.
  unsigned boundOf(int count) {
    if (warp() == 0) {
      unsigned maxima[kSampleGroups / 32];
#pragma unroll
      for (int i = 0; i < kSampleGroups / 32; ++i)
        maxima[i] = at<unsigned>(kLayout.maxima)[i * 32 + lane()];
      unsigned most = maxima[0], least = maxima[0];
#pragma unroll
      for (int i = 1; i < kSampleGroups / 32; ++i) {
        most = max(most, maxima[i]);
        least = min(least, maxima[i]);
      }
      most = greatestOfWarp(most);
      // All of them have the bits above the first in which any differ.
      const unsigned differing = (most ^ leastOfWarp(least)) >> 16;
      unsigned bit = 1u << 31;
      while (bit != 1u << 15 && !(differing << 16 & bit))
        bit >>= 1;
      unsigned bound = most & ~(2 * bit - 1);
#pragma unroll 1
      for (; bit >= 1u << 16; bit >>= 1) {
        unsigned reaching = 0;
#pragma unroll
        for (int i = 0; i < kSampleGroups / 32; ++i)
          reaching += maxima[i] >= (bound | bit);
        if (sumOfWarp(reaching) >= static_cast<unsigned>(count))
          bound |= bit;
      }
      if (lane() == 0)
        word(SampleWord::Bound) = bound;
    }
    __syncthreads();
    return word(SampleWord::Bound);
  }

  //===--------------------------------------------------------------------===//
  // Lists
  //===--------------------------------------------------------------------===//

  /// Empties the block's list. The block meets before it adds to it.
  void clearList() {
    if (threadIdx.x == 0)
      word(SampleWord::Listed) = 0;
  }
  void addToList(unsigned long long rank) {
    const unsigned place = atomicAdd(&word(SampleWord::Listed), 1u);
    if (place < kListTokens)
      at<unsigned long long>(kLayout.list)[place] = rank;
  }
  unsigned listed() const { return word(SampleWord::Listed); }

  /// In the leader, the lists of all blocks, greatest rank first; they have
  /// \p count ranks, at most kListTokens, and do not change before the next
  /// sync().
  unsigned long long *sortedLists(unsigned count) {
    unsigned long long *all =
        at<unsigned long long>(kBlocks > 1 ? kLayout.gathered : kLayout.list);
    if constexpr (kBlocks > 1) {
      gather(reinterpret_cast<unsigned *>(all));
      __syncthreads();
    }
    if (count <= static_cast<unsigned>(kCountedRanks)) {
      auto *ordered = at<unsigned long long>(kLayout.ordered);
      order(ordered, all, count);
      return ordered;
    }
    unsigned places = 2;
    while (places < count)
      places *= 2;
    for (unsigned i = count + threadIdx.x; i < places; i += kThreads)
      all[i] = 0;
    __syncthreads();
    sort(all, places);
    return all;
  }

  //===--------------------------------------------------------------------===//
  // Digits
  //===--------------------------------------------------------------------===//

  /// Empties the bins of one turn; turns alternate.
  unsigned *clearBins(int turn) {
    auto *bins = at<unsigned>(kLayout.bins) + turn * kDigitBins;
    for (int i = threadIdx.x; i < kDigitBins; i += kThreads)
      bins[i] = 0;
    __syncthreads();
    return bins;
  }

  struct Digit {
    unsigned digit; ///< the bin in which the wanted one is
    unsigned left;  ///< the wanted one is so manyth in it
    unsigned count; ///< of the bin
  };
  /// The bin of the \p wanted-th greatest, at least 1 and at most the count of
  /// all bins. \p bins are those of clearBins(); all blocks have counted.
  Digit findDigit(unsigned *bins, unsigned wanted) {
    sync();
    // Bins from the greatest digit on: a thread has some that follow each
    // other.
    constexpr int kEach = kDigitBins / kThreads;
    unsigned counts[kEach], own = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int bin =
          kDigitBins - 1 - (static_cast<int>(threadIdx.x) * kEach + i);
      counts[i] = 0;
      if constexpr (kBlocks == 1)
        counts[i] = bins[bin];
      else
#pragma unroll
        for (unsigned peer = 0; peer < kBlocks; ++peer)
          counts[i] += load(bins + bin, peer);
      own += counts[i];
    }
    unsigned before = sumBefore(own);
    if (before < wanted && wanted <= before + own)
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (before < wanted && wanted <= before + counts[i]) {
          word(SampleWord::Digit) = kDigitBins - 1 - (threadIdx.x * kEach + i);
          word(SampleWord::Left) = wanted - before;
          word(SampleWord::InBin) = counts[i];
        }
        before += counts[i];
      }
    __syncthreads();
    return {word(SampleWord::Digit), word(SampleWord::Left),
            word(SampleWord::InBin)};
  }

private:
  static int lane() { return static_cast<int>(threadIdx.x % 32); }
  static int warp() { return static_cast<int>(threadIdx.x / 32); }

  /// The tally of all blocks, given that of each in its first warp.
  template <SampleMerge kMerge> SampleTally exchange(const SampleTally &mine) {
    auto *slots =
        at<SampleTally>(kLayout.slots) + exchanges++ % 2 * kMostRowBlocks;
    awaitStart();
    if (warp() == 0 && lane() < kBlocks)
      send<kMerge>(slots + rank, mine, lane());
    sync();
    SampleTally all = lane() < kBlocks ? slots[lane()] : SampleTally{};
    mergeWarp<kMerge>(all);
    return all;
  }

  /// Copies the lists of all blocks behind each other. A warp has that of a
  /// block, so that all wait for the other blocks' memory at once.
  void gather(unsigned *to) {
    const unsigned length =
        lane() < kBlocks ? load(&word(SampleWord::Listed), lane()) : 0;
#pragma unroll 1
    for (int peer = warp(); peer < kBlocks; peer += kWarps) {
      const unsigned before = sumOfWarp(lane() < peer ? length : 0);
      const unsigned words = 2 * __shfl_sync(~0u, length, peer);
      const auto *list = at<unsigned>(kLayout.list);
      for (unsigned i = lane(); i < words; i += 32)
        to[2 * before + i] = load(list + i, static_cast<unsigned>(peer));
    }
  }

  /// Room for a tally of each warp, which the meeting before does not use.
  SampleTally *nextPartials() {
    return at<SampleTally>(kLayout.partials) + meetings++ % 2 * 32;
  }

  template <SampleMerge kMerge> static void mergeWarp(SampleTally &mine) {
    const unsigned long long best = greatestOfWarp(mine.best);
    if constexpr (kMerge == SampleMerge::TwoBests)
      mine.mass = greatestOfWarp(mine.mass);
    if constexpr (kMerge == SampleMerge::Sums) {
      mine.key = greatestOfWarp(mine.best == best ? mine.key : 0u);
      mine.mass = sumOfWarp(mine.mass);
      mine.count = sumOfWarp(mine.count);
    }
    mine.best = best;
  }

  /// Stores \p tally at \p place of block \p peer.
  template <SampleMerge kMerge>
  void send(SampleTally *place, const SampleTally &tally, unsigned peer) const {
    const unsigned address = inBlock(place, peer);
    const unsigned words[6] = {static_cast<unsigned>(tally.best),
                               static_cast<unsigned>(tally.best >> 32),
                               static_cast<unsigned>(tally.mass),
                               static_cast<unsigned>(tally.mass >> 32),
                               tally.key,
                               tally.count};
    constexpr int kWords = kMerge == SampleMerge::Best       ? 2
                           : kMerge == SampleMerge::TwoBests ? 4
                                                             : 6;
#pragma unroll
    for (int i = 0; i < kWords; ++i)
      ptx::stSharedClusterF32(address + 4 * i, __uint_as_float(words[i]));
  }

  /// The word of block \p peer at the place of \p own.
  unsigned load(const unsigned *own, unsigned peer) const {
    return __float_as_uint(ptx::ldSharedClusterF32(inBlock(own, peer)));
  }

  /// The place of \p own in block \p peer. It is an offset in the window of
  /// shared memory, for the reason that RowGroup.cuh gives.
  unsigned inBlock(const void *own, unsigned peer) const {
    const auto offset =
        static_cast<unsigned>(static_cast<const unsigned char *>(own) - memory);
    return ptx::mapaSharedCluster(ptx::sharedAddress(memory) + offset, peer);
  }

  /// Puts \p count different ranks in order, the greatest first: the place of
  /// each is the number of greater ones. Work grows by the square of the count,
  /// but takes one barrier.
  static void order(unsigned long long *to, const unsigned long long *ranks,
                    unsigned count) {
#pragma unroll 1
    for (unsigned i = warp(); i < count; i += kWarps) {
      const unsigned long long rank = ranks[i];
      unsigned before = 0;
      for (unsigned j = lane(); j < count; j += 32)
        before += ranks[j] > rank;
      before = sumOfWarp(before);
      if (lane() == 0)
        to[before] = rank;
    }
    __syncthreads();
  }

  /// Sorts \p count ranks, a power of two, the greatest first (Batcher's
  /// bitonic network, 1968).
  static void sort(unsigned long long *ranks, unsigned count) {
#pragma unroll 1
    for (unsigned size = 2; size <= count; size *= 2)
#pragma unroll 1
      for (unsigned distance = size / 2; distance > 0; distance /= 2) {
        for (unsigned i = threadIdx.x; i < count / 2; i += kThreads) {
          const unsigned low = 2 * i - i % distance, high = low + distance;
          const unsigned long long a = ranks[low], b = ranks[high];
          if ((a < b) == ((low & size) == 0)) {
            ranks[low] = b;
            ranks[high] = a;
          }
        }
        __syncthreads();
      }
  }

  /// The sum over the block's threads before this one.
  unsigned sumBefore(unsigned value) {
    unsigned sum = value;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const unsigned other = __shfl_sync(~0u, sum, max(lane() - distance, 0));
      sum += lane() >= distance ? other : 0;
    }
    SampleTally *partials = nextPartials();
    if (lane() == 31)
      partials[warp()].count = sum;
    __syncthreads();
    unsigned before = sum - value;
    for (int i = 0; i < warp(); ++i)
      before += partials[i].count;
    return before;
  }

  unsigned char *memory;
  unsigned rank = 0;
  unsigned meetings = 0;  ///< of the block
  unsigned exchanges = 0; ///< of the row's blocks
  bool hasStarted = false;
};

} // namespace kiln
