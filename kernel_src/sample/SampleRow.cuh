//===- sample/SampleRow.cuh - the token of a row --------------------------===//
//
// The token is that of the greatest logit with noise among the tokens that
// stay. These are the first m tokens of an order: by logit, equals by token (a
// *rank*). The problem is to find m, a count for top_k and a mass for top_p,
// without sorting a row.
//
// 1. The first walk over the row finds the greatest logit. For a greedy choice,
//    and where all tokens stay, that is all: noise is added in the same walk.
//    Where step 1 alone makes the logits, it finds a value
//    (SampleGreatest.cuh), and its token is sought only if it is needed.
// 2. A small k. Threads make kSampleGroups groups, and the k-th of the groups'
//    greatest logits is at most the k-th of the row, and only just: some k
//    tokens reach it. A second walk collects these, and one block sorts them,
//    cuts the list by all three rules, and draws.
// 3. A large k. The rank of the k-th is found digit by digit, by counting into
//    bins, at most six times.
// 4. top_p without a small k. Instead of the set that stays, the token is
//    sought: the one with the greatest noise among all is the answer if the
//    mass before it in the order is less than p of all. If not, all that stays
//    lies before it, and the search goes on there: the walk that sums the mass
//    before a token also finds the next one. The first is the answer with a
//    probability of p at least, so a usual p takes a walk for all and one or
//    two others, a small one some ln(1 / p). This is FlashInfer's rejection by
//    pivots without the rejection: the result is a function of the logits, the
//    seed and the position, and that of a sorted row.
//
// Masses are integers (SampleNumbers.h), so that kernels agree on every sum.
// All blocks of a row take the same branches, because these depend on merged
// tallies alone.
//
// Rejected: histograms of masses (two atomics for each token and digit),
// sorting (eight times the traffic), and one draw by inverting the sum of
// masses (the token would depend on the order in which a row is read).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Dependent.cuh"
#include "sample/SampleDraw.cuh"
#include "sample/SampleGreatest.cuh"
#include "sample/SampleGroup.cuh"
#include "sample/SampleSource.cuh"

