//===- rows/RowStats.cuh - the statistics of a row ------------------------===//
//
// For each operation, the statistics of a part of a row: empty at first,
// extended by a vector of values at a time, and merged with those of another
// part. Merging is correct in any order, but callers use a fixed order, so that
// equal inputs give equal bits.
//
// Values of a vector are summed before they join the running sum, which
// shortens the chain of roundings by the vector's length. Means and variances
// are kept as (count, mean, sum of squared deviations) and merged by the rule
// of Chan, Golub and LeVeque ("Updating formulae and a pairwise algorithm for
// computing sample variances", 1979), so that a large mean costs no digits.
// Softmax keeps (max, sum of exp2(value - max)) in one pass (Milakov and
// Gimelshein, arXiv 1805.02867).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"
#include "rows/RowSignature.h"

namespace kiln {

constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000u);

namespace detail {

/// Sum of kCount values as a tree.
template <int kCount> float treeSum(const float (&x)[kCount]) {
  if constexpr (kCount == 1)
    return x[0];
  else {
    float half[kCount / 2];
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i)
      half[i] = x[2 * i] + x[2 * i + 1];
    return treeSum(half);
  }
}

/// exp(x - base), at most 1 where base is the greater.
inline float expOfDifference(float x, float base) {
  constexpr float kLog2E = 1.4426950408889634f;
  return ptx::ex2ApproxFtz((x - base) * kLog2E);
}

/// The greater of two values; NaN if either is.
inline float maxOrNan(float a, float b) {
  if constexpr (__CUDA_ARCH__ >= 800)
    return ptx::maxNan(a, b);
  else
    return a > b || a != a ? a : b; // b where b is NaN
}

} // namespace detail

struct SumStats {
  float sum;

  static SumStats empty() { return {0.0f}; }
  template <int kCount> void add(const float (&x)[kCount]) {
    sum += detail::treeSum(x);
  }
  void merge(const SumStats &other) { sum += other.sum; }
};

struct SquareStats {
  float sum;

  static SquareStats empty() { return {0.0f}; }
  template <int kCount> void add(const float (&x)[kCount]) {
    float square = x[0] * x[0];
#pragma unroll
    for (int i = 1; i < kCount; ++i)
      square = fmaf(x[i], x[i], square);
    sum += square;
  }
  void merge(const SquareStats &other) { sum += other.sum; }
};

struct MaxStats {
  float max;

  static MaxStats empty() { return {-kInfinity}; }
  template <int kCount> void add(const float (&x)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      max = detail::maxOrNan(x[i], max);
  }
  void merge(const MaxStats &other) { max = detail::maxOrNan(other.max, max); }
};

/// The greatest magnitude; NaN if any value is.
struct MagnitudeStats {
  float max;

  static MagnitudeStats empty() { return {0.0f}; }
  template <int kCount> void add(const float (&x)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      max = detail::maxOrNan(fabsf(x[i]), max);
  }
  void merge(const MagnitudeStats &other) {
    max = detail::maxOrNan(other.max, max);
  }
};

/// Statistics of the values and of the weighted values, which a quantised norm
/// without bias needs.
struct SquareMagnitudeStats {
  SquareStats squares;
  MagnitudeStats weighted;

  static SquareMagnitudeStats empty() {
    return {SquareStats::empty(), MagnitudeStats::empty()};
  }
  void merge(const SquareMagnitudeStats &other) {
    squares.merge(other.squares);
    weighted.merge(other.weighted);
  }
};

struct MomentStats {
  float count, mean, deviations;

  static MomentStats empty() { return {0.0f, 0.0f, 0.0f}; }
  void merge(const MomentStats &other) {
    float total = count + other.count;
    float share = total > 0 ? __fdividef(other.count, total) : 0.0f;
    float difference = other.mean - mean;
    mean = fmaf(difference, share, mean);
    // The order matters: the square of the difference may be infinite, and be
    // multiplied by a count of 0.
    deviations +=
        other.deviations + (difference * count) * (difference * share);
    count = total;
  }
  /// Merges several parts at once: their sums() are merged, each part is
  /// centred by them, and then only the deviations have to be added. Sums are
  /// scaled by a power of two, so that no sum is infinite unless its mean is.
  struct Sums {
    float count, sum;
    void merge(const Sums &other) {
      count += other.count;
      sum += other.sum;
    }
  };
  static constexpr float kSumScale = 0x1p-24f;
  Sums sums() const { return {count, count * kSumScale * mean}; }
  void center(const Sums &all) {
    float of = all.count > 0
                   ? __fdividef(all.sum, all.count) * (1.0f / kSumScale)
                   : 0.0f;
    float difference = mean - of;
    deviations = fmaf(difference * count, difference, deviations);
    mean = of;
    count = all.count;
  }
  /// Merges statistics of equally many values, given by their mean and
  /// deviations.
  /// deviations.
  void mergeEqual(float otherMean, float otherDeviations) {
    float difference = otherMean - mean;
    mean = fmaf(difference, 0.5f, mean);
    deviations +=
        fmaf(difference * (0.5f * count), difference, otherDeviations);
    count *= 2;
  }
};

/// Collects the moments of one thread's values, a few vectors at a time, as
/// sums of x - pivot and of its square: three instructions a value. The pivot
/// is the mean of the first of these vectors. So the sum of the squared
/// deviations is at least kCount times the square of the pivot's error, and the
/// subtraction loses at most log2 of the number of vectors in digits.
struct MomentCollector {
  MomentStats before;
  float pivot, sum, squares, vectors;

