//===- attention/AttentionSoftmax.cuh - softmax of scores in registers ----===//
//
// A warp has 16 rows of scores as mma.sync and wgmma leave them: each thread
// has two rows, and two of every eight neighbouring columns. Blocks of keys
// come one after the other. A key's weight is 2^(score - origin), with one
// origin for each row. Each thread sums the weights of its own columns.
//
// The usual origin, which raise() sets, is the greatest score so far less
// kRaise. But any origin gives the same result, and rounds as well, as long as
// weights neither overflow nor vanish. So weigh() keeps the origin of the
// blocks before: it needs no maxima, no exchange between threads and no
// rescaling of sums. The sums of its weights, which are needed anyway, tell
// whether a weight may be too great; this happens in the first few blocks of a
// row, or never. (With e4m3 it happens in the second block of most rows, where
// it costs no accuracy: weights that many keys share are small.) lower() mends
// weights up to 2^100: fp32 holds them and their inverses. Beyond that the
// scores are computed again.
//
// Scores stay as they come from the products: scale and log2(e) are one factor
// of the exponent, applied by one multiply-add. A row that has seen no key has
// the origin -inf, and sums of zero. A NaN among the scores makes the sum of
// its row NaN. Maxima that origins are made of keep the NaN, so that such a row
// is not taken for a row without keys, which other steps handle.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/AttentionRanges.h"
#include "common/Ptx.cuh"

namespace kiln {

/// A row of a tile: a query of a head.
struct AttentionRow {
  int head = 0;
  int token = 0; ///< of its sequence
};

template <AttentionSignature kSignature, int kColumns> class AttentionSoftmax {
public:
  static constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000u);
  static constexpr float kLog2E = 1.4426950408889634f;
  static constexpr float kLn2 = 0.6931471805599453f;
  using Scores = float[kColumns / 2];
  using Probabilities = unsigned[kColumns * bytesOf(kSignature.q) / 8];

  /// Reads the values that are valid for the whole kernel.
  explicit AttentionSoftmax(const AttentionParams &params) : params(params) {}

