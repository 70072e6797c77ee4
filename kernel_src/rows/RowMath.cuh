//===- rows/RowMath.cuh - the arithmetic of a row, vector by vector -------===//
//
// The arithmetic that all kernels over rows share: the values that enter the
// statistics (x, masked, or behind a chain), the results of complete
// statistics, and the computation of each output value. All of it is in fp32.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Pointwise.cuh"
#include "common/ShiftedVector.cuh"
#include "rows/RowParams.h"
#include "rows/RowStats.cuh"

namespace kiln {

/// Keeps the compiler from reusing values that it derived from \p words before.
/// Otherwise the fp32 values of a row would stay in registers, twice the row's
/// own, while the row waits for its statistics.
template <int kBytes> void forgetUnpacked(Words<kBytes> &words) {
#pragma unroll
  for (unsigned &word : words.word)
    ptx::opaque(word);
}

/// The greatest magnitude that a type with scales holds.
template <DType kOut> constexpr float greatestOf() {
  static_assert(kOut == DType::E4M3 || kOut == DType::INT8,
                "this type comes without scales");
  return kOut == DType::E4M3 ? 448.0f : 127.0f;
}

/// 1 / sqrt(value), within a unit of the last place.
inline float inverseSqrt(float value) {
  float estimate = rsqrtf(value);
  return value == kInfinity
             ? 0.0f
             : estimate * fmaf(-0.5f * value * estimate, estimate, 1.5f);
}

/// Vectors of kCount columns of the operands that all rows share.
template <RowSignature kSignature, int kCount> struct RowVectors {
  static constexpr int kBytes = kCount * bytesOf(kSignature.in);
  static constexpr bool kMaskRow = kSignature.mask == RowMask::Row;
  static constexpr int kLinks = kSignature.chain.size();
  Words<kBytes> weight, bias, mask;
  Words<kBytes> link[kLinks > 0 ? kLinks : 1];

  /// The operands' values; zeros where there is no such operand.
  struct Values {
    float weight[kCount] = {}, bias[kCount] = {}, mask[kCount] = {};
    float link[kLinks > 0 ? kLinks : 1][kCount] = {};
  };
  Values unpack() const {
    Values values;
    if constexpr (kSignature.weight)
      unpackFloats<kSignature.in>(values.weight, weight);
    if constexpr (kSignature.bias)
      unpackFloats<kSignature.in>(values.bias, bias);
    if constexpr (kMaskRow)
      unpackFloats<kSignature.in>(values.mask, mask);
#pragma unroll
    for (int i = 0; i < kLinks; ++i)
      if (isOfRow(i))
        unpackFloats<kSignature.in>(values.link[i], link[i]);
    return values;
  }

  /// Loads the operands that there are: \p load(index, base) gives the vector
  /// of one of them, the \p index-th in the order of kOperands.
  template <class Load>
  static RowVectors of(const RowParams &params, Load &&load) {
    RowVectors vectors;
    if constexpr (kSignature.weight)
      vectors.weight = load(0, params.weight);
    if constexpr (kSignature.bias)
      vectors.bias = load(1, params.bias);
    if constexpr (kMaskRow)
      vectors.mask = load(2, params.mask);
#pragma unroll
    for (int i = 0; i < kLinks; ++i)
      if (isOfRow(i))
        vectors.link[i] = load(kBeforeLinks + i, params.links[i]);
    return vectors;
  }
  static constexpr int kBeforeLinks = 3, kOperands = kBeforeLinks + kLinks;

  /// Loads the operands of the columns from \p column on; kShifted: at any
  /// alignment.
  template <bool kShifted = false>
  static RowVectors load(const RowParams &params, long long column) {
    return of(params, [&](int, const void *base) {
      constexpr int kElement = bytesOf(kSignature.in);
      const char *begin = static_cast<const char *>(base);
      if constexpr (kShifted)
        return loadShifted<kBytes, kElement>(begin + column * kElement);
      else
        return loadVector<kBytes>(begin + column * kElement);
    });
  }

private:
  /// Whether the \p i-th link reads a value for each column.
  static constexpr bool isOfRow(int i) {
    return shapeOf(kSignature.chain.ops[i]) == LinkShape::Row;
  }
};

template <RowSignature kSignature> struct RowMath {
  static constexpr RowOp kOp = kSignature.op;
  static constexpr PointwiseChain kChain = kSignature.chain;
  static constexpr bool kScalesAtOnce = kSignature.scalesAtOnce();
  using Stats = StatsOf<kOp, kScalesAtOnce>;
  using Collector = CollectorOf<Stats>;

  /// The matrices that are read like the row, and room for their vectors.
  static constexpr int kMatrices = kSignature.matrices();
  static constexpr int kMatrixRoom = kMatrices > 0 ? kMatrices : 1;
  struct Matrix {
    const void *base;
    long long ld;
  };
  /// The link that reads each of the chain's matrices.
  struct MatrixLinks {
    int at[kMatrixRoom] = {};
  };
  static constexpr MatrixLinks kMatrixLinks = [] {
    MatrixLinks links;
    for (int link = 0, found = 0; link < kChain.size(); ++link)
      if (shapeOf(kChain.ops[link]) == LinkShape::Matrix)
        links.at[found++] = link;
    return links;
  }();
  static Matrix matrixOf(const RowParams &params, int index) {
    if constexpr (kSignature.mask == RowMask::Matrix)
      return {params.mask, params.ldMask};
    else
      return {params.links[kMatrixLinks.at[index]], params.ldLink};
  }

  /// The factor of the values that prepare() multiplies by it.
  static float factorOf(const RowParams &params) {
    if constexpr (kSignature.chain.contains(PointwiseOp::Scale))
      return params.scalePtr ? *params.scalePtr : params.scale;
    else
      return params.scale;
  }

  /// Turns elements of x into the values that are reduced, given those of the
  /// matrices, of operands that all rows share, and factorOf(). The product is
  /// rounded: if the compiler contracted it into some of the differences that
  /// use it, its value would vary between them.
  template <int kCount>
  static void
  prepare(float (&x)[kCount], const float (&matrix)[kMatrixRoom][kCount],
          const typename RowVectors<kSignature, kCount>::Values &shared,
          float factor) {
    if constexpr (kOp == RowOp::Softmax) {
      const auto &mask =
          kSignature.mask == RowMask::Matrix ? matrix[0] : shared.mask;
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        x[i] = kSignature.mask == RowMask::None ? __fmul_rn(x[i], factor)
                                                : fmaf(x[i], factor, mask[i]);
    }
    if constexpr (kChain.size() > 0)
      applyLinks(x, matrix, shared, factor);
  }

  /// Adds prepared values to a thread's statistics, behind \p added vectors.
  /// With kScalesAtOnce \p x is weighted in place.
  template <int kCount>
  static void collect(Collector &collector, int added, float (&x)[kCount],
                      const float (&weight)[kCount]) {
    if constexpr (kScalesAtOnce) {
      collector.squares.add(x);
      if constexpr (kSignature.weight)
#pragma unroll
        for (int i = 0; i < kCount; ++i)
          x[i] *= weight[i];
      collector.weighted.add(x);
    } else
      collector.add(x, added);
  }

  /// y = (x - shift) * factor; for softmax exp(x - shift) * factor.
  struct Final {
    float shift, factor;
  };

  static float mean(float sum, const RowParams &params) {
    return __fdividef(sum, static_cast<float>(params.cols));
  }

  /// The parameters that complete statistics give for each value.
  static Final finish(const Stats &stats, const RowParams &params) {
    if constexpr (kScalesAtOnce) // rounded unlike mean(), because scales depend
                                 // on it
      return {0.0f,
              inverseSqrt(stats.squares.sum / static_cast<float>(params.cols) +
                          params.epsilon)};
    else if constexpr (kOp == RowOp::RmsNorm)
      return {0.0f, inverseSqrt(mean(stats.sum, params) + params.epsilon)};
    else if constexpr (kOp == RowOp::LayerNorm)
      return {stats.mean,
              inverseSqrt(mean(stats.deviations, params) + params.epsilon)};
    else if constexpr (kOp == RowOp::Softmax)
      return {stats.max == -kInfinity ? 0.0f : stats.max, 1.0f / stats.sum};
    else {
      static_assert(kOp == RowOp::Quantize, "a reduction writes no row");
      return {0.0f, 1.0f};
    }
  }

  /// The results of kCount prepared values.
  template <int kCount>
  static void apply(float (&x)[kCount], const Final &final,
                    const float (&weight)[kCount],
                    const float (&bias)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if constexpr (kOp == RowOp::Softmax)
        x[i] = detail::expOfDifference(x[i], final.shift) * final.factor;
      // This saves an instruction where the rounding of shift * factor, at most
      // 2^-24 of it, is far below the precision of the output.
      if constexpr (kOp == RowOp::LayerNorm && bitsOf(kSignature.out) == 16)
        x[i] = fmaf(x[i], final.factor, -final.shift * final.factor);
      else if constexpr (kOp == RowOp::LayerNorm)
        x[i] = (x[i] - final.shift) * final.factor;
      if constexpr (kOp == RowOp::RmsNorm)
        x[i] *= final.factor;
      if constexpr (kSignature.weight && kSignature.bias)
        x[i] = fmaf(x[i], weight[i], bias[i]);
      else if constexpr (kSignature.weight)
        x[i] *= weight[i];
      else if constexpr (kSignature.bias)
        x[i] += bias[i];
    }
  }

