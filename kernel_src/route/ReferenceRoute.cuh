//===- route/ReferenceRoute.cuh - the reference of route ------------------===//
//
// A thread a token. Experts are chosen by the values of RouteNumbers.cuh, in
// fp32 as kernels choose them, so that integers are exact. Weights are
// computed in double from the logits of the chosen.
//
// One block sorts: it routes some hundred tokens at a time, and each choice
// counts the earlier ones of its expert.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Convert.cuh"
#include "route/ReferenceRouteConfig.h"
#include "route/RouteNumbers.cuh"

namespace kiln {

template <RouteSignature kSignature> class ReferenceRoute {
  static constexpr int kLanes = 32;

public:
  ReferenceRoute(const RouteParams &params, long long token)
      : params(params), token(token) {
    isValid = !params.tokenCount || token < *params.tokenCount;
    if (!isValid)
      return;
    computeSoftmax();
    for (int j = 0; j < params.topK; ++j)
      chosen[j] = -1;
    keepGroups();
    for (int j = 0; j < params.topK; ++j)
      chosen[j] = choose(j);
  }

  /// -1: the choice has no expert.
  int expertOf(int choice) const { return isValid ? chosen[choice] : -1; }

  bool hasRow(int choice) const {
    const int local = expertOf(choice) - params.firstExpert;
    return isValid && local >= 0 && local < params.localExperts;
  }

  double weightOf(int choice, double &bound) const {
    bound = 0;
    if (!hasRow(choice))
      return 0;
    double divisor = 1;
    if (params.renormalizes) {
      divisor = kRouteLeastSum;
      for (int j = 0; j < params.topK; ++j)
        divisor += scoreOf(chosen[j]);
    }
    const double x = logitOf(chosen[choice]);
    const double size = kSignature.sigmoid ? fabs(x) : fabs(x - most);
    const double weight = scoreOf(chosen[choice]) / divisor * params.scale;
    // Rounding, and scores that fp32 takes for 0.
    constexpr double kError = 3e-6, kOfLogit = 3e-7, kLost = 1e-17;
    bound = fabs(weight) * (kError + kOfLogit * (size == size ? size : 0)) +
            kLost * fabs(double(params.scale));
    return weight;
  }

private:
  float logitOf(int expert) const {
    const float x =
        toFloat<kSignature.in>(static_cast<const Storage<kSignature.in> *>(
            params.logits)[token * params.ld + expert]);
    return params.logitBias ? x + params.logitBias[expert] : x;
  }

  /// The sum as a warp forms it: each lane its own, then pairs of lanes.
  void computeSoftmax() {
    if constexpr (kSignature.sigmoid)
      return;
    most = logitOf(0);
    for (int e = 1; e < params.experts; ++e)
      most = fmaxf(most, logitOf(e));
    float sums[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      sums[lane] = 0;
      for (int e = lane; e < params.experts; e += kLanes)
        sums[lane] += routeExp(logitOf(e), most);
    }
    for (int distance = kLanes / 2; distance > 0; distance /= 2)
      for (int lane = 0; lane < distance; ++lane)
        sums[lane] += sums[lane + distance];
    inverse = 1.0f / sums[0];
    all = 0;
    for (int e = 0; e < params.experts; ++e)
      all += exp(double(logitOf(e)) - double(most));
  }

  double scoreOf(int expert) const {
    const double x = logitOf(expert);
    if constexpr (kSignature.sigmoid)
      return 1 / (1 + exp(-x));
    return exp(x - double(most)) / all;
  }

  unsigned keyOf(int expert) const {
    const float x = logitOf(expert);
    if constexpr (!kSignature.byScore)
      return routeKey(x);
    const float bias = params.choiceBias ? params.choiceBias[expert] : 0;
    if constexpr (kSignature.sigmoid)
      return routeKey(routeSigmoid(x) + bias);
    return routeKey(fmaf(routeExp(x, most), inverse, bias));
  }

  void keepGroups() {
    if constexpr (!kSignature.grouped)
      return;
    kept = 0;
    for (int round = 0; round < params.topGroups; ++round) {
      unsigned greatest = 0;
      int best = 0;
      for (int group = 0; group < params.groups; ++group) {
        const unsigned key = keyOfGroup(group);
        if (!(kept >> group & 1) && key > greatest) {
          greatest = key;
          best = group;
        }
      }
      kept |= 1u << best;
    }
  }

  unsigned keyOfGroup(int group) const {
    const int size = params.experts / params.groups;
    unsigned first = 0, second = 0;
    for (int e = group * size; e < (group + 1) * size; ++e) {
      const unsigned key = keyOf(e);
      second = max(second, min(first, key));
      first = max(first, key);
    }
    return kSignature.greatest
               ? first
               : routeKey(routeValue(first) + routeValue(second));
  }

  /// The best expert that choices before \p choice left.
  int choose(int choice) const {
    unsigned greatest = 0;
    int best = 0;
    for (int e = 0; e < params.experts; ++e) {
      if (kSignature.grouped &&
          !(kept >> (e / (params.experts / params.groups)) & 1))
        continue;
      bool isTaken = false;
      for (int j = 0; j < choice; ++j)
        isTaken |= chosen[j] == e;
      if (isTaken)
        continue;
      const unsigned key = keyOf(e);
      if (key > greatest) {
        greatest = key;
        best = e;
      }
    }
    return best;
  }

  const RouteParams &params;
  const long long token;
  bool isValid = true;
  float most = 0, inverse = 0;
  double all = 1;
  unsigned kept = ~0u;
  int chosen[kRouteTopK];
};

/// The choices of all tokens, sorted, by one block.
template <RouteSignature kSignature> class ReferenceSort {
  static constexpr int kThreads = ReferenceRouteConfig{}.threads();

public:
  ReferenceSort(const RouteParams &params, short *chosen, unsigned *rows)
      : params(params), chosen(chosen), rows(rows) {}

  void run(int output, double *values, double *bounds) {
    clearRows();
    forEachPiece([](long long, int, unsigned) {});
    if (output != RouteOperand::Index) {
      storeGroups(output, values, bounds);
      return;
    }
    const long long room =
        static_cast<long long>(params.tokens) * params.topK +
        static_cast<long long>(params.localExperts) * (params.align - 1);
    // Rows of no group are undefined.
    for (long long i = threadIdx.x; i < room; i += kThreads) {
      values[i] = 0;
      bounds[i] = -1;
    }
    beginGroups();
    forEachPiece([&](long long choice, int, unsigned place) {
      values[place] = static_cast<double>(choice);
      bounds[place] = 0;
    });
  }

private:
  void clearRows() {
    for (int e = threadIdx.x; e < kRouteExperts; e += kThreads)
      rows[e] = 0;
    __syncthreads();
  }

  /// Calls \p visit(choice, expert, place) with each choice that has a row,
  /// and adds the choices of each expert to `rows`, which has the place of the
  /// first.
  template <class Visit> void forEachPiece(Visit visit) {
    for (long long begin = 0; begin < params.tokens; begin += kThreads) {
      const int count = static_cast<int>(
          min(static_cast<long long>(kThreads), params.tokens - begin));
      const int choices = count * params.topK;
      if (static_cast<int>(threadIdx.x) < count) {
        const ReferenceRoute<kSignature> route(params, begin + threadIdx.x);
        for (int j = 0; j < params.topK; ++j)
          chosen[threadIdx.x * params.topK + j] =
              static_cast<short>(route.hasRow(j) ? route.expertOf(j) : -1);
      }
      __syncthreads();
      for (int i = threadIdx.x; i < choices; i += kThreads) {
        const int expert = chosen[i];
        unsigned before = 0;
        for (int j = 0; j < i; ++j)
          before += chosen[j] == expert;
        if (expert >= 0)
          visit(begin * params.topK + i, expert, rows[expert] + before);
      }
      __syncthreads();
      for (int i = threadIdx.x; i < choices; i += kThreads)
        if (chosen[i] >= 0)
          atomicAdd(rows + chosen[i], 1u);
      __syncthreads();
    }
  }

  /// Replaces counts by the first row of each group.
  void beginGroups() {
    __syncthreads();
    if (threadIdx.x == 0) {
      unsigned start = 0;
      const auto align = static_cast<unsigned>(params.align);
      for (int e = 0; e < params.experts; ++e) {
        const unsigned count = rows[e];
        rows[e] = start;
        start += (count + align - 1) / align * align;
      }
    }
    __syncthreads();
  }

  void storeGroups(int output, double *values, double *bounds) {
    if (threadIdx.x != 0)
      return;
    unsigned start = 0;
    const auto align = static_cast<unsigned>(params.align);
    for (int group = 0; group < params.localExperts; ++group) {
      const unsigned count = rows[params.firstExpert + group];
      values[group] = output == RouteOperand::Ends ? start + count : count;
      bounds[group] = 0;
      start += (count + align - 1) / align * align;
    }
  }

  const RouteParams &params;
  short *chosen;
  unsigned *rows;
};

template <RouteSignature kSignature, ReferenceRouteConfig kConfig>
void referenceRoute(const ReferenceRouteParams &params) {
  __shared__ short chosen[kConfig.threads() * kRouteTopK];
  __shared__ unsigned rows[kRouteExperts];
  const RouteParams &route = params.route;
  if (params.output != RouteOperand::Weights &&
      params.output != RouteOperand::Chosen) {
    ReferenceSort<kSignature>(route, chosen, rows)
        .run(params.output, params.reference, params.bound);
    return;
  }
  const long long step = static_cast<long long>(gridDim.x) * kConfig.threads();
  for (long long token =
           params.rowBegin + blockIdx.x * kConfig.threads() + threadIdx.x;
       token < params.rowEnd; token += step) {
    const ReferenceRoute<kSignature> choices(route, token);
    for (int j = 0; j < route.topK; ++j) {
      const long long at = (token - params.rowBegin) * route.topK + j;
      params.bound[at] = 0;
      params.reference[at] = params.output == RouteOperand::Weights
                                 ? choices.weightOf(j, params.bound[at])
                                 : choices.expertOf(j);
    }
  }
}

} // namespace kiln
