//===- combine/RowCombine.cuh - the sum of a token's choices --------------===//
//
// The kernel is memory-bound: topK + 2 rows are read for each row that is
// written. A thread issues the loads of some choices before it adds the first
// one. They are added in the order of the choices, so that the sum does not
// depend on the config. Squares of a norm are added up by threads.
//
// A row with a norm belongs to one block, or warp. Where its threads hold all
// of it, it stays in registers until its norm is known. Longer rows are read
// again from where the sum was stored, each element by the thread that stored
// it. Without a norm the pieces of a row have blocks of their own.
//
// A choice of weight 0 is not read: nothing was written there.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "combine/RowCombineConfig.h"
#include "common/Access.cuh"
#include "common/Dependent.cuh"
#include "common/Warp.cuh"

namespace kiln {

template <CombineSignature kSignature, RowCombineConfig kConfig>
class RowCombine {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");

  static constexpr DType kType = kSignature.in;
  static constexpr int kBytes = kSignature.align;
  static constexpr int kElements = kConfig.elements(kSignature);
  static constexpr int kLanes = kConfig.lanes, kItems = kConfig.items;
  static constexpr int kAhead = kConfig.ahead;
  static constexpr int kWarps = kLanes / 32;
  using Vector = Words<kBytes>;

public:
  explicit RowCombine(const CombineParams &params)
      : params(params), lane(static_cast<int>(threadIdx.x) % kLanes),
        vectors(params.cols / kElements) {
    long long block = blockIdx.x;
    if constexpr (!kSignature.norm) {
      piece = static_cast<int>(block % params.pieces);
      block /= params.pieces;
    }
    token = block * kConfig.rows + threadIdx.x / kLanes;
  }

  void run() {
    if constexpr (kSignature.norm)
      runNorm();
    else
      forTurn(piece, [&](int i, Vector sum) {
        store(params.y, params.ldy, vectorOf(piece, i), sum);
      });
  }

private:
  bool exists() const { return token < params.tokens; }
  int vectorOf(int turn, int item) const {
    return (turn * kItems + item) * kLanes + lane;
  }
  bool hasVector(int vector) const { return exists() && vector < vectors; }

  static const char *addressOf(const void *matrix, long long row, long long ld,
                               int vector) {
    return static_cast<const char *>(matrix) +
           (row * ld * bytesOf(kType) +
            static_cast<long long>(vector) * kBytes);
  }
  Vector load(const void *matrix, long long ld, int vector) const {
    return loadVector<kBytes, CacheHint::Streaming>(
        addressOf(matrix, token, ld, vector));
  }
  void store(void *matrix, long long ld, int vector,
             const Vector &words) const {
    storeVector<kBytes>(
        const_cast<char *>(addressOf(matrix, token, ld, vector)), words);
  }

  /// Calls \p visit(item, sum) with the sums of a turn, rounded.
  template <class Visit> void forTurn(int turn, Visit visit) const {
    Vector shared[kItems], residual[kItems];
    float sums[kItems][kElements];
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int vector = vectorOf(turn, i);
      if constexpr (kSignature.shared)
        if (hasVector(vector))
          shared[i] = load(params.shared, params.ldShared, vector);
      if constexpr (kSignature.residual)
        if (hasVector(vector))
          residual[i] = load(params.residual, params.ldResidual, vector);
#pragma unroll
      for (int e = 0; e < kElements; ++e)
        sums[i][e] = 0;
    }
    for (int first = 0; first < params.topK; first += kAhead)
      addChoices(turn, first, sums);
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (!hasVector(vectorOf(turn, i)))
        continue;
      if constexpr (kSignature.shared)
        add(sums[i], shared[i], 1);
      if constexpr (kSignature.residual)
        add(sums[i], residual[i], 1);
      visit(i, packFloats<kType>(sums[i]));
    }
  }

  /// Adds kAhead choices from \p first on, as far as they exist.
  void addChoices(int turn, int first, float (&sums)[kItems][kElements]) const {
    Vector words[kAhead][kItems];
    float weights[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      weights[a] = exists() && first + a < params.topK ? 1.0f : 0.0f;
      if constexpr (kSignature.weighted)
        if (weights[a] != 0)
          weights[a] = params.weights[token * params.topK + first + a];
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a)
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        const int vector = vectorOf(turn, i);
        if (weights[a] != 0 && vector < vectors)
          words[a][i] = loadVector<kBytes, CacheHint::Streaming>(addressOf(
              params.x, token * params.topK + first + a, params.ldx, vector));
      }
