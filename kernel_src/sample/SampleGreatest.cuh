//===- sample/SampleGreatest.cuh - the greatest logit, and little else ----===//
//
// A row whose logits no mask, penalty or softcap changes takes one or two
// instructions a token here, so that memory determines the time of a choice.
//
// A thread has some vectors in flight at once, a *turn*. It keeps the greatest
// logit of all, and the first turn that has it, instead of a token. Logits of
// 16 bits are compared in pairs as they are stored. The token is sought at the
// end, by one warp: where a thread has the greatest logit of all, the lanes of
// its warp look at the tokens of its turn, each at one or two.
//
// Turns that all threads have whole ask for no bounds; a part that is no
// multiple of them ends with one that does.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Warp.cuh"
#include "sample/SampleSource.cuh"

namespace kiln {

/// A source that knows its greatest logit.
template <SampleSignature kSignature, int kThreads, int kItems, int kKept>
class SampleGreatest
    : public SampleSource<kSignature, kThreads, kItems, kKept> {
  using Source = SampleSource<kSignature, kThreads, kItems, kKept>;
  static constexpr unsigned kNone = ~0u; // no token and no turn
  using Rank = unsigned long long;

public:
  using Source::kPack;
  using Source::Source;

  /// Finds the greatest logit of this thread.
  void findGreatest() {
    forEachTurn([&](unsigned turn, const Words<16>(&words)[kItems]) {
      const unsigned key = orderKey(greatestOf(words));
      if (key > best) {
        best = key;
        bestTurn = turn;
      }
    });
  }
  /// Its order key; 0 where the thread has no token.
  unsigned greatestKey() const { return best; }

  /// After findGreatest(), the rank of the greatest logit of the block in all
  /// of its threads.
  template <class Group> Rank rankOfBlock(Group &group) const {
    group.clearLeast();
    const unsigned key = group.greatestKeyOfBlock(best);
    return rankOf(key, leastTokenOf(group, key));
  }
  /// The same for \p key; 0 where the block does not have it.
  template <class Group> Rank rankOfBlock(Group &group, unsigned key) const {
    group.clearLeast();
    __syncthreads();
    const unsigned token = leastTokenOf(group, key);
    return token == kNone ? 0 : rankOf(key, token);
  }

  /// Calls each(token, words) for the vectors of this thread that have a logit
  /// of \p bound at least, or NaN.
  template <class Each> void forEachReaching(float bound, Each each) const {
    forEachTurn([&](unsigned turn, const Words<16>(&words)[kItems]) {
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        const Words<16> one[1] = {words[i]};
        const unsigned pack = packOf(turn, i, threadIdx.x);
        if (!(greatestOf(one) < bound) && pack < this->end())
          each(pack * kPack, words[i]);
      }
    });
  }

private:
  static unsigned packOf(unsigned turn, int item, unsigned thread) {
    return turn + item * kThreads + thread;
  }

  /// Calls take(turn, words) for each turn, which begins with vector `turn`.
  /// Vectors that a last turn lacks are one of the thread's others once more.
  template <class Take> void forEachTurn(const Take &take) const {
    constexpr unsigned kTurn = kThreads * kItems;
    const unsigned whole = this->wholeEnd();
    const char *from = this->addressOf(this->begin() + threadIdx.x);
#pragma unroll 1
    for (unsigned turn = this->begin(); turn < this->end(); turn += kTurn) {
      Words<16> words[kItems];
      if (turn + kTurn <= whole)
#pragma unroll
        for (int i = 0; i < kItems; ++i)
          words[i] = Source::wholeWords(from + i * (kThreads * 16));
      else if (packOf(turn, 0, threadIdx.x) < this->end())
        loadLastTurn(words, turn, from);
      else
        break;
      take(turn, words);
      from += kTurn * 16;
    }
  }
  void loadLastTurn(Words<16> (&words)[kItems], unsigned turn,
                    const char *from) const {
    const unsigned whole = this->wholeEnd();
#pragma unroll
    for (int i = 0; i < kItems; ++i)
      if (packOf(turn, i, threadIdx.x) < whole)
        words[i] = Source::wholeWords(from + i * (kThreads * 16));
    // The vector in which the row ends is a thread's last one.
    Words<16> ragged;
    const bool isRagged =
        whole < this->end() && (whole - turn) % kThreads == threadIdx.x;
    if (isRagged)
      ragged = this->wordsOf(whole);
#pragma unroll
    for (int i = 0; i < kItems; ++i)
      if (packOf(turn, i, threadIdx.x) >= whole)
        words[i] = isRagged ? ragged : words[0];
  }