  static MomentCollector empty() {
    return {MomentStats::empty(), 0.0f, 0.0f, 0.0f, 0.0f};
  }
  /// Adds a vector behind \p added others. \p added is a constant in unrolled
  /// loops, so that no instruction tests where a few vectors begin.
  template <int kCount> void add(const float (&x)[kCount], int added) {
    constexpr int kFew = 4;
    if (added % kFew == 0) {
      if (added > 0) {
        before.count = static_cast<float>((added - kFew) * kCount);
        fold<kCount>(kFew);
      }
      pivot = detail::treeSum(x) * (1.0f / kCount);
    }
    float difference[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      difference[i] = x[i] - pivot;
      squares = fmaf(difference[i], difference[i], squares);
    }
    sum += detail::treeSum(difference);
    vectors += 1.0f;
  }
  template <int kCount> MomentStats stats() {
    fold<kCount>(vectors);
    return before;
  }

private:
  template <int kCount> void fold(float ofVectors) {
    float count = ofVectors * kCount;
    float mean = ofVectors > 0 ? __fdividef(sum, count) : 0.0f;
    before.merge({count, pivot + mean, fmaxf(fmaf(-sum, mean, squares), 0.0f)});
    sum = squares = vectors = 0.0f;
  }
};

/// The sum is of exp(x - max), which needs no more range than fp32 has and
/// loses no digits where x is large.
struct SoftmaxStats {
  float max, sum;

  static SoftmaxStats empty() { return {-kInfinity, 0.0f}; }
  template <int kCount> void add(const float (&x)[kCount]) {
    float greatest = x[0];
#pragma unroll
    for (int i = 1; i < kCount; ++i)
      greatest = fmaxf(greatest, x[i]);
    raiseTo(greatest);
    float base = baseOf(max), part[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      part[i] = detail::expOfDifference(x[i], base);
    sum += detail::treeSum(part);
  }
  /// Adds values that are at most max, and replaces them by their exponentials.
  template <int kCount> void exponentiate(float (&x)[kCount]) {
    float base = baseOf(max);
#pragma unroll
    for (float &value : x)
      value = detail::expOfDifference(value, base);
    sum += detail::treeSum(x);
  }
  void merge(const SoftmaxStats &other) {
    raiseTo(other.max);
    sum = fmaf(other.sum, detail::expOfDifference(other.max, baseOf(max)), sum);
  }

  /// Merges by sums alone, for lanes that know the greatest of all their
  /// maxima.
  void rescale(float greatest) { raiseTo(greatest); }

private:
  /// The number to subtract: never minus infinity, whose difference to itself
  /// is NaN. A row without any greater value still ends as 0/0.
  static float baseOf(float max) { return max == -kInfinity ? 0.0f : max; }
  void raiseTo(float greatest) {
    float raised = fmaxf(max, greatest);
    sum *= detail::expOfDifference(max, baseOf(raised));
    max = raised;
  }
};

namespace detail {
template <RowOp kOp, bool kWithMagnitude> struct StatsOf;
template <> struct StatsOf<RowOp::RmsNorm, false> { using Type = SquareStats; };
template <> struct StatsOf<RowOp::RmsNorm, true> {
  using Type = SquareMagnitudeStats;
};
template <> struct StatsOf<RowOp::LayerNorm, false> {
  using Type = MomentStats;
};
template <> struct StatsOf<RowOp::Softmax, false> {
  using Type = SoftmaxStats;
};
template <> struct StatsOf<RowOp::Quantize, false> {
  using Type = MagnitudeStats;
};
template <> struct StatsOf<RowOp::Sum, false> { using Type = SumStats; };
template <> struct StatsOf<RowOp::Max, false> { using Type = MaxStats; };
template <> struct StatsOf<RowOp::Mean, false> { using Type = SumStats; };
template <> struct StatsOf<RowOp::SumSquares, false> {
  using Type = SquareStats;
};
} // namespace detail

/// The statistics that \p kOp needs of a row, optionally with the greatest
/// magnitude of the weighted values.
template <RowOp kOp, bool kWithMagnitude>
using StatsOf = typename detail::StatsOf<kOp, kWithMagnitude>::Type;

/// Collects the statistics of one thread: adds vectors of values, each with the
/// number of vectors before it, then gives stats().
template <class Stats> struct PlainCollector : Stats {
  static PlainCollector empty() { return {Stats::empty()}; }
  template <int kCount> void add(const float (&x)[kCount], int) {
    Stats::add(x);
  }
  template <int kCount> Stats stats() const { return *this; }
};
namespace detail {
template <class Stats> struct CollectorOf {
  using Type = PlainCollector<Stats>;
};
template <> struct CollectorOf<MomentStats> { using Type = MomentCollector; };
} // namespace detail
template <class Stats>
using CollectorOf = typename detail::CollectorOf<Stats>::Type;

/// Statistics as the floats that they consist of.
template <class Stats> struct StatsWords {
  static constexpr int kCount = sizeof(Stats) / sizeof(float);
  float word[kCount];

  static StatsWords of(const Stats &stats) {
    return __builtin_bit_cast(StatsWords, stats);
  }
  Stats stats() const { return __builtin_bit_cast(Stats, *this); }
};

} // namespace kiln