  /// The scale of results, given their greatest magnitude.
  static float scaleOf(float greatest) {
    // The scale is normal, so that its inverse is finite.
    constexpr float kLeast = 0x1p-126f;
    float scale = greatest / greatestOf<kSignature.out>();
    return greatest == 0 ? 1.0f : scale < kLeast ? kLeast : scale;
  }

  /// The one value to which a reduction of \p count values leads.
  static float reduced(const Stats &stats, double count) {
    if constexpr (kOp == RowOp::Max)
      return stats.max;
    else if constexpr (kOp == RowOp::Mean)
      return static_cast<float>(stats.sum / count);
    else
      return stats.sum;
  }

private:
  template <int kCount>
  static void
  applyLinks(float (&x)[kCount], const float (&matrix)[kMatrixRoom][kCount],
             const typename RowVectors<kSignature, kCount>::Values &shared,
             float factor) {
    LinkOperands<float> operands[kCount];
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
#pragma unroll
      for (int m = 0; m < kMatrices; ++m)
        operands[e].link[kMatrixLinks.at[m]] = matrix[m][e];
#pragma unroll
      for (int i = 0; i < kChain.size(); ++i)
        if (shapeOf(kChain.ops[i]) == LinkShape::Row)
          operands[e].link[i] = shared.link[i][e];
        else if (shapeOf(kChain.ops[i]) == LinkShape::Scalar)
          operands[e].link[i] = factor;
    }
    if constexpr (kCount % 2 == 0) {
#pragma unroll
      for (int e = 0; e < kCount; e += 2)
        applyChainToPair<kChain>(x[e], x[e + 1], operands[e], operands[e + 1]);
    } else {
#pragma unroll
      for (int e = 0; e < kCount; ++e)
        x[e] = applyChain<kChain>(x[e], operands[e]);
    }
  }
};

} // namespace kiln
