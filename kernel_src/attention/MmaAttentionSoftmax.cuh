//===- attention/MmaAttentionSoftmax.cuh - the softmax of mma -------------===//
//
// Turns scores in the registers of mma.sync into the weights that are the
// operand of the next product: cap, slope and mask, the greatest score and the
// sum of a row, and the final normalisation. See MmaAttention.cuh.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/MmaAttentionPlace.cuh"
#include "attention/Softcap.cuh"
#include "common/Access.cuh"

namespace kiln {

/// The softmax of one thread's rows; all lanes of a warp call together.
template <AttentionSignature kSignature, MmaAttentionConfig kConfig>
class MmaAttentionSoftmax {
  static constexpr int kKeys = kConfig.blockKeys;
  static constexpr int kTilesM = kConfig.rowTiles();
  static constexpr int kTilesO = kConfig.valueShape(kSignature).dim / 16;
  static constexpr bool kMasked = kSignature.mask != AttentionMask::None;
  static constexpr float kLog2e = 1.4426950408889634f;

  using Place = MmaAttentionPlace<kSignature, kConfig>;

public:
  using Scores = float[kTilesM][kKeys / 8][4];
  using Probabilities = unsigned[kTilesM][kKeys / 16][4];
  using Output = float[kTilesM][2 * kTilesO][4];

  MmaAttentionSoftmax(const AttentionParams &params, const Place &place)
      : params(params), place(place) {
    factor = params.scale;
    if constexpr (kSignature.scales)
      factor *= scaleOf(params, params.qScale, place.sequence, place.kvHead) *
                scaleOf(params, params.kScale, place.sequence, place.kvHead);
    if constexpr (kSignature.softcap) {
      capScale = factor / params.softcap * (2 * kLog2e);
      factor = params.softcap;
    }
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        greatest[i][half] = minusInfinity();
        sum[i][half] = 0.0f;
      }
  }

  /// Applies cap and slope. The results are scores before the mask, in units of
  /// `factor`.
  void shape(Scores &scores, int firstKey) const {
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float slope = 0, distance = 0;
        if constexpr (kSignature.alibi) {
          int row = Place::rowOf(i, half);
          slope = params.alibi[place.headOf(row)] / factor;
          distance = static_cast<float>(
              firstKey + static_cast<int>(Place::lane() % 4 * 2) -
              positionOf(place.tokenOf(row), place.queries.count,
                         place.keys.count));
        }
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            float &score = scores[i][j][2 * half + e];
            if constexpr (kSignature.softcap)
              score = detail::tanhOfExponent(score * capScale);
            if constexpr (kSignature.alibi)
              score += slope * (distance + static_cast<float>(8 * j + e));
            if constexpr (!kConfig.optimizedSoftmax)
              score *= factor;
          }
      }
  }

  /// Sets the scores of keys that a row does not see to minus infinity.
  void mask(Scores &scores, int firstKey) const {
    AttentionReach reach = reachOf(kSignature.mask, params.left, params.right);
    int laneKey = firstKey + static_cast<int>(Place::lane() % 4 * 2);
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int token = place.tokenOf(Place::rowOf(i, half));
        int end =
            keyLimitOf(reach, token, place.queries.count, place.keys.count) -
            laneKey;
        int begin = 0;
        if constexpr (kSignature.mask == AttentionMask::Window)
          begin =
              firstKeyOf(reach, token, place.queries.count, place.keys.count) -
              laneKey;
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            bool hidden = 8 * j + e >= end;
            if constexpr (kSignature.mask == AttentionMask::Window)
              hidden |= 8 * j + e < begin;
            if (hidden)
              scores[i][j][2 * half + e] = minusInfinity();
          }
      }
  }

  /// Turns scores into the powers that weigh V, and rescales O and the sum to
  /// the new greatest score. A thread has the part of the sum that belongs to
  /// its columns.
  void weigh(Scores &scores, Probabilities &p, Output &output) {
    float scale = kConfig.optimizedSoftmax ? factor * kLog2e : kLog2e;
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float most = greatest[i][half];
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j)
          most = fmaxf(
              most, fmaxf(scores[i][j][2 * half], scores[i][j][2 * half + 1]));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
        float before = greatest[i][half];
        greatest[i][half] = most;
        // A row that sees no key yet gets powers of 0, not NaN.
        float reference = kMasked && most == minusInfinity() ? 0.0f : most;
        float correction = ptx::ex2ApproxFtz((before - reference) * scale);
        sum[i][half] *= correction;
#pragma unroll
        for (int j = 0; j < 2 * kTilesO; ++j) {
          output[i][j][2 * half] *= correction;
          output[i][j][2 * half + 1] *= correction;
        }
        float offset = reference * scale;
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j) {
          float &a = scores[i][j][2 * half], &b = scores[i][j][2 * half + 1];
          if constexpr (kConfig.optimizedSoftmax) {
            a = ptx::ex2ApproxFtz(fmaf(a, scale, -offset));
            b = ptx::ex2ApproxFtz(fmaf(b, scale, -offset));
          } else {
            a = ptx::ex2ApproxFtz((a - reference) * scale);
            b = ptx::ex2ApproxFtz((b - reference) * scale);
          }
          sum[i][half] += a + b;
          p[i][j / 2][j % 2 * 2 + half] = packPair<kSignature.q>(a, b);
        }
      }
  }

  /// Returns the factor for O of half \p half of row tile \p tile; stores the
  /// row's LSE.
  float finishRow(int tile, int half) const {
    const float most = greatest[tile][half], part = sum[tile][half];
    int row = Place::rowOf(tile, half);
    float total = part + __shfl_xor_sync(~0u, part, 1);
    total += __shfl_xor_sync(~0u, total, 2);
    bool exists = place.firstRow + row < place.rowCount();
    float greatestLog2 =
        most * (kConfig.optimizedSoftmax ? factor * kLog2e : kLog2e);
    float inverse = 0, lse = minusInfinity();
    // A total that is NaN belongs to a row that sees keys.
    if (total != 0) {
      float weight = 1;
      if (kSignature.sinks && exists) {
        float sink = params.sinks[place.headOf(row)] * kLog2e;
        float both = fmaxf(greatestLog2, sink);
        weight = ptx::ex2ApproxFtz(greatestLog2 - both);
        total = total * weight + ptx::ex2ApproxFtz(sink - both);
        greatestLog2 = both;
      }
      inverse = weight / total;
      lse = (greatestLog2 + log2f(total)) / kLog2e;
    }
    if constexpr (kSignature.scales)
      inverse *= scaleOf(params, params.vScale, place.sequence, place.kvHead);
    if constexpr (kSignature.lse)
      if (Place::lane() % 4 == 0 && exists)
        params
            .lse[lseOffset<kSignature>(params, place.sequence, place.queries,
                                       place.headOf(row), place.tokenOf(row))] =
            lse;
    return inverse;
  }

private:
  static float minusInfinity() { return __uint_as_float(0xff800000u); }

  const AttentionParams &params;
  const Place &place;
  /// Scores times `factor` are the scores of the problem.
  float factor, capScale;
  float greatest[kTilesM][2], sum[kTilesM][2]; // (row tiles, halves)
};

} // namespace kiln