namespace kiln {

/// The rules of a row as its arrays have them.
struct SampleInputs {
  float temperature = 0, p = 1, least = 0;
  int k = 0;
  unsigned long long seed = 0;
  unsigned position = 0;
};

/// The rules of a row.
struct SampleRules {
  float inverse = 0; ///< 1 / temperature; 0 where the greatest logit wins
  bool isDrawn = false;
  int k = 0; ///< 0: all
  float p = 1;
  float leastShift = 0; ///< ln(min_p): a logit below the greatest, over T
};

template <SampleSignature kSignature, auto kConfig> class SampleRow {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");

  static constexpr int kThreads = kConfig.threads();
  static constexpr int kKept = kConfig.keptTokens();
  static constexpr int kBlocks = kConfig.rowBlocks();
  using Group = SampleGroup<kSignature, kThreads, kKept, kBlocks>;
  using Source = SampleGreatest<kSignature, kThreads, kConfig.items, kKept>;
  static constexpr int kPack = Source::kPack;
  using Rank = unsigned long long;
  /// All tokens stay in every row.
  static constexpr bool kDrawsAtOnce =
      kSignature.temperature && !kSignature.cuts;
  static constexpr SampleMerge kFirstMerge =
      kDrawsAtOnce ? SampleMerge::TwoBests : SampleMerge::Best;
  /// The first walk finds a value without its token.
  static constexpr bool kIsLean =
      kSignature.hasPlainLogits() && !kDrawsAtOnce && kKept == 0;

public:
  SampleRow(const SampleParams &params, long long row, unsigned char *memory,
            Group &group, unsigned part, unsigned parts)
      : params(params), row(row), group(group),
        source(params, row, part, parts, memory, Group::kLayout) {
    readInputs();
  }

  /// Finds and stores the token and all that belongs to it.
  void run() {
    const Rank drawn = findGreatest();
    if constexpr (kSignature.cuts)
      resolveRules();
    if (!rules.isDrawn || isDecided(greatestKey))
      token = tokenOf(greatest());
    else if constexpr (kDrawsAtOnce)
      token = tokenOf(drawn);
    else if constexpr (kSignature.cuts)
      drawWithCuts();
    if constexpr (kSignature.logprobs)
      tellLogprobs();
    else
      storeToken();
    // No block ends while another reads its memory.
    if constexpr (kBlocks > 1)
      group.sync();
  }

  /// The same for one of params.rowBlocks blocks that share no memory: the last
  /// one to arrive stores the token.
  void runSpread() {
    Rank best = findGreatest();
    if (threadIdx.x != 0)
      return;
    SampleMeeting &meeting = params.meetings[row];
    atomicMax(&meeting.best, foundGreatest);
    if (rules.isDrawn)
      atomicMax(&meeting.drawn, best);
    // Acquire and release: once all have counted, their maxima are there.
    const auto others = static_cast<unsigned>(params.rowBlocks) - 1;
    if (ptx::atomAddAcqRel(&meeting.arrived, 1) != others)
      return;
    const Rank greatest = atomicMax(&meeting.best, 0ull);
    if (rules.isDrawn)
      best = atomicMax(&meeting.drawn, 0ull);
    meeting.best = meeting.drawn = 0;
    meeting.arrived = 0;
    const bool takesDrawn = rules.isDrawn && !isDecided(keyOf(greatest));
    token = tokenOf(takesDrawn ? best : greatest);
    storeToken();
  }

private:
  //===--------------------------------------------------------------------===//
  // Rules
  //===--------------------------------------------------------------------===//

  /// Begins to load the row's rules: all at once, and none is waited for.
  void readInputs() {
    if constexpr (kSignature.temperature) {
      inputs.temperature = params.temperature[row];
      inputs.seed = params.seeds[row];
      inputs.position = static_cast<unsigned>(params.positions[row]);
    }
    if constexpr (kSignature.cuts) {
      if (params.topK)
        inputs.k = params.topK[row];
      if (params.topP)
        inputs.p = params.topP[row];
      if (params.minP)
        inputs.least = params.minP[row];
    }
  }

  void resolveRules() {
    // Not a number is no temperature.
    rules.isDrawn = inputs.temperature > 0;
    if (!rules.isDrawn)
      return;
    rules.inverse = 1.0f / inputs.temperature;
    if constexpr (kSignature.cuts) {
      rules.k = inputs.k > 0 && inputs.k < params.vocab ? inputs.k : 0;
      rules.p = inputs.p < 1 ? inputs.p : 1;
      rules.leastShift = minusInfinity();
      if (inputs.least >= 0x1p-126f)
        rules.leastShift = inputs.least < 1 ? logOf(inputs.least) : 0;
    }
  }

  SampleDraw newDraw() const {
    return {inputs.seed, inputs.position, rules.inverse};
  }

  /// Whether a row with the greatest \p key has no distribution: it has a NaN,
  /// or an infinity, or none above minus infinity, or the temperature makes
  /// infinities of its logits.
  bool isDecided(unsigned key) const {
    if (key >= kInfinityKey || key <= kMinusInfinityKey)
      return true;
    const unsigned scaled = __float_as_uint(valueOfKey(key) * rules.inverse);
    constexpr unsigned kExponent = 0x7f800000u;
    return (scaled & kExponent) == kExponent ||
           (__float_as_uint(rules.inverse) & kExponent) == kExponent;
  }

  //===--------------------------------------------------------------------===//
  // Walks
  //===--------------------------------------------------------------------===//

  /// Finds the greatest logit of the row, of the block for runSpread(), and
  /// tells maxima where lists need them. Returns the greatest with noise, where
  /// nothing else decides.
  Rank findGreatest() {
    Rank drawn = 0;
    if constexpr (!kIsLean) {
      const SampleTally mine = firstWalk();
      if constexpr (kSignature.lists())
        group.tellMaxima(keyOf(mine.best));
      const SampleTally all = group.template merge<kFirstMerge>(mine);
      foundGreatest = all.best;
      drawn = all.mass;
      greatestKey = keyOf(foundGreatest);
    } else {
      source.findGreatest();
      if constexpr (kSignature.lists()) {
        group.tellMaxima(source.greatestKey());
        const unsigned key = group.greatestKeyOfBlock(source.greatestKey());
        greatestKey = keyOf(group.bestOfRow(rankOf(key, 0)));
      } else {
        foundGreatest = group.bestOfRow(source.rankOfBlock(group));
        greatestKey = keyOf(foundGreatest);
      }
    }
    return drawn;
  }

  /// The greatest logit of the row with its token. All threads of the row call
  /// it.
  Rank greatest() {
    if constexpr (kIsLean)
      if (foundGreatest == 0)
        foundGreatest = group.bestOfRow(source.rankOfBlock(group, greatestKey));
    return foundGreatest;
  }

  /// The greatest logit of this thread; and in `mass` the greatest with noise,
  /// where nothing else decides.
  SampleTally firstWalk() {
    if constexpr (kDrawsAtOnce) {
      source.prefetch();
      resolveRules();
    }
    SampleDraw draw = newDraw();
    SampleTally mine;
    unsigned best = 0;
    source.forEachFirst(
        [&](unsigned token, float(&x)[kPack]) {
          addGreatest(mine, best, token, x);
          if constexpr (kDrawsAtOnce)
            if (rules.isDrawn)
              draw.add(token, x);
        },
        [&] {
          if constexpr (kDrawsAtOnce)
            if (rules.isDrawn)
              draw.shareBound();
        });
    if constexpr (kDrawsAtOnce)
      mine.mass = draw.bestRank();
    return mine;
  }

  /// \p best: the key of mine.best.
  static void addGreatest(SampleTally &mine, unsigned &best, unsigned token,
                          const float (&x)[kPack]) {
    float most = x[0];
#pragma unroll
    for (int i = 1; i < kPack; ++i)
      most = maxOrNan(most, x[i]);
    const unsigned key = orderKey(most);
    if (key <= best)
      return;
    best = key;
    int first = 0;
#pragma unroll
    for (int i = kPack - 1; i >= 0; --i)
      first = orderKey(x[i]) == key ? i : first;
    mine.best = rankOf(key, token + first);
  }

  /// \p x below the greatest, over the temperature; 0 for the greatest itself.
  float shiftOf(float x) const { return (x - most) * rules.inverse; }

  void drawWithCuts() {
    most = valueOfKey(greatestKey);
    // Nothing is left before the greatest.
    if (rules.k == 1 || rules.p <= 0) {
      token = tokenOf(greatest());
      return;
    }
    if (rules.k != 0 && rules.k <= kMostListed && drawFromList())
      return;
    Rank last = 0; // of those that top_k leaves
    if (rules.k != 0)
      last = rankOfKth(static_cast<unsigned>(rules.k));
    descend(last);
  }

  /// The mass of the tokens from rank \p last on, if top_p counts, and the best
  /// of them with noise.
  SampleTally walkBefore(Rank last) {
    SampleDraw draw = newDraw();
    unsigned long long mass = 0;
    const bool sums = rules.p < 1;
    source.forEach(
        [&](unsigned token, float(&x)[kPack]) {
#pragma unroll
          for (int i = 0; i < kPack; ++i) {
            const float shift = shiftOf(x[i]);
            if (shift >= rules.leastShift &&
                rankOf(orderKey(x[i]), token + i) >= last) {
              if (sums)
                mass += massOf(shift);
            } else
              x[i] = minusInfinity();
          }
          draw.add(token, x);
        },
        [&] { draw.shareBound(); });
    SampleTally mine;
    draw.tell(mine);
    mine.mass = mass;
    return group.template merge<SampleMerge::Sums>(mine);
  }

  /// The mass of all tokens that min_p leaves.
  unsigned long long massOfAll() {
    SampleTally mine;
    source.forEach(
        [&](unsigned, float(&x)[kPack]) {
#pragma unroll
          for (int i = 0; i < kPack; ++i) {
            const float shift = shiftOf(x[i]);
            if (shift >= rules.leastShift)
              mine.mass += massOf(shift);
          }
        },
        [] {});
    return group.template merge<SampleMerge::Sums>(mine).mass;
  }

  /// Finds the token among those from rank \p last on, which top_k leaves, or
  /// 0.
  void descend(Rank last) {
    const Rank first = greatest();
    double enough = 0;
    bool isAll = true;
    for (Rank from = last;; isAll = false) {
      const SampleTally next = walkBefore(from);
      if (isAll) {
        unsigned long long mass = next.mass;
        if (params.isJoint && last != 0 && rules.p < 1)
          mass = massOfAll();
        enough = static_cast<double>(rules.p) * static_cast<double>(mass);
      } else if (static_cast<double>(next.mass) < enough) {
        return;
      }
      token = tokenOf(next.best);
      const Rank rank = rankOf(next.key, token);
      if (rules.p >= 1 || rank == first)
        return;
      from = rank + 1;
    }
  }

  //===--------------------------------------------------------------------===//
  // The k greatest
  //===--------------------------------------------------------------------===//

  /// Adds the tokens of \p x from key \p bound on to the list.
  void collect(unsigned bound, unsigned token, const float (&x)[kPack]) {
    float most = x[0];
#pragma unroll
    for (int i = 1; i < kPack; ++i)
      most = maxOrNan(most, x[i]);
    if (orderKey(most) < bound)
      return;
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const unsigned key = orderKey(x[i]);
      if (key >= bound && token + i < static_cast<unsigned>(params.vocab))
        group.addToList(rankOf(key, token + i));
    }
  }