#pragma unroll
    for (int a = 0; a < kAhead; ++a)
#pragma unroll
      for (int i = 0; i < kItems; ++i)
        if (weights[a] != 0 && vectorOf(turn, i) < vectors)
          add(sums[i], words[a][i],
              kSignature.weighted && params.applies ? weights[a] : 1.0f);
  }

  static void add(float (&sums)[kElements], const Vector &words, float factor) {
    float values[kElements];
    unpackFloats<kType>(values, words);
#pragma unroll
    for (int e = 0; e < kElements; ++e)
      sums[e] = fmaf(values[e], factor, sums[e]);
  }

  //===--------------------------------------------------------------------===//
  // Norm
  //===--------------------------------------------------------------------===//

  /// Where sums are kept that registers have no room for.
  void *sumPlace() const {
    return kSignature.storesSum() ? params.residualOut : params.y;
  }
  long long sumLd() const {
    return kSignature.storesSum() ? params.ldResidualOut : params.ldy;
  }

  void runNorm() {
    Vector kept[kItems];
    const int turns = static_cast<int>(kConfig.turns(vectors));
    float squares = 0;
    for (int turn = 0; turn < turns; ++turn)
      forTurn(turn, [&](int i, const Vector &sum) {
        kept[i] = sum;
        if (kSignature.storesSum() || turns > 1)
          store(sumPlace(), sumLd(), vectorOf(turn, i), sum);
        float values[kElements];
        unpackFloats<kType>(values, sum);
#pragma unroll
        for (int e = 0; e < kElements; ++e)
          squares = fmaf(values[e], values[e], squares);
      });
    const float mean = sumOfRow(squares) / static_cast<float>(params.cols);
    const float factor = 1.0f / sqrtf(mean + params.epsilon);
    for (int turn = 0; turn < turns; ++turn)
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        const int vector = vectorOf(turn, i);
        if (!hasVector(vector))
          continue;
        const Vector sum = turns > 1 ? loadVector<kBytes>(addressOf(
                                           sumPlace(), token, sumLd(), vector))
                                     : kept[i];
        store(params.y, params.ldy, vector, normOf(sum, factor, vector));
      }
  }

  Vector normOf(const Vector &sum, float factor, int vector) const {
    float values[kElements], weight[kElements];
    unpackFloats<kType>(values, sum);
    unpackFloats<kType>(
        weight, loadVector<kBytes>(addressOf(params.normWeight, 0, 0, vector)));
#pragma unroll
    for (int e = 0; e < kElements; ++e)
      values[e] = values[e] * factor * weight[e];
    return packFloats<kType>(values);
  }

  /// The sum over the threads of a row, in each of them.
  static float sumOfRow(float value) {
    value = sumOfWarp(value);
    if constexpr (kWarps == 1)
      return value;
    __shared__ float partials[kWarps];
    if (threadIdx.x % 32 == 0)
      partials[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp)
      sum += partials[warp];
    return sum;
  }

  const CombineParams &params;
  const int lane;
  const int vectors; ///< of a row
  long long token;
  int piece = 0;
};

template <CombineSignature kSignature, RowCombineConfig kConfig>
void rowCombine(const CombineParams &params) {
  allowSuccessor();
  awaitPredecessor();
  RowCombine<kSignature, kConfig>(params).run();
}

} // namespace kiln
