//===- route/RouteBlock.cuh - the choices of a block's tokens -------------===//
//
// A block routes tokens that follow each other, and gives each choice a place
// among the choices of its expert. A token chooses an expert once at most. So
// the choices of an expert, in ascending order, are its tokens in ascending
// order, and a word has those of 32 tokens as bits: a choice's place is the
// number of bits below its own, and no choice is compared with another.
// Choosing sets the bits (an atomic or, whose result does not depend on the
// order); then a thread of each expert adds up the words before each word.
//
// Blocks with more tokens than fit take several passes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "route/RouteLayout.h"
#include "route/RouteToken.cuh"

namespace kiln {

/// A word of each expert, in shared memory.
struct ExpertWords {
  unsigned *words;

  unsigned &operator[](int expert) const { return words[expertWord(expert)]; }
};

template <RouteSignature kSignature, auto kConfig> class RouteBlock {
public:
  static constexpr int kThreads = kConfig.threads();
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kExperts = 32 * kConfig.items;
  static constexpr int kPassTokens = kConfig.passTokens();
  static constexpr RouteLayout kLayout = kConfig.layout(kSignature);

  RouteBlock(const RouteParams &params, unsigned char *memory, int rank)
      : params(params), memory(memory),
        router(params, at(kLayout.keys) + warp() * kExperts),
        begin(static_cast<long long>(rank) * params.blockTokens) {
    const long long left = params.tokens - begin;
    tokens = static_cast<int>(
        left < 0 ? 0 : min(left, static_cast<long long>(params.blockTokens)));
  }

  unsigned *at(int offset) const {
    return reinterpret_cast<unsigned *>(memory + offset);
  }
  /// The same place as an offset in the window of shared memory.
  unsigned windowAt(int offset) const {
    return ptx::sharedAddress(memory) + offset;
  }
  ExpertWords bases() const { return {at(kLayout.bases)}; }
  ExpertWords totals() const { return {at(kLayout.totals)}; }
  int passes() const { return (tokens + kPassTokens - 1) / kPassTokens; }

  /// Ahead of all passes. A thread clears the words that it counts with.
  void clearBases() const {
    for (int expert = threadIdx.x; expert < params.experts; expert += kThreads)
      bases()[expert] = 0;
  }

  /// Reads what the block needs beside logits. Behind awaitPredecessor().
  void begins() {
    if (params.tokenCount)
      valid = max(*params.tokenCount, 0);
    else
      valid = params.tokens;
  }

  /// Routes the tokens of a pass, and sets the bits of their choices. With
  /// \p stores results of tokens are stored. All threads may read the bits
  /// afterwards.
  void route(int pass, bool stores) const {
    const int first = pass * kPassTokens;
    const int count = min(kPassTokens, tokens - first);
    const int words = (count + kRouteChunk - 1) / kRouteChunk * kExperts;
    for (int i = threadIdx.x; i < words; i += kThreads)
      at(kLayout.masks)[i] = 0;
    __syncthreads();
#pragma unroll 1
    for (int token = warp(); token < count; token += kWarps)
      routeToken(begin + first + token, token, stores);
    __syncthreads();
  }

  /// Gives the choices of a pass places, from those in bases() on.
  void number(int pass) const {
    const int chunks =
        (min(kPassTokens, tokens - pass * kPassTokens) + kRouteChunk - 1) /
        kRouteChunk;
    for (int expert = threadIdx.x; expert < params.experts;
         expert += kThreads) {
      unsigned place = bases()[expert];
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const int word = chunk * kExperts + expert;
        at(kLayout.places)[word] = place;
        place += __popc(at(kLayout.masks)[word]);
      }
      bases()[expert] = place;
    }
    __syncthreads();
  }

  /// Calls \p visit(choice, expert, place) with the choices of a pass that have
  /// a row, and \p skip(choice) with the others.
  template <class Visit, class Skip>
  void forEachChoice(int pass, Visit visit, Skip skip) const {
    const int first = pass * kPassTokens;
    const int count = min(kPassTokens, tokens - first) * params.topK;
    const long long firstChoice = (begin + first) * params.topK;
    for (int i = threadIdx.x; i < count; i += kThreads) {
      const unsigned expert = choices()[i];
      if (expert == kNoExpert) {
        skip(firstChoice + i);
        continue;
      }
      const int token = i / params.topK;
      const int word = token / kRouteChunk * kExperts + expert;
      const unsigned below = (1u << token % kRouteChunk) - 1;
      visit(firstChoice + i, expert,
            at(kLayout.places)[word] + __popc(at(kLayout.masks)[word] & below));
    }
    // The next pass takes the memory.
    __syncthreads();
  }

private:
  static constexpr unsigned kNoExpert = 0xffff;

  static int warp() { return static_cast<int>(threadIdx.x / 32); }
  unsigned short *choices() const {
    return reinterpret_cast<unsigned short *>(memory + kLayout.choices);
  }

  void routeToken(long long token, int ofPass, bool stores) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const bool isValid = token < valid;
    RoutedChoice choice;
    if (isValid)
      choice = router.route(token);
    if (lane >= params.topK)
      return;
    const int local = choice.expert - params.firstExpert;
    const bool hasRow = isValid && local >= 0 && local < params.localExperts;
    choices()[ofPass * params.topK + lane] = static_cast<unsigned short>(
        hasRow ? static_cast<unsigned>(choice.expert) : kNoExpert);
    if (hasRow)
      atomicOr(at(kLayout.masks) + ofPass / kRouteChunk * kExperts +
                   choice.expert,
               1u << ofPass % kRouteChunk);
    if (!stores)
      return;
    const long long to = token * params.topK + lane;
    params.weights[to] = hasRow ? choice.weight : 0;
    if (params.chosen)
      params.chosen[to] = choice.expert;
  }

  const RouteParams &params;
  unsigned char *memory;
  TokenRouter<kSignature, kConfig.items> router;
  const long long begin;
  int tokens = 0;
  int valid = 0; ///< tokens of all blocks that may have rows
};

/// The rows of groups, by one warp: each lane has some experts that follow each
/// other. \p totals are the rows of each expert; their groups' first rows are
/// added to \p bases. With \p stores ends and sizes are stored.
inline void routeGroups(const RouteParams &params, ExpertWords totals,
                        ExpertWords bases, bool stores) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int each = (params.experts + 31) / 32;
  const int first = min(lane * each, params.experts);
  const int last = min(first + each, params.experts);
  const auto align = static_cast<unsigned>(params.align);
  auto room = [&](unsigned rows) {
    return align == 1 ? rows : (rows + align - 1) / align * align;
  };
  unsigned own = 0;
  for (int expert = first; expert < last; ++expert)
    own += room(totals[expert]);
  unsigned start = sumUpToLane(own) - own;
  for (int expert = first; expert < last; ++expert) {
    const unsigned rows = totals[expert];
    bases[expert] += start;
    const int local = expert - params.firstExpert;
    if (stores && local >= 0 && local < params.localExperts) {
      params.ends[local] = static_cast<int>(start + rows);
      if (params.sizes)
        params.sizes[local] = static_cast<int>(rows);
    }
    start += room(rows);
  }
}

} // namespace kiln