  /// The same for all vectors of the block.
  void collectReaching(unsigned bound) {
    source.forEachReaching(valueOfKey(bound),
                           [&](unsigned token, const Words<16> &words) {
                             float x[kPack];
                             unpackFloats<kSignature.in>(x, words);
#pragma unroll
                             for (int i = 0; i < kPack; ++i)
                               x[i] = source.raw(x[i]);
                             collect(bound, token, x);
                           });
  }

  /// Draws from a list of the k greatest. False if the list has no room: many
  /// tokens are equal, or lie in one group.
  bool drawFromList() {
    group.clearList();
    const unsigned bound = group.boundOf(rules.k);
    const bool sumsAll = params.isJoint && rules.p < 1;
    SampleTally mine;
    if (kIsLean && !sumsAll)
      collectReaching(bound);
    else
      source.forEach(
          [&](unsigned token, float(&x)[kPack]) {
            collect(bound, token, x);
            if (sumsAll)
#pragma unroll
              for (int i = 0; i < kPack; ++i) {
                const float shift = shiftOf(x[i]);
                if (shift >= rules.leastShift)
                  mine.mass += massOf(shift);
              }
          },
          [] {});
    __syncthreads();
    if (threadIdx.x == 0)
      mine.count = group.listed();
    const SampleTally all = group.template merge<SampleMerge::Sums>(mine);
    if (all.count > static_cast<unsigned>(kListTokens))
      return false;
    if (!group.isLeader())
      return true;
    const Rank *ranks = group.sortedLists(all.count);
    if (threadIdx.x < 32) {
      const int kept = keptOf(ranks, min(static_cast<int>(all.count), rules.k),
                              sumsAll, all.mass);
      if (threadIdx.x == 0)
        group.word(SampleWord::Kept) = static_cast<unsigned>(kept);
    }
    __syncthreads();
    drawFrom(ranks, static_cast<int>(group.word(SampleWord::Kept)));
    return true;
  }

