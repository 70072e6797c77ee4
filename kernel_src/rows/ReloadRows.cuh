//===- rows/ReloadRows.cuh - rows that are read again ---------------------===//
//
// first pass:  statistics, a chunk of `items` vectors in flight at a time
// (quantised norms: one more pass for the greatest magnitude of the results)
// last pass:   results, from the row's end to its beginning, because what was
//              read last is most likely still in the caches
//
// A residual is added and stored by the first pass; later passes read the sum.
// Each element is read by the thread that writes it, before it does, so that a
// result may take its input's place.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Dependent.cuh"
#include "rows/ReloadRowsConfig.h"
#include "rows/RowEnds.cuh"
#include "rows/RowGroup.cuh"
#include "rows/RowMath.cuh"

namespace kiln {

template <RowSignature kSignature, ReloadRowsConfig kConfig> class ReloadRows {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");

  static constexpr int kVector = kConfig.vector, kItems = kConfig.items;
  static constexpr int kRowThreads = kConfig.rowThreads;
  static constexpr int kInBytes = bytesOf(kSignature.in);
  static constexpr int kBytes = kVector * kInBytes;
  static constexpr CacheHint kHint =
      kConfig.streaming ? CacheHint::Streaming : CacheHint::Plain;
  using Math = RowMath<kSignature>;
  using Stats = typename Math::Stats;
  using Final = typename Math::Final;
  using Group = RowGroup<kConfig.blockThreads, kRowThreads, 1, kConfig.cluster>;
  using Vectors = RowVectors<kSignature, kVector>;
  static constexpr RowStart kStart = kConfig.rowStart();
  static constexpr bool kShifted = kStart != RowStart::Aligned;
  static constexpr bool kAny = kStart == RowStart::Any;
  using Ends =
      typename RowEndsOf<kSignature, kStart, kVector, kRowThreads>::Type;
  using Loaded = VectorAt<kBytes, kInBytes, kAny>;

  /// A chunk of a row: the inputs of this thread's `items` vectors.
  struct Chunk {
    Loaded x[kItems];
    Loaded residual[kSignature.residual ? kItems : 1];
    Loaded mask[Math::kMaskMatrix ? kItems : 1];
  };

public:
  /// Any one-dimensional grid; a cluster for each row if there are clusters.
  static void run(const RowParams &params) {
    Group::begin();
    constexpr int kGroups = kConfig.groups(), kCluster = kConfig.cluster;
    long long step = static_cast<long long>(gridDim.x / kCluster) * kGroups;
    // All groups of a block go round equally often: they share barriers.
    for (long long base =
             static_cast<long long>(blockIdx.x / kCluster) * kGroups;
         base < params.rows; base += step)
      ReloadRows(params, base + threadIdx.x / kRowThreads).runRow();
  }

private:
  ReloadRows(const RowParams &params, long long row)
      : params(params), row(row), hasRow(row < params.rows),
        body(bodyOf<kSignature, kStart, kVector>(params, row)),
        vectors(body.vectors) {
    if constexpr (kConfig.cluster > 1) {
      long long perBlock = (vectors + kConfig.cluster - 1) / kConfig.cluster;
      rank = ptx::clusterCtaRank();
      begin = rank * perBlock;
      vectors = min(vectors, begin + perBlock);
    }
  }

  void runRow() {
    Stats stats[1] = {Stats::empty()};
    Ends ends(params, body, row, threadIdx.x % kRowThreads,
              hasRow && rank == 0);
    ends.load();
    forEachChunk<Pass::First>([&](Chunk &chunk, long long at) {
      // A collector for each chunk, so that its pivot is never far.
      auto collector = Math::Collector::empty();
      forEachVector<Pass::First>(chunk, at,
                                 [&](int i, long long, float(&value)[kVector],
                                     const typename Vectors::Values &shared) {
                                   Math::collect(collector, i, value,
                                                 shared.weight);
                                 });
      stats[0].merge(collector.template stats<kVector>());
    });
    ends.addTo(stats[0]);
    Group::template reduce<0>(stats);
    if constexpr (isReduction(kSignature.op)) {
      using Out = Storage<kSignature.out>;
      if (isWriter())
        static_cast<Out *>(params.y)[row] = fromFloat<kSignature.out>(
            Math::reduced(stats[0], static_cast<double>(params.cols)));
    } else {
      Final final = Math::finish(stats[0], params);
      float inverse = 1.0f;
      if constexpr (kSignature.quantizes()) {
        float scale = Math::scaleOf(findGreatest(stats[0], final, ends));
        inverse = 1.0f / scale;
        if (isWriter())
          params.scales[row] = scale;
      }
      ends.store(final, inverse);
      storeResults(final, inverse);
    }
    if constexpr (kRowThreads > 32)
      __syncthreads(); // the next row reuses the memory of the reductions
  }

  bool isWriter() const {
    return hasRow && rank == 0 && threadIdx.x % kRowThreads == 0;
  }

  /// The greatest magnitude of the row's results.
  float findGreatest(const Stats &stats, const Final &final, Ends &ends) {
    if constexpr (kSignature.op == RowOp::Quantize)
      return stats.max;
    else if constexpr (Math::kScalesAtOnce)
      return stats.weighted.max * final.factor;
    else {
      MagnitudeStats magnitude[1] = {MagnitudeStats::empty()};
      forEachResult<Pass::Middle>(
          final,
          [&](long long, float(&value)[kVector]) { magnitude[0].add(value); });
      ends.forEachResult(
          final, [&](long long, float(&value)[1]) { magnitude[0].add(value); });
      Group::template reduce<1>(magnitude);
      return magnitude[0].max;
    }
  }

  void storeResults(const Final &final, float inverse) {
    constexpr int kOutBytes = bytesOf(kSignature.out);
    char *y = static_cast<char *>(params.y) + row * params.ldy * kOutBytes;
    forEachResult<Pass::Last>(
        final, [&](long long column, float(&value)[kVector]) {
          if constexpr (kSignature.quantizes())
#pragma unroll
            for (float &element : value)
              element *= inverse;
          storeVector<kVector * kOutBytes, kHint>(
              y + column * kOutBytes, packFloats<kSignature.out>(value));
        });
  }

  enum class Pass { First, Middle, Last };

  /// Calls \p visit with each chunk, loaded, and the first vector of it: from
  /// the row's end in the last pass.
  template <Pass kPass, class Visit> void forEachChunk(Visit &&visit) {
    if (!hasRow)
      return;
    constexpr long long kChunk = static_cast<long long>(kRowThreads) * kItems;
    long long lane = threadIdx.x % kRowThreads;
    long long chunks = (vectors - begin + kChunk - 1) / kChunk;
    for (long long c = 0; c < chunks; ++c) {
      long long at =
          begin + (kPass == Pass::Last ? chunks - 1 - c : c) * kChunk + lane;
      Chunk chunk;
#pragma unroll
      for (int i = 0; i < kItems; ++i)
        if (long long vector = at + i * kRowThreads; vector < vectors)
          load<kPass>(chunk, i, columnOf(vector));
      visit(chunk, at);
    }
  }

  long long columnOf(long long vector) const {
    return vector * kVector + body.head;
  }

  /// Calls \p visit with (number in the chunk, column, prepared values,
  /// operands of its columns) for each vector of \p chunk.
  template <Pass kPass, class Visit>
  void forEachVector(Chunk &chunk, long long at, Visit &&visit) {
#pragma unroll
    for (int i = 0; i < kItems; ++i)
      if (long long vector = at + i * kRowThreads; vector < vectors) {
        long long column = columnOf(vector);
        auto shared = Vectors::template load<kShifted>(params, column).unpack();
        float value[kVector];
        values<kPass>(value, chunk, i, column, shared);
        visit(i, column, value, shared);
      }
  }

  /// Calls \p visit with (column, results) for each vector of the row.
  template <Pass kPass, class Visit>
  void forEachResult(const Final &final, Visit &&visit) {
    forEachChunk<kPass>([&](Chunk &chunk, long long at) {
      forEachVector<kPass>(chunk, at,
                           [&](int, long long column, float(&value)[kVector],
                               const typename Vectors::Values &shared) {
                             Math::apply(value, final, shared.weight,
                                         shared.bias);
                             visit(column, value);
                           });
    });
  }

  using Row = MatrixRow<kSignature, kVector>;
  Row rowOf(const void *base, long long ld) const {
    return Row(base, ld, body, row);
  }
  template <bool kSummed> Row rowOfX() const {
    return kSummed ? rowOf(params.residualOut, params.ldResidualOut)
                   : rowOf(params.x, params.ldx);
  }

  template <Pass kPass> void load(Chunk &chunk, int i, long long column) const {
    constexpr bool kSummed = kSignature.residual && kPass != Pass::First;
    // What is read again stays in the caches, as does what neighbours read.
    constexpr CacheHint kOnce = kAny ? CacheHint::Plain : kHint;
    constexpr CacheHint kLoad = kPass == Pass::Last ? kOnce : CacheHint::Plain;
    rowOfX<kSummed>().template load<kLoad>(chunk.x[i], column);
    if constexpr (kSignature.residual && kPass == Pass::First)
      rowOf(params.residual, params.ldResidual)
          .template load<kOnce>(chunk.residual[i], column);
    if constexpr (Math::kMaskMatrix)
      rowOf(params.mask, params.ldMask)
          .template load<kLoad>(chunk.mask[i], column);
  }

  /// The prepared values of a loaded vector.
  template <Pass kPass>
  void values(float (&value)[kVector], Chunk &chunk, int i, long long column,
              const typename Vectors::Values &shared) const {
    constexpr bool kSummed = kSignature.residual && kPass != Pass::First;
    unpackFloats<kSignature.in>(value, rowOfX<kSummed>().get(chunk.x[i]));
    if constexpr (kSignature.residual && kPass == Pass::First) {
      float added[kVector];
      unpackFloats<kSignature.in>(
          added,
          rowOf(params.residual, params.ldResidual).get(chunk.residual[i]));
#pragma unroll
      for (int e = 0; e < kVector; ++e)
        value[e] += added[e];
      Words<kBytes> sum = packFloats<kSignature.in>(value);
      char *sumAt = static_cast<char *>(params.residualOut) +
                    (row * params.ldResidualOut + column) * kInBytes;
      if constexpr (kAny)
        storeShifted<kBytes, kInBytes>(sumAt, sum);
      else
        storeVector<kBytes>(sumAt, sum);
      unpackFloats<kSignature.in>(value, sum);
    }
    if constexpr (Math::kMaskMatrix) {
      float masked[kVector];
      unpackFloats<kSignature.in>(
          masked, rowOf(params.mask, params.ldMask).get(chunk.mask[i]));
      Math::prepare(value, masked, params);
    } else
      Math::prepare(value, shared.mask, params);
  }

  const RowParams &params;
  long long row;
  bool hasRow;
  RowBody<kVector> body;
  long long begin = 0, vectors; ///< this block's part of the row
  unsigned rank = 0;            ///< of the block among those of the row
};

template <RowSignature kSignature, ReloadRowsConfig kConfig>
void reloadRows(const RowParams &params) {
  allowSuccessor();
  awaitPredecessor();
  ReloadRows<kSignature, kConfig>::run(params);
}

} // namespace kiln
