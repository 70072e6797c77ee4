//===- sample/SampleGroup.cuh - the blocks of a row, and what they tell ---===//
//
// A row has one block, or the blocks of a cluster. All threads of a row call
// these functions together. Memory that others write, or read, is used in
// turns: a block that begins a meeting knows that all have left the one before
// the last.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"
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
        ptx::barrierClusterWait();
        hasStarted = true;
      }
  }

  /// A barrier of all threads of the row, behind which they see each other's
  /// shared memory.
  void sync() {
    if constexpr (kBlocks > 1) {
      awaitStart();
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
      auto *slots =
          at<SampleTally>(kLayout.slots) + exchanges++ % 2 * kMostRowBlocks;
      awaitStart();
      if (warp() == 0) {
        mine = lane() < kWarps ? partials[lane()] : SampleTally{};
        mergeWarp<kMerge>(mine);
        if (lane() < kBlocks)
          send<kMerge>(slots + rank, mine, lane());
      }
      sync();
      mine = lane() < kBlocks ? slots[lane()] : SampleTally{};
      mergeWarp<kMerge>(mine);
    }
    return mine;
  }

  /// The greatest of the block's threads, in each of them.
  unsigned long long bestOfBlock(unsigned long long rank) {
    SampleTally mine;
    mine.best = rank;
    SampleTally *partials = nextPartials();
    mergeWarp<SampleMerge::Best>(mine);
    if (lane() == 0)
      partials[warp()] = mine;
    __syncthreads();
    mine = lane() < kWarps ? partials[lane()] : SampleTally{};
    mergeWarp<SampleMerge::Best>(mine);
    return mine.best;
  }

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
        ptx::stSharedClusterF32(
            ptx::mapaSharedCluster(ptx::sharedAddress(place), peer),
            __uint_as_float(key));
  }

  /// A key that at least \p count of the maxima reach, which is within 2^-7 of
  /// the greatest such key.
  unsigned boundOf(int count) {
    if (warp() == 0) {
      unsigned maxima[kSampleGroups / 32];
#pragma unroll
      for (int i = 0; i < kSampleGroups / 32; ++i)
        maxima[i] = at<unsigned>(kLayout.maxima)[i * 32 + lane()];
      unsigned bound = 0;
#pragma unroll 1
      for (unsigned bit = 1u << 31; bit >= 1u << 16; bit >>= 1) {
        int reaching = 0;
#pragma unroll
        for (int i = 0; i < kSampleGroups / 32; ++i)
          reaching += __popc(__ballot_sync(~0u, maxima[i] >= (bound | bit)));
        if (reaching >= count)
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
      unsigned begin = 0;
#pragma unroll 1
      for (unsigned peer = 0; peer < kBlocks; ++peer) {
        const unsigned length = load(&word(SampleWord::Listed), peer);
        const auto *list = at<unsigned>(kLayout.list);
        for (unsigned i = threadIdx.x; i < 2 * length; i += kThreads)
          reinterpret_cast<unsigned *>(all)[2 * begin + i] =
              load(list + i, peer);
        begin += length;
      }
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

  /// Room for a tally of each warp, which the meeting before does not use.
  SampleTally *nextPartials() {
    return at<SampleTally>(kLayout.partials) + meetings++ % 2 * 32;
  }

  template <SampleMerge kMerge> static void mergeWarp(SampleTally &mine) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      SampleTally other;
      other.best = __shfl_xor_sync(~0u, mine.best, distance);
      if constexpr (kMerge == SampleMerge::TwoBests) {
        other.mass = __shfl_xor_sync(~0u, mine.mass, distance);
        mine.mass = other.mass > mine.mass ? other.mass : mine.mass;
      }
      if constexpr (kMerge == SampleMerge::Sums) {
        other.key = __shfl_xor_sync(~0u, mine.key, distance);
        mine.mass += __shfl_xor_sync(~0u, mine.mass, distance);
        mine.count += __shfl_xor_sync(~0u, mine.count, distance);
      }
      if (other.best > mine.best) {
        mine.best = other.best;
        mine.key = other.key;
      }
    }
  }

  /// Stores \p tally at \p place of block \p peer.
  template <SampleMerge kMerge>
  static void send(SampleTally *place, const SampleTally &tally,
                   unsigned peer) {
    const unsigned address =
        ptx::mapaSharedCluster(ptx::sharedAddress(place), peer);
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
  static unsigned load(const unsigned *own, unsigned peer) {
    return __float_as_uint(ptx::ldSharedClusterF32(
        ptx::mapaSharedCluster(ptx::sharedAddress(own), peer)));
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
