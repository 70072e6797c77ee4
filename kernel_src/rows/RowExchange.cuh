//===- rows/RowExchange.cuh - statistics of blocks all over the GPU -------===//
//
// A cluster has at most 8 blocks, which leave most of a GPU idle where rows are
// few. Here any blocks share a row: each sends its statistics through L2 to all
// blocks of the row, itself included, and waits for those of all. All merge
// them in the same order and get the same bits. Blocks wait for each other, so
// the launch is cooperative: all of them run at once.
//
// A place is +0 until a value is there, as in gemm/Sm90Exchange.cuh: a reader
// waits for the value's own latency, without fences and counters. It leaves +0,
// the state in which a launch begins. Each reader has places of its own, since
// no reader could clear a place that several read.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"
#include "rows/RowGroup.cuh"
#include "rows/RowParams.h"

namespace kiln {

/// The exchange of blocks of kThreads threads; a row has at most that many
/// blocks.
template <int kThreads> class RowExchange {
  using Group = RowGroup<kThreads, kThreads>;

public:
  /// Block \p rank of params.ranges blocks of row \p row.
  RowExchange(const RowParams &params, long long row, unsigned rank)
      : places(reinterpret_cast<float4 *>(params.partials)), rows(params.rows),
        row(row), rank(rank), blocks(static_cast<unsigned>(params.ranges)) {}

  /// Merges the statistics of the row's blocks. In each block all threads have
  /// the same ones. \p kStage: 0 or 1, tells the exchanges of a kernel apart.
  template <int kStage, class Stats> void merge(Stats (&stats)[1]) const {
    const unsigned peer = threadIdx.x;
    if (peer < blocks) {
      ptx::stRelaxed(placeOf(kStage, peer, rank), published(stats[0]));
      float4 *place = placeOf(kStage, rank, peer);
      float4 words;
      do
        words = ptx::ldRelaxed(place);
      while (leastBits(words) == 0);
      ptx::stRelaxed(place, {});
      stats[0] = received<Stats>(words);
    } else
      stats[0] = Stats::empty();
    // Uses stages behind those of the block's own reductions.
    Group::template reduce<2 + kStage>(stats);
  }

private:
  /// The place in which block \p reader of the row finds the value of block
  /// \p writer.
  float4 *placeOf(int stage, unsigned reader, unsigned writer) const {
    return places +
           (((stage * rows + row) * blocks + reader) * blocks + writer);
  }

  /// The statistics as four words, none of which is +0. A statistic of +0 is
  /// sent as -0, which merges to the same result.
  template <class Stats> static float4 published(const Stats &stats) {
    using Words = StatsWords<Stats>;
    static_assert(Words::kCount <= 4, "a place has four words");
    const Words of = Words::of(stats);
    float word[4] = {1.0f, 1.0f, 1.0f, 1.0f};
#pragma unroll
    for (int w = 0; w < Words::kCount; ++w)
      word[w] = __float_as_uint(of.word[w]) == 0 ? -0.0f : of.word[w];
    return {word[0], word[1], word[2], word[3]};
  }

  template <class Stats> static Stats received(const float4 &words) {
    using Words = StatsWords<Stats>;
    const float word[4] = {words.x, words.y, words.z, words.w};
    Words of;
#pragma unroll
    for (int w = 0; w < Words::kCount; ++w)
      of.word[w] = word[w];
    return of.stats();
  }

  /// 0 if any of the four is +0.
  static unsigned leastBits(const float4 &words) {
    return min(min(__float_as_uint(words.x), __float_as_uint(words.y)),
               min(__float_as_uint(words.z), __float_as_uint(words.w)));
  }

  float4 *places;
  long long rows, row;
  unsigned rank, blocks;
};

} // namespace kiln