  /// The greatest logit of step 1 in some vectors; NaN if any is.
  template <int kCount>
  float greatestOf(const Words<16> (&words)[kCount]) const {
    // +0 instead of -0
    return (this->isAsStored() ? greatestAs<true>(words)
                               : greatestAs<false>(words)) +
           0.0f;
  }
  template <bool kAsStored, int kCount>
  float greatestAs(const Words<16> (&words)[kCount]) const {
    constexpr bool kPairs =
        kAsStored && bytesOf(kSignature.in) == 2 && __CUDA_ARCH__ >= 800;
    float most;
    if constexpr (kPairs) {
      unsigned pair = greaterPair(words[0]);
#pragma unroll
      for (int i = 1; i < kCount; ++i)
        pair = greaterPair(pair, greaterPair(words[i]));
      float other;
      unpackPair<kSignature.in>(most, other, pair);
      most = maxOrNan(most, other);
    } else
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        float x[kPack];
        unpackFloats<kSignature.in>(x, words[i]);
#pragma unroll
        for (int j = 0; j < kPack; ++j) {
          const float logit = kAsStored ? x[j] : this->raw(x[j]);
          most = i + j == 0 ? logit : maxOrNan(most, logit);
        }
      }
    return most;
  }

  static unsigned greaterPair(unsigned a, unsigned b) {
    if constexpr (kSignature.in == DType::BF16)
      return ptx::maxNanBf16x2(a, b);
    else
      return ptx::maxNanF16x2(a, b);
  }
  static unsigned greaterPair(const Words<16> &words) {
    return greaterPair(greaterPair(words.word[0], words.word[1]),
                       greaterPair(words.word[2], words.word[3]));
  }

  //===--------------------------------------------------------------------===//
  // The token
  //===--------------------------------------------------------------------===//

  /// The lowest token of the block whose logit has \p key; kNone if there is
  /// none.
  template <class Group>
  unsigned leastTokenOf(Group &group, unsigned key) const {
    const bool isMine = best == key && best != 0;
    if (__any_sync(~0u, isMine)) {
      const unsigned token = leastTokenOfWarp(isMine, key);
      if (threadIdx.x % 32 == 0)
        group.offerLeast(token);
    }
    __syncthreads();
    return group.least();
  }

  /// Among threads that share the first turn, lower vectors have lower tokens,
  /// and then lower lanes.
  unsigned leastTokenOfWarp(bool isMine, unsigned key) const {
    const unsigned turn = leastOfWarp(isMine ? bestTurn : kNone);
    unsigned owners = __ballot_sync(~0u, isMine && bestTurn == turn);
    unsigned token = kNone;
    for (; owners != 0; owners &= owners - 1) {
      const unsigned found = leastTokenOfTurn(
          turn, threadIdx.x / 32 * 32 + lowestBit(owners), key);
      token = min(token, found);
      if (token / kPack < turn + kThreads)
        break;
    }
    return token;
  }

  /// The lowest token with \p key in a turn of thread \p owner.
  unsigned leastTokenOfTurn(unsigned turn, unsigned owner, unsigned key) const {
    constexpr unsigned kTokens = kItems * kPack;
#pragma unroll
    for (unsigned from = 0; from < kTokens; from += 32) {
      const unsigned place = from + threadIdx.x % 32;
      const unsigned token = tokenAt(turn, owner, place);
      const bool holds = place < kTokens && token < this->vocab() &&
                         token / kPack < this->end() &&
                         orderKey(this->rawOf(token)) == key;
      if (const unsigned lanes = __ballot_sync(~0u, holds))
        return tokenAt(turn, owner, from + lowestBit(lanes));
    }
    return kNone;
  }
  static unsigned tokenAt(unsigned turn, unsigned owner, unsigned place) {
    return packOf(turn, static_cast<int>(place / kPack), owner) * kPack +
           place % kPack;
  }
  static unsigned lowestBit(unsigned bits) {
    return static_cast<unsigned>(__popc(~bits & (bits - 1)));
  }

  unsigned best = 0; ///< key
  unsigned bestTurn = kNone;
};

} // namespace kiln
