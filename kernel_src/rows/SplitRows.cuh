//===- rows/SplitRows.cuh - reductions in ranges --------------------------===//
//
// Blocks blockIdx.x = output * ranges + range. An output is a row, or all rows
// (params.allRows): then a range is some of the rows or, for packed rows, a
// piece of the one long row that they form (the host passes it as such).
//
// Ranges interleave: each takes a vector a thread, and continues behind the
// vectors of the others, so that all running blocks read near each other, as
// the copy baseline does. On an H200 the best configs sum 700 MB and more at
// 4.4 TB/s; the copy baseline reads 821 MB as fast. With a contiguous piece for
// each range sums of 300 MB and more were at 0.83 to 0.94 of the copy baseline.
//
// A block reduces its range and leaves the statistics in the workspace. The
// block that is last by the output's counter merges all of them in order, so
// that the result does not depend on which one was last, and resets the
// counter.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Dependent.cuh"
#include "rows/RowEnds.cuh"
#include "rows/RowGroup.cuh"
#include "rows/RowMath.cuh"
#include "rows/SplitRowsConfig.h"

namespace kiln {

template <RowSignature kSignature, SplitRowsConfig kConfig> class SplitRows {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");

  static constexpr int kThreads = kConfig.blockThreads;
  static constexpr int kVector = kConfig.vector, kItems = kConfig.items;
  static constexpr int kInBytes = bytesOf(kSignature.in);
  static constexpr int kBytes = kVector * kInBytes;
  static constexpr CacheHint kHint =
      kConfig.streaming ? CacheHint::Streaming : CacheHint::Plain;
  using Math = RowMath<kSignature>;
  using Stats = typename Math::Stats;
  using Words = StatsWords<Stats>;
  using Group = RowGroup<kThreads, kThreads>;
  static constexpr RowStart kStart = kConfig.rowStart();
  using Ends = typename RowEndsOf<kSignature, kStart, kVector, kThreads>::Type;
  static_assert(Words::kCount == 1, "a range leaves one float");

public:
  static void run(const RowParams &params) {
    unsigned ranges = static_cast<unsigned>(params.ranges);
    unsigned output = blockIdx.x / ranges, range = blockIdx.x % ranges;
    Stats stats[1] = {Stats::empty()};
    if (params.allRows)
      for (long long row = range; row < params.rows; row += ranges)
        addRange(stats[0], params, row, 0, 1);
    else
      addRange(stats[0], params, output, range, ranges);
    Group::template reduce<0>(stats);
    if (ranges == 1)
      store(params, output, stats[0]);
    else if (isLast(params, output, range, stats[0]))
      mergeRanges(params, output);
  }

private:
  /// Adds range \p range of \p ranges of \p row to \p stats.
  static void addRange(Stats &stats, const RowParams &params, long long row,
                       unsigned range, unsigned ranges) {
    const auto body = bodyOf<kSignature, kStart, kVector>(params, row);
    const long long step = static_cast<long long>(ranges) * kThreads;
    long long end = body.vectors;
    Ends ends(params, body, row, static_cast<int>(threadIdx.x), range == 0);
    ends.load();
    const char *x = static_cast<const char *>(params.x) +
                    (row * params.ldx + body.head) * kInBytes;
    for (long long at = static_cast<long long>(range) * kThreads + threadIdx.x;
         at < end; at += step * kItems) {
      kiln::Words<kBytes> words[kItems];
#pragma unroll
      for (int i = 0; i < kItems; ++i)
        if (at + i * step < end)
          words[i] = loadVector<kBytes, kHint>(x + (at + i * step) * kBytes);
      // Vectors in flight together are summed first, and then their sums: a
      // short chain of roundings.
      auto collector = Math::Collector::empty();
#pragma unroll
      for (int i = 0; i < kItems; ++i)
        if (at + i * step < end) {
          float value[kVector];
          unpackFloats<kSignature.in>(value, words[i]);
          collector.add(value, i);
        }
      stats.merge(collector.template stats<kVector>());
    }
    ends.addTo(stats);
  }

  static void store(const RowParams &params, unsigned output,
                    const Stats &stats) {
    if (threadIdx.x != 0)
      return;
    double count = static_cast<double>(params.cols) *
                   (params.allRows ? static_cast<double>(params.rows) : 1.0);
    static_cast<Storage<kSignature.out> *>(params.y)[output] =
        fromFloat<kSignature.out>(Math::reduced(stats, count));
  }

  /// Stores \p stats in the workspace; true in all threads of the last block.
  static bool isLast(const RowParams &params, unsigned output, unsigned range,
                     const Stats &stats) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
      unsigned ranges = static_cast<unsigned>(params.ranges);
      params.partials[static_cast<long long>(output) * ranges + range] =
          Words::of(stats).word[0];
      // Acquire and release: the statistics of the other blocks are visible
      // once these have counted.
      last = ptx::atomAddAcqRel(params.counters + output, 1) == ranges - 1;
      if (last)
        params.counters[output] = 0;
    }
    __syncthreads();
    return last;
  }

  static void mergeRanges(const RowParams &params, unsigned output) {
    Stats stats[1] = {Stats::empty()};
    const float *partials =
        params.partials + static_cast<long long>(output) * params.ranges;
    for (int i = threadIdx.x; i < params.ranges; i += kThreads)
      stats[0].merge(Words{{ptx::ldGlobalCg(partials + i)}}.stats());
    Group::template reduce<1>(stats);
    store(params, output, stats[0]);
  }
};

template <RowSignature kSignature, SplitRowsConfig kConfig>
void splitRows(const RowParams &params) {
  allowSuccessor();
  awaitPredecessor();
  SplitRows<kSignature, kConfig>::run(params);
}

} // namespace kiln
