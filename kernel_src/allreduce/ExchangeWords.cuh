//===- allreduce/ExchangeWords.cuh - data that is its own ready flag ------===//
//
// A word of exchange memory is 0 until its value is there, so a reader needs no
// barrier and no flag: it polls its own memory until no word of its vector is
// 0, and leaves 0. A value travels inverted, because the one word that no value
// may have is then all ones: a NaN, or two of them, in each of the types. It is
// replaced by another NaN.
//
// Only words are expected to arrive whole: vectors of 16 bytes may not.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "allreduce/ExchangeLayout.h"
#include "common/Access.cuh"

namespace kiln {

/// 16 bytes of a row.
using ExchangeWords = Words<ExchangeLayout::kVectorBytes>;

/// \p words without the word that cannot travel.
inline ExchangeWords sendable(ExchangeWords words) {
#pragma unroll
  for (unsigned &word : words.word)
    word = word == 0xffffffffu ? 0x7fffffffu : word;
  return words;
}

/// Sends \p words, which are sendable, to a place of exchange memory.
inline void sendWords(char *place, const ExchangeWords &words) {
  ptx::stRelaxedSys(
      place, {~words.word[0], ~words.word[1], ~words.word[2], ~words.word[3]});
}

/// Loads a place; true if all of its words are there.
inline bool receiveWords(const char *place, ExchangeWords &words) {
  const uint4 sent = ptx::ldRelaxedSys(place);
  words = {~sent.x, ~sent.y, ~sent.z, ~sent.w};
  return min(min(sent.x, sent.y), min(sent.z, sent.w)) != 0;
}

/// Leaves a place as the next user finds it.
inline void clearPlace(char *place) { ptx::stRelaxedSys(place, {0, 0, 0, 0}); }

/// How long a thread has waited. A rank that does not come within the limit is
/// an error, which all ranks are told: the word of a rank's memory that says so
/// is 1 + the rank that is missing, the first that any thread missed.
class ExchangeWait {
public:
  /// \p failed: nothing is waited for.
  ExchangeWait(char *const *exchange, int ranks, int rank,
               unsigned long long limitNs, bool failed)
      : exchange(exchange), ranks(ranks), rank(rank), limitNs(limitNs),
        failed(failed) {}

  /// Whether to wait on for rank \p missing. Once false, always false. \p
  /// isIndirect: that rank may wait for another one itself, and then the other
  /// one is to be named. So it gets the time to come, and to miss the other.
  bool goesOn(int missing, bool isIndirect = false) {
    // A read of the clock takes longer than a poll.
    constexpr unsigned kPollsBetween = 64;
    if (failed || ++polls % kPollsBetween != 0)
      return !failed;
    const unsigned long long now = ptx::globalTimer();
    if (begin == 0)
      begin = now;
    if (ptx::ldRelaxedSys32(exchange[rank]) != 0)
      failed = true;
    else if (now - begin > (isIndirect ? 2 * limitNs : limitNs))
      tell(static_cast<unsigned>(missing) + 1);
    return !failed;
  }
  /// Begins with another vector.
  void restart() { begin = 0; }
  bool hasFailed() const { return failed; }
  /// Tells all ranks, except those that have an error already.
  void tell(unsigned error) {
    failed = true;
    for (int i = 0; i < ranks; ++i)
      if (ptx::ldRelaxedSys32(exchange[i]) == 0)
        ptx::stRelaxedSys32(exchange[i], error);
  }

private:
  char *const *exchange;
  int ranks, rank;
  unsigned long long limitNs, begin = 0;
  unsigned polls = 0;
  bool failed;
};

} // namespace kiln
