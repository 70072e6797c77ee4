//===- sample/SampleLayout.h - shared memory of a block that samples ------===//
//
// Offsets in bytes, multiples of 16. Host and kernels share them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "sample/SampleSignature.h"

namespace kiln {

/// Tokens whose occurrences in the history are counted at once.
inline constexpr int kCountedTokens = 8192;
/// The most tokens that a list has.
inline constexpr int kListTokens = 1024;
/// The most tokens of a list that is sorted by counting.
inline constexpr int kCountedRanks = 192;
/// Groups of a row's threads whose greatest logits bound the k greatest.
inline constexpr int kSampleGroups = 256;
/// The most tokens that are found by that bound. More are found by digits.
inline constexpr int kMostListed = 192;
/// Bins of a digit.
inline constexpr int kDigitBins = 2048;
/// The most blocks of a row that share their memory.
inline constexpr int kMostRowBlocks = 8;

/// Blocks for which an SM has registers: 64 a thread, and 128 for kernels that
/// need more, unless a block has too many threads.
constexpr int sampleMinBlocks(const SampleSignature &signature, int threads) {
  constexpr int kThreadsOf64 = 1024, kThreadsOf128 = 512;
  const int blocks = (signature.cuts ? kThreadsOf128 : kThreadsOf64) / threads;
  return blocks < 1 ? 1 : blocks;
}

/// The most vectors of 16 bytes that a thread has in flight. Noise leaves fewer
/// registers for them.
constexpr int mostSampleItems(const SampleSignature &signature) {
  return signature.temperature ? 4 : 8;
}

/// Registers of a thread with \p items vectors in flight (ptxas 13.0 for sm_90,
/// all configs of the space).
constexpr int sampleRegisters(const SampleSignature &signature, int threads,
                              int items) {
  if (signature.cuts)
    return threads < 1024 ? 128 : 64;
  if (signature.temperature || signature.logprobs)
    return 64;
  const int wanted = 36 + 4 * items;
  return wanted < 64 ? wanted : 64;
}

/// The results of a thread, a warp or a block over its tokens. 32 bytes.
struct SampleTally {
  unsigned long long best = 0; ///< rank, by logits or by logits with noise
  unsigned long long mass = 0;
  unsigned key = 0;   ///< of the logit of the best
  unsigned count = 0; ///< of tokens
  unsigned unused[2] = {};
};

struct SampleLayout {
  int slice = 0;    ///< the block's part of the row, fp32
  int counters = 0; ///< of kCountedTokens tokens
  int list = 0;     ///< ranks that the block collected
  int gathered = 0; ///< ranks of all blocks
  int ordered = 0;  ///< ranks that were sorted by counting
  int maxima = 0;   ///< keys of kSampleGroups groups
  int bins = 0;     ///< two times kDigitBins counts
  int slots = 0;    ///< two times a tally of each block
  int partials = 0; ///< two times a tally of each warp
  int words = 0;    ///< from one thread to the others of its block
  int bytes = 0;    ///< of all
};

/// Words in SampleLayout::words.
struct SampleWord {
  enum : int { Listed, Bound, Kept, Digit, Left, InBin, Least, Count = 8 };
};

/// The layout where a block keeps \p keptTokens tokens and a row has
/// \p rowBlocks blocks.
constexpr SampleLayout sampleLayout(const SampleSignature &signature,
                                    int keptTokens, int rowBlocks) {
  constexpr int kMostWarps = 32;
  constexpr int kTallyBytes = 32, kRankBytes = 8, kWordBytes = 4;
  SampleLayout layout;
  auto place = [&](int bytes) {
    const int at = layout.bytes;
    layout.bytes += bytes;
    return at;
  };
  const bool lists = signature.lists();
  layout.slice = place(keptTokens * kWordBytes);
  layout.counters =
      place(signature.penalties ? kCountedTokens * kWordBytes : 0);
  layout.list = place(lists ? kListTokens * kRankBytes : 0);
  layout.gathered =
      place(lists && rowBlocks > 1 ? kListTokens * kRankBytes : 0);
  layout.ordered = place(lists ? kCountedRanks * kRankBytes : 0);
  layout.maxima = place(lists ? kSampleGroups * kWordBytes : 0);
  layout.bins = place(signature.cuts ? 2 * kDigitBins * kWordBytes : 0);
  layout.slots = place(rowBlocks > 1 ? 2 * kMostRowBlocks * kTallyBytes : 0);
  layout.partials = place(2 * kMostWarps * kTallyBytes);
  layout.words = place(SampleWord::Count * kWordBytes);
  return layout;
}

} // namespace kiln