  /// Begins with rows of \p sequence that have seen no key of \p kvHead. (Both
  /// count with scales only.)
  void reset(int sequence = 0, int kvHead = 0) {
    if constexpr (kSignature.scales)
      scaled = params.scale * scaleOf(params, params.qScale, sequence, kvHead) *
               scaleOf(params, params.kScale, sequence, kvHead);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      origin[row] = -kInfinity;
      sum[row] = 0;
    }
  }

  /// Called behind reset(): rows behind the last of \p queries have weights of
  /// zero and need no slow path. Their contents, such as another sequence's
  /// rows, do not change the bits of rows beside them.
  void leaveOut(const AttentionRow (&rows)[2], int queries) {
#pragma unroll
    for (int row = 0; row < 2; ++row)
      if (rows[row].token >= queries)
        origin[row] = kInfinity;
  }

  /// Turns products with the keys from \p first on into scores, without the
  /// factor. \p rows are rows of a sequence with \p queries and \p keys.
  void score(Scores &scores, int first, const AttentionRow (&rows)[2],
             int queries, int keys) const {
    if constexpr (kSignature.softcap) {
      float factor = scale() / params.softcap;
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i)
        scores[i] = ptx::tanhApprox(scores[i] * factor);
    }
    if constexpr (kSignature.alibi) {
      float slope[2], distance[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        slope[i] = params.alibi[rows[i].head] / unit();
        distance[i] = static_cast<float>(
            first + column() - positionOf(rows[i].token, queries, keys));
      }
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) {
        int row = i / 2 % 2, offset = i / 4 * 8 + i % 2;
        scores[i] = fmaf(slope[row], distance[row] + static_cast<float>(offset),
                         scores[i]);
      }
    }
  }

  /// Sets the scores of keys that a row does not see to -inf. \p seen: the keys
  /// that any row may see.
  void mask(Scores &scores, int first, const AttentionRow (&rows)[2],
            int queries, int keys, AttentionRange seen) const {
    AttentionReach reach = reachOf(kSignature.mask, params.left, params.right);
    int begin[2], end[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      int row = rows[i].token, base = first + column();
      begin[i] = max(firstKeyOf(reach, row, queries, keys), seen.begin) - base;
      end[i] = min(keyLimitOf(reach, row, queries, keys), seen.end) - base;
    }
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) {
      int row = i / 2 % 2, offset = i / 4 * 8 + i % 2;
      if (offset >= end[row])
        scores[i] = -kInfinity;
      if constexpr (kSignature.mask == AttentionMask::Window)
        if (offset < begin[row])
          scores[i] = -kInfinity;
    }
  }

  /// Moves the origins to the greatest scores so far, including those of
  /// \p scores. \p from: the origins for the weights of \p scores; \p shrink:
  /// the factors for each row's earlier products.
  void raise(const Scores &scores, float (&from)[2], float (&shrink)[2]) {
    // Two chains a row hide latency.
    float top[2][2];
#pragma unroll
    for (int row = 0; row < 2; ++row)
#pragma unroll
      for (int chain = 0; chain < 2; ++chain) {
        int i = 4 * chain + 2 * row;
        top[row][chain] = ptx::maxNan(scores[i], scores[i + 1]);
      }
#pragma unroll
    for (int i = 8; i < kColumns / 2; i += 2) {
      float &chain = top[i / 2 % 2][i / 4 % 2];
      chain = ptx::maxNan(chain, ptx::maxNan(scores[i], scores[i + 1]));
    }
    bool isFresh = false;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float block = greatestOfRow(ptx::maxNan(top[row][0], top[row][1]));
      float now = ptx::maxNan(origin[row], fmaf(block, factor(), -kRaise));
      isFresh |= now == -kInfinity;
      // -inf - -inf would be NaN.
      from[row] = now == -kInfinity ? 0.0f : now;
      shrink[row] = ptx::ex2ApproxFtz(origin[row] - from[row]);
      sum[row] *= shrink[row];
      origin[row] = now;
    }
    someFresh = __any_sync(~0u, isFresh);
  }

  /// Moves the origins to \p known, which another warpgroup has found for the
  /// same rows. \p shrink: the factors for each row's earlier products.
  void raiseTo(const float (&known)[2], float (&shrink)[2]) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float used = known[row] == -kInfinity ? 0.0f : known[row];
      shrink[row] = ptx::ex2ApproxFtz(origin[row] - used);
      sum[row] *= shrink[row];
      origin[row] = known[row];
    }
  }

  /// Whether some row of the warp has seen no key, so that it has no origin.
  bool hasFresh() const { return someFresh; }

  /// The origins; -inf for fresh rows, which can have no weights over it.
  auto origins() const -> const float (&)[2] { return origin; }

  /// Turns the thread's scores [kBegin, kEnd) into weights over \p from, and
  /// adds them to \p part.
  template <int kBegin, int kEnd>
  void weigh(Scores &scores, const float (&from)[2], float (&part)[2]) const {
    float chains[2][2] = {};
#pragma unroll
    for (int i = kBegin; i < kEnd; ++i) {
      int row = i / 2 % 2;
      scores[i] = ptx::ex2ApproxFtz(fmaf(scores[i], factor(), -from[row]));
      chains[row][i % 2] += scores[i];
    }
#pragma unroll
    for (int row = 0; row < 2; ++row)
      part[row] += chains[row][0] + chains[row][1];
  }

  /// As above for weights that need no test: adds them to the rows' sums.
  template <int kBegin, int kEnd>
  void weighAll(Scores &scores, const float (&from)[2]) {
    weigh<kBegin, kEnd>(scores, from, sum);
  }

  /// Whether a weight may be too great for Q's type, judged by the sums
  /// \p part.
  static bool isTooMuch(const float (&part)[2]) {
    return fmaxf(part[0], part[1]) > kMost;
  }
  /// Whether weights are too great for lower(): the inverse of a number beyond
  /// 2^126 is zero.
  static bool isLost(const float (&part)[2]) {
    return fmaxf(part[0], part[1]) > kMostHeld;
  }

  /// Moves the origins of rows whose weights are too great, and rescales
  /// weights and \p part to the new origins. \p shrink: as for raise().
  void lower(Scores &weights, float (&part)[2], float (&shrink)[2]) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float most = mostOfRow(part[row]);
      shrink[row] = 1.0f;
      if (most > kMost) {
        float now = origin[row] + (ptx::lg2ApproxFtz(most) - kLowered);
        shrink[row] = ptx::ex2ApproxFtz(origin[row] - now);
        origin[row] = now;
      }
      sum[row] *= shrink[row];
      part[row] *= shrink[row];
    }
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i)
      weights[i] *= shrink[i / 2 % 2];
  }

  void add(const float (&part)[2]) {
#pragma unroll
    for (int row = 0; row < 2; ++row)
      sum[row] += part[row];
  }

  /// Emits no instruction. It keeps the compiler from delaying the computation
  /// of \p scores and of their sums (\p part, or the rows' sums).
  static void pin(Scores &scores, float (&part)[2]) {
    ptx::pin(scores);
    ptx::pin(part);
  }
  void pin(Scores &scores) { pin(scores, sum); }

  /// Rounds the exponentials to the first operand of the product with V.
  static void round(const Scores &scores, Probabilities &probabilities) {
    if constexpr (kIsE4M3) {
      roundToBytes(scores, probabilities);
    } else {
#pragma unroll
      for (int i = 0; i < kColumns / 4; ++i)
        if constexpr (kSignature.q == DType::BF16)
          probabilities[i] =
              ptx::cvtRnBf16x2F32(scores[2 * i], scores[2 * i + 1]);
        else
          probabilities[i] =
              ptx::cvtRnF16x2F32(scores[2 * i], scores[2 * i + 1]);
    }
  }

  /// Adds up the sums of a row's threads and returns them. The caller may add
  /// sums that other warpgroups have for the same rows.
  float (&gather())[2] {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      sum[row] += __shfl_xor_sync(~0u, sum[row], 1);
      sum[row] += __shfl_xor_sync(~0u, sum[row], 2);
    }
    return sum;
  }

  /// Calls gather() and conclude().
  void finish(const AttentionRow (&rows)[2], const float *sinks,
              float (&inverse)[2], float (&logSum)[2]) {
    gather();
    conclude(rows, sinks, inverse, logSum);
  }

  /// Ends the softmax. The exponentials of \p sinks (for all heads, or null)
  /// join the sums. \p inverse: the factors for the rows of the product with V;
  /// \p logSum: the natural logarithms of the sums.
  void conclude(const AttentionRow (&rows)[2], const float *sinks,
                float (&inverse)[2], float (&logSum)[2]) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      // The test uses the sum, because the origin of a row of NaN may be -inf,
      // too.
      if (sum[row] == 0) {
        inverse[row] = 0.0f;
        logSum[row] = -kInfinity;
        continue;
      }
      // Logarithms are in powers of two here. A sink may be far above all
      // scores.
      float top = origin[row], all = sum[row], share = 1.0f;
      if constexpr (kSignature.sinks)
        if (sinks) {
          float sink = sinks[rows[row].head] * kLog2E;
          float now = fmaxf(top, sink);
          share = ptx::ex2ApproxFtz(top - now);
          all = fmaf(all, share, ptx::ex2ApproxFtz(sink - now));
          top = now;
        }
      inverse[row] = share / all;
      logSum[row] = (top + ptx::lg2ApproxFtz(all)) * kLn2;
    }
  }

