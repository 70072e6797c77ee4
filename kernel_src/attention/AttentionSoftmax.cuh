//===- attention/AttentionSoftmax.cuh - softmax of scores in registers ----===//
//
// A warp has 16 rows of scores as mma.sync and wgmma leave them: a thread two
// rows, and of each two of eight neighbouring columns. Blocks of keys come one
// after the other. For each row the thread keeps the greatest score so far and
// its own part of the sum of the exponentials over it; when the greatest grows,
// all sums of before shrink by a factor that the caller applies to its own.
//
// Scores stay as they come from the products: scale and log2(e) are one factor
// of the exponent, a multiplication and an addition with it. A row that has
// seen no key has -inf as its greatest score, and sums of zero.
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

  /// Of what the kernel knows all the time.
  explicit AttentionSoftmax(const AttentionParams &params) : params(params) {}

  /// Begins with rows of \p sequence that have seen no key of \p kvHead. (Both
  /// count with scales only.)
  void reset(int sequence = 0, int kvHead = 0) {
    if constexpr (kSignature.scales)
      scaled = params.scale * scaleOf(params, params.qScale, sequence, kvHead) *
               scaleOf(params, params.kScale, sequence, kvHead);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      greatest[row] = -kInfinity;
      sum[row] = 0;
    }
  }

  /// Makes scores of the products with the keys from \p first on, all but the
  /// factor; of the rows \p rows of a sequence with \p queries and \p keys.
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

  /// Makes the scores of keys that a row does not see -inf. \p seen: all that
  /// any row may see.
  void mask(Scores &scores, int first, const AttentionRow (&rows)[2],
            int queries, int keys, AttentionRange seen) const {
    AttentionReach reach = reachOf(kSignature.mask, params.left, params.right);
    int begin[2], end[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      int row = rows[i].token, origin = first + column();
      begin[i] =
          max(firstKeyOf(reach, row, queries, keys), seen.begin) - origin;
      end[i] = min(keyLimitOf(reach, row, queries, keys), seen.end) - origin;
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

  /// Before exponentiate(): raises the greatest scores to those of a block, and
  /// has \p shrink say by what to multiply each row's earlier sums.
  void raise(const Scores &scores, float (&shrink)[2]) {
    // Two chains a row, for the sake of latency.
    float top[2][2];
#pragma unroll
    for (int row = 0; row < 2; ++row)
#pragma unroll
      for (int chain = 0; chain < 2; ++chain) {
        int i = 4 * chain + 2 * row;
        top[row][chain] = fmaxf(scores[i], scores[i + 1]);
      }
#pragma unroll
    for (int i = 8; i < kColumns / 2; i += 2) {
      float &chain = top[i / 2 % 2][i / 4 % 2];
      chain = fmaxf(chain, fmaxf(scores[i], scores[i + 1]));
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float block = fmaxf(top[row][0], top[row][1]);
      block = fmaxf(block, __shfl_xor_sync(~0u, block, 1));
      block = fmaxf(block, __shfl_xor_sync(~0u, block, 2));
      float now = fmaxf(greatest[row], block);
      // -inf - -inf is no number.
      float used = now == -kInfinity ? 0.0f : now;
      shrink[row] = ptx::ex2ApproxFtz((greatest[row] - used) * factor());
      sum[row] *= shrink[row];
      greatest[row] = now;
      origin[row] = used * factor() - kRaise;
    }
  }

  /// Raises the greatest scores to \p known, which another has found for the
  /// same rows; \p shrink: as of raise().
  void raiseTo(const float (&known)[2], float (&shrink)[2]) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float used = known[row] == -kInfinity ? 0.0f : known[row];
      shrink[row] = ptx::ex2ApproxFtz((greatest[row] - used) * factor());
      sum[row] *= shrink[row];
      greatest[row] = known[row];
    }
  }

  /// The greatest scores so far, all but the factor.
  const float (&greatestScores() const)[2] { return greatest; }

  /// Makes exponentials of scores [kBegin, kEnd) of the thread.
  template <int kBegin, int kEnd> void exponentiate(Scores &scores) {
    float part[2][2] = {};
#pragma unroll
    for (int i = kBegin; i < kEnd; ++i) {
      int row = i / 2 % 2;
      scores[i] = ptx::ex2ApproxFtz(fmaf(scores[i], factor(), -origin[row]));
      part[row][i % 2] += scores[i];
    }
#pragma unroll
    for (int row = 0; row < 2; ++row)
      sum[row] += part[row][0] + part[row][1];
  }

  /// No instruction: what is computed of \p scores by now is not put off.
  void pin(Scores &scores) {
    ptx::pin(scores);
    ptx::pin(sum);
  }

  /// The exponentials as the first operand of the product with V.
  static void round(const Scores &scores, Probabilities &probabilities) {
    if constexpr (kSignature.q == DType::E4M3) {
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

  /// Adds up the sums of a row's threads. Returns them; what others have summed
  /// of the same rows may be added.
  float (&gather())[2] {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      sum[row] += __shfl_xor_sync(~0u, sum[row], 1);
      sum[row] += __shfl_xor_sync(~0u, sum[row], 2);
    }
    return sum;
  }

  /// gather() and conclude().
  void finish(const AttentionRow (&rows)[2], const float *sinks,
              float (&inverse)[2], float (&logSum)[2]) {
    gather();
    conclude(rows, sinks, inverse, logSum);
  }

  /// With \p sinks (of all heads, or null) their exponentials count. \p
  /// inverse: what to multiply the rows of the product with V by; \p logSum:
  /// the natural logarithms of the sums.
  void conclude(const AttentionRow (&rows)[2], const float *sinks,
                float (&inverse)[2], float (&logSum)[2]) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      if (greatest[row] == -kInfinity) {
        inverse[row] = 0.0f;
        logSum[row] = -kInfinity;
        continue;
      }
      // In powers of two. A sink may be far above all scores.
      float top = greatest[row] * factor() - kRaise, all = sum[row],
            share = 1.0f;
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
  /// Exponentials are at most two to this power: e4m3 has normal numbers from
  /// 2^-6 on, up to 448.
  static constexpr float kRaise = kSignature.q == DType::E4M3 ? 8.0f : 0.0f;

  /// A register has four neighbouring elements of a row of the operand and a
  /// thread of the exponentials two, and two eight columns on. It takes these
  /// four: of 16 columns element i is column [0, 1, 8, 9, 2, 3, 10, 11, ...][i]
  /// (which V follows: Sm90AttentionTransposer.cuh).
  static void roundToBytes(const Scores &scores, Probabilities &probabilities) {
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
      const float *s = scores + i / 2 * 8 + i % 2 * 2;
      probabilities[i] = ptx::cvtRnSatfiniteE4m3x4F32(s[0], s[1], s[4], s[5]);
    }
  }

  /// First column of this thread.
  static int column() { return threadIdx.x % 4 * 2; }
  /// What scores are in units of, and the factor of the exponent.
  float unit() const { return kSignature.softcap ? params.softcap : scale(); }
  float scale() const { return kSignature.scales ? scaled : params.scale; }
  float factor() const { return unit() * kLog2E; }

  const AttentionParams &params;
  float greatest[2] = {-kInfinity, -kInfinity};
  float sum[2] = {};
  float origin[2]; ///< of the exponents of the block at hand
  float scaled;    ///< scale and the scales of Q and K
};

} // namespace kiln
