//===- route/RouteToken.cuh - the experts of a token, by a warp -----------===//
//
// Lane l has the experts l, l + 32, ... in registers. Each round takes the
// greatest key that is left, and of equals the lowest expert, by two reductions
// of the warp; lane j keeps the result of round j.
//
// A value is compared by its key (routeKey): then reductions of integers do,
// NaN has a place, and 0 is left for experts that cannot be chosen.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Convert.cuh"
#include "common/Warp.cuh"
#include "route/RouteNumbers.cuh"
#include "route/RouteParams.h"
#include "route/RouteSignature.h"

namespace kiln {

/// A lane's part of a token: that of choice `lane`.
struct RoutedChoice {
  int expert = -1;
  float weight = 0;
};

template <RouteSignature kSignature, int kItems> class TokenRouter {
public:
  static constexpr int kExperts = 32 * kItems; ///< the most

  /// \p keys has room for a key of each expert, for this warp alone, if there
  /// are groups.
  TokenRouter(const RouteParams &params, unsigned *keys)
      : params(params), lane(static_cast<int>(threadIdx.x % 32)),
        groupKeys(keys) {
    if constexpr (kSignature.grouped) {
      groupSize = params.experts / params.groups;
      inverseSize = 1.0f / static_cast<float>(groupSize);
    }
  }

  /// The choices of \p token. All lanes of the warp call it together.
  RoutedChoice route(long long token) const {
    const auto *row =
        static_cast<const Storage<kSignature.in> *>(params.logits) +
        token * params.ld;
    float x[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i)
      x[i] = exists(i) ? logitOf(row, expertOf(i)) : -infinity();
    float most = 0, inverse = 0;
    if constexpr (!kSignature.sigmoid) {
      most = greatestOf(x);
      inverse = 1.0f / sumOfExp(x, most);
    }
    unsigned keys[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i)
      keys[i] = exists(i) ? routeKey(choiceValue(x[i], i, most, inverse)) : 0;
    if constexpr (kSignature.grouped)
      dropGroups(keys);
    unsigned key = 0;
    RoutedChoice choice = choose(keys, key);
    if (lane < params.topK) {
      const float logit =
          kSignature.byScore ? logitOf(row, choice.expert) : routeValue(key);
      choice.weight = scoreOf(logit, most, inverse);
    }
    if (params.renormalizes)
      choice.weight /= sumOfWarp(choice.weight) + kRouteLeastSum;
    choice.weight *= params.scale;
    return choice;
  }

private:
  static float infinity() { return __uint_as_float(0x7f800000u); }

  int expertOf(int item) const { return item * 32 + lane; }
  bool exists(int item) const { return expertOf(item) < params.experts; }

  float logitOf(const Storage<kSignature.in> *row, int expert) const {
    const float x = toFloat<kSignature.in>(row[expert]);
    return params.logitBias ? x + params.logitBias[expert] : x;
  }

  float scoreOf(float x, float most, float inverse) const {
    if constexpr (kSignature.sigmoid)
      return routeSigmoid(x);
    return routeExp(x, most) * inverse;
  }

  float choiceValue(float x, int item, float most, float inverse) const {
    if constexpr (!kSignature.byScore)
      return x;
    const float bias =
        params.choiceBias ? params.choiceBias[expertOf(item)] : 0;
    if constexpr (kSignature.sigmoid)
      return routeSigmoid(x) + bias;
    // A product and a sum that the compiler might join, or not.
    return fmaf(routeExp(x, most), inverse, bias);
  }

  /// The greatest number; any if there is only NaN.
  static float greatestOf(const float (&x)[kItems]) {
    float most = x[0];
#pragma unroll
    for (int i = 1; i < kItems; ++i)
      most = fmaxf(most, x[i]);
    return routeValue(greatestOfWarp(routeKey(most)));
  }

  /// The sum of all, in an order that the reference keeps.
  static float sumOfExp(const float (&x)[kItems], float most) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kItems; ++i)
      sum += routeExp(x[i], most);
    return sumOfWarp(sum);
  }

  //===--------------------------------------------------------------------===//
  // Groups
  //===--------------------------------------------------------------------===//

  /// Clears the keys of experts whose groups do not stay. Lane g has group g.
  void dropGroups(unsigned (&keys)[kItems]) const {
#pragma unroll
    for (int i = 0; i < kItems; ++i)
      if (exists(i))
        groupKeys[expertOf(i)] = keys[i];
    __syncwarp();
    unsigned left = lane < params.groups ? keyOfGroup() : 0;
    unsigned kept = 0;
#pragma unroll 1
    for (int round = 0; round < params.topGroups; ++round) {
      const unsigned best = greatestOfWarp(left);
      const unsigned equal = __ballot_sync(~0u, left == best);
      const unsigned lowest = equal & -equal;
      kept |= lowest;
      if (lowest >> lane & 1)
        left = 0;
    }
#pragma unroll
    for (int i = 0; i < kItems; ++i)
      if (!(kept >> groupOf(expertOf(i)) & 1))
        keys[i] = 0;
    __syncwarp();
  }

  unsigned keyOfGroup() const {
    unsigned first = 0, second = 0;
    const unsigned *own = groupKeys + lane * groupSize;
    // Lanes begin at different places, which are in different banks.
    int at = lane % groupSize;
    for (int i = 0; i < groupSize; ++i) {
      const unsigned key = own[at];
      second = max(second, min(first, key));
      first = max(first, key);
      at = at + 1 < groupSize ? at + 1 : 0;
    }
    if constexpr (kSignature.greatest)
      return first;
    return routeKey(routeValue(first) + routeValue(second));
  }

  /// Exact for as few experts.
  int groupOf(int expert) const {
    return static_cast<int>((static_cast<float>(expert) + 0.5f) * inverseSize) &
           31;
  }

  //===--------------------------------------------------------------------===//
  // Rounds
  //===--------------------------------------------------------------------===//

  /// The expert of this lane's choice, and its key.
  RoutedChoice choose(unsigned (&keys)[kItems], unsigned &key) const {
    RoutedChoice choice;
#pragma unroll 1
    for (int round = 0; round < params.topK; ++round) {
      unsigned most = keys[0];
#pragma unroll
      for (int i = 1; i < kItems; ++i)
        most = max(most, keys[i]);
      most = greatestOfWarp(most);
      unsigned candidate = ~0u;
#pragma unroll
      for (int i = kItems - 1; i >= 0; --i)
        if (keys[i] == most)
          candidate = static_cast<unsigned>(expertOf(i));
      const unsigned chosen = leastOfWarp(candidate);
#pragma unroll
      for (int i = 0; i < kItems; ++i)
        if (chosen == static_cast<unsigned>(expertOf(i)))
          keys[i] = 0;
      if (lane == round) {
        choice.expert = static_cast<int>(chosen);
        key = most;
      }
    }
    return choice;
  }

  const RouteParams &params;
  const int lane;
  unsigned *groupKeys;
  int groupSize = 1;
  float inverseSize = 1;
};

} // namespace kiln