private:
  static constexpr bool kIsE4M3 = kSignature.q == DType::E4M3;
  /// The weight of the greatest score is 2^kRaise: e4m3 has normal numbers from
  /// 2^-6 to 448.
  static constexpr float kRaise = kIsE4M3 ? 8.0f : 0.0f;
  /// The greatest sum of a thread's weights of one block for which the type of
  /// Q is sure to hold them all (fp16 ends at 65504).
  static constexpr float kMost = kIsE4M3 ? 448.0f : 16384.0f;
  /// lower() brings the greatest weight to 2^kLowered, because the sums of
  /// other blocks differ.
  static constexpr float kLowered = kIsE4M3 ? 7.0f : 0.0f;
  /// The greatest sum that lower() mends: its inverse is still a normal number.
  static constexpr float kMostHeld = 0x1p100f;

  /// A register of the operand has four neighbouring elements of a row, but a
  /// thread has two exponentials, and two more eight columns on. It packs these
  /// four: of 16 columns, element i is column [0, 1, 8, 9, 2, 3, 10, 11,
  /// ...][i] (V follows this order: Sm90AttentionTransposer.cuh).
  static void roundToBytes(const Scores &scores, Probabilities &probabilities) {
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
      const float *s = scores + i / 2 * 8 + i % 2 * 2;
      probabilities[i] = ptx::cvtRnSatfiniteE4m3x4F32(s[0], s[1], s[4], s[5]);
    }
  }

  /// The maximum over the threads that share a row; NaN is dropped.
  static float mostOfRow(float value) {
    value = fmaxf(value, __shfl_xor_sync(~0u, value, 1));
    return fmaxf(value, __shfl_xor_sync(~0u, value, 2));
  }
  /// As mostOfRow(), with NaN kept.
  static float greatestOfRow(float value) {
    value = ptx::maxNan(value, __shfl_xor_sync(~0u, value, 1));
    return ptx::maxNan(value, __shfl_xor_sync(~0u, value, 2));
  }

  /// First column of this thread.
  static int column() { return threadIdx.x % 4 * 2; }
  /// The unit of the scores, which is the factor of the exponent.
  float unit() const { return kSignature.softcap ? params.softcap : scale(); }
  float scale() const { return kSignature.scales ? scaled : params.scale; }
  float factor() const { return unit() * kLog2E; }

  const AttentionParams &params;
  float origin[2] = {-kInfinity, -kInfinity}; ///< in powers of two
  float sum[2] = {};                          ///< of the thread's weights
  bool someFresh = true;
  float scaled; ///< scale and the scales of Q and K
};

} // namespace kiln