  /// The number of the \p count first of \p ranks that stay; in one warp. With
  /// \p isOfAll top_p is a share of \p mass.
  int keptOf(const Rank *ranks, int count, bool isOfAll,
             unsigned long long mass) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int each = (count + 31) / 32;
    const int begin = min(lane * each, count), end = min(begin + each, count);
    unsigned long long own = 0;
    unsigned remaining = 0;
    for (int i = begin; i < end; ++i) {
      const float shift = shiftOf(valueOfKey(keyOf(ranks[i])));
      if (shift >= rules.leastShift) {
        own += massOf(shift);
        ++remaining;
      }
    }
    if (rules.p >= 1)
      return static_cast<int>(sumOfWarp(remaining));
    unsigned long long before = sumUpToLane(own);
    const unsigned long long sum = __shfl_sync(~0u, before, 31);
    const double enough = static_cast<double>(rules.p) *
                          static_cast<double>(isOfAll ? mass : sum);
    before -= own;
    remaining = 0;
    for (int i = begin; i < end; ++i) {
      const float shift = shiftOf(valueOfKey(keyOf(ranks[i])));
      if (shift >= rules.leastShift &&
          (i == 0 || static_cast<double>(before) < enough)) {
        before += massOf(shift);
        ++remaining;
      }
    }
    return static_cast<int>(sumOfWarp(remaining));
  }

  /// Draws from the first \p count of \p ranks; in one block.
  void drawFrom(const Rank *ranks, int count) {
    const SampleDraw draw = newDraw();
    Rank best = 0;
    for (int i = threadIdx.x; i < count; i += kThreads) {
      const Rank rank =
          draw.rankWithNoise(tokenOf(ranks[i]), valueOfKey(keyOf(ranks[i])));
      best = rank > best ? rank : best;
    }
    token = tokenOf(group.bestOfBlock(best));
  }

  /// The rank of the \p k-th greatest, or one that as many reach.
  Rank rankOfKth(unsigned k) {
    // Digits of 11 bits; tokens have 24, and above them all bits are set.
    constexpr int kShifts[] = {53, 42, 32, 21, 10, 0};
    unsigned wanted = k;
    Rank found = 0;
    int above = 64; // bits from here on are found
    int turn = 0;
#pragma unroll 1
    for (int shift : kShifts) {
      unsigned *bins = group.clearBins(turn);
      turn ^= 1;
      source.forEach(
          [&](unsigned token, float(&x)[kPack]) {
#pragma unroll
            for (int i = 0; i < kPack; ++i) {
              const Rank rank = rankOf(orderKey(x[i]), token + i);
              if (above == 64 || rank >> above == found >> above)
                atomicAdd(
                    bins + (rank >> shift & ((1u << (above - shift)) - 1)), 1u);
            }
          },
          [] {});
      const typename Group::Digit digit = group.findDigit(bins, wanted);
      found |= static_cast<Rank>(digit.digit) << shift;
      above = shift;
      wanted = digit.left;
      if (digit.count == wanted)
        break;
    }
    return found;
  }

  //===--------------------------------------------------------------------===//
  // Log probabilities
  //===--------------------------------------------------------------------===//

  /// Stores the token with its log probability, and the most probable tokens
  /// with theirs. The leader knows the token.
  void tellLogprobs() {
    unsigned key = greatestKey;
    if constexpr (kSignature.changesLogits())
      key = greatestRawKey();
    else
      group.sync(); // lists are read
    const float top = valueOfKey(key);
    const int count = params.topCount;
    group.clearList();
    const unsigned bound = count > 0 ? group.boundOf(count) : kNanKey;
    if (count == 0)
      __syncthreads();
    SampleTally mine;
    source.forEachRaw(
        [&](unsigned token, float(&x)[kPack]) {
          if (count > 0)
            collect(bound, token, x);
#pragma unroll
          for (int i = 0; i < kPack; ++i)
            mine.mass += massOf(x[i] - top);
        },
        [] {});
    __syncthreads();
    if (threadIdx.x == 0)
      mine.count = group.listed();
    const SampleTally all = group.template merge<SampleMerge::Sums>(mine);
    // Without a distribution there is no logarithm.
    logOfSum = key >= kInfinityKey || key <= kMinusInfinityKey
                   ? __uint_as_float(0x7fc00000u)
                   : logf(static_cast<float>(all.mass) /
                          static_cast<float>(kUnitMass));
    topLogit = top;
    storeToken();
    if (count == 0)
      return;
    if (all.count <= static_cast<unsigned>(kListTokens)) {
      if (group.isLeader()) {
        const Rank *ranks = group.sortedLists(all.count);
        for (int i = threadIdx.x; i < count; i += kThreads)
          storeTop(i, ranks[i]);
      }
      return;
    }
    Rank before = ~0ull;
    for (int i = 0; i < count; ++i) {
      before = greatestBefore(before);
      if (group.isLeader() && threadIdx.x == 0)
        storeTop(i, before);
    }
  }

  unsigned greatestRawKey() {
    group.sync(); // maxima are read
    SampleTally mine;
    unsigned best = 0;
    source.forEachRaw(
        [&](unsigned token, float(&x)[kPack]) {
          addGreatest(mine, best, token, x);
        },
        [] {});
    group.tellMaxima(keyOf(mine.best));
    return keyOf(group.template merge<SampleMerge::Best>(mine).best);
  }

  /// The greatest rank below \p before, by the logits of step 1.
  Rank greatestBefore(Rank before) {
    SampleTally mine;
    source.forEachRaw(
        [&](unsigned token, float(&x)[kPack]) {
#pragma unroll
          for (int i = 0; i < kPack; ++i) {
            const Rank rank = rankOf(orderKey(x[i]), token + i);
            if (rank < before && rank > mine.best)
              mine.best = rank;
          }
        },
        [] {});
    return group.template merge<SampleMerge::Best>(mine).best;
  }

  //===--------------------------------------------------------------------===//
  // Results
  //===--------------------------------------------------------------------===//

  float logprobOf(float logit) const { return logit - topLogit - logOfSum; }

  static void storeIndex(void *to, long long at, unsigned value, bool isInt64) {
    if (isInt64)
      static_cast<long long *>(to)[at] = value;
    else
      static_cast<int *>(to)[at] = static_cast<int>(value);
  }

  void storeToken() const {
    if (!group.isLeader() || threadIdx.x != 0)
      return;
    storeIndex(params.tokens, row, token, params.isInt64);
    if constexpr (kSignature.logprobs)
      if (params.logprobs)
        params.logprobs[row] = logprobOf(source.rawOf(token));
    if (!params.advances)
      return;
    ++params.positions[row];
    if (params.lengths)
      ++params.lengths[row];
  }

  void storeTop(int place, Rank rank) const {
    const long long at = row * params.topCount + place;
    if (params.topTokens)
      storeIndex(params.topTokens, at, tokenOf(rank), params.isInt64);
    if (params.topLogprobs)
      params.topLogprobs[at] = logprobOf(valueOfKey(keyOf(rank)));
  }

  const SampleParams &params;
  long long row;
  Group &group;
  Source source;
  SampleInputs inputs;
  SampleRules rules;
  unsigned greatestKey = 0; ///< of the greatest logit
  Rank foundGreatest = 0;   ///< the same with its token; 0: not sought yet
  float most = 0;           ///< the greatest logit
  float topLogit = 0, logOfSum = 0;
  unsigned token = 0;
};

template <SampleSignature kSignature, auto kConfig>
void sampleRow(const SampleParams &params) {
  extern __shared__ __align__(16) unsigned char sampleMemory[];
  allowSuccessor();
  constexpr int kBlocks = kConfig.rowBlocks();
  SampleGroup<kSignature, kConfig.threads(), kConfig.keptTokens(), kBlocks>
      group(sampleMemory);
  awaitPredecessor();
  if constexpr (kConfig.isSpread()) {
    const auto parts = static_cast<unsigned>(params.rowBlocks);
    SampleRow<kSignature, kConfig>(params, blockIdx.x / parts, sampleMemory,
                                   group, blockIdx.x % parts, parts)
        .runSpread();
  } else
    SampleRow<kSignature, kConfig>(params, blockIdx.x / kBlocks, sampleMemory,
                                   group, group.rowRank(), kBlocks)
        .run();
}

} // namespace kiln
