//===- rows/ReloadRows.cuh - rows that are read again ---------------------===//
//
// first pass:  statistics, a chunk of `items` vectors in flight at a time
// (quantised norms: one more pass for the greatest magnitude of the results)
// last pass:   results; the only one where they do not depend on statistics
//
// Each pass goes through the row in the opposite direction of the pass before,
// because the end of that pass is most likely still in the caches. A residual
// is added and stored by the first pass; later passes read the sum. Each
// element is read by the thread that will write it, so that the result may
// overwrite its input in place.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Dependent.cuh"
#include "rows/ReloadRowsConfig.h"
#include "rows/RowEnds.cuh"
#include "rows/RowExchange.cuh"
#include "rows/RowGroup.cuh"
#include "rows/RowMath.cuh"
#include "rows/RowScales.cuh"

namespace kiln {

/// kConfig: a ReloadRowsConfig, or a SpreadRowsConfig for rows that blocks all
/// over the GPU share.
template <RowSignature kSignature, auto kConfig> class ReloadRows {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");

  static constexpr int kVector = kConfig.vector, kItems = kConfig.items;
  static constexpr bool kSpread = requires { kConfig.isSpread(); };
  static constexpr int kGroups = kConfig.groups(), kCluster = kConfig.cluster;
  static constexpr int kRowThreads = kConfig.blockThreads / kGroups;
  static constexpr int kKept = kConfig.kept;
  static constexpr int kInBytes = bytesOf(kSignature.in);
  static constexpr int kBytes = kVector * kInBytes;
  static constexpr CacheHint kHint =
      kConfig.streaming ? CacheHint::Streaming : CacheHint::Plain;
  using Math = RowMath<kSignature>;
  using Stats = typename Math::Stats;
  using Final = typename Math::Final;
  using Group = RowGroup<kConfig.blockThreads, kRowThreads, 1, kCluster>;
  using Vectors = RowVectors<kSignature, kVector>;
  static constexpr RowStart kStart = kConfig.rowStart();
  static constexpr bool kShifted = kStart != RowStart::Aligned;
  static constexpr bool kAny = kStart == RowStart::Any;
  static constexpr long long kChunk = kConfig.chunkVectors();
  static constexpr bool kHasMiddle = kSignature.reducesTwice();
  using Ends =
      typename RowEndsOf<kSignature, kStart, kVector, kRowThreads>::Type;
  using Loaded = VectorAt<kBytes, kInBytes, kAny>;
  using Order = VectorOrder<kSignature, kVector, kRowThreads>;
  static constexpr bool kHasBlocks = kSignature.hasBlocks();

  enum class Pass { First, Middle, Last };

  /// A chunk of a row: the inputs of this thread's `items` vectors. kStays: the
  /// chunk stays in shared memory, where passes after the first one read it.
  template <Pass kPass, bool kStays> struct Chunk {
    static constexpr bool kIsShared = kStays && kPass != Pass::First;
    static constexpr bool kIsSummed =
        kSignature.residual && kPass != Pass::First;
    long long column;  ///< of this thread's first vector
    int left;          ///< vectors of the row from there on, within the chunk
    unsigned sharedAt; ///< where the first vector is in shared memory
    Loaded x[kItems];
    Words<kBytes> shared[kItems];
    Loaded residual[kSignature.residual ? kItems : 1];
    Loaded matrix[Math::kMatrixRoom][Math::kMatrices > 0 ? kItems : 1];
    Vectors operands[kItems];

    bool hasVector(int i) const { return Order::after(i) < left; }
    long long columnAt(int i) const {
      return column + Order::after(i) * kVector;
    }
    unsigned placeOf(int i) const {
      return sharedAt + i * (kConfig.blockThreads * kBytes);
    }
  };

  /// Whether the operands that all rows share are loaded together with the
  /// chunk: with few rows they are as many bytes, and come from DRAM like the
  /// rows. Otherwise they are loaded as they are used.
  template <Pass kPass>
  static constexpr bool kIsAhead = kSpread && (kPass != Pass::First ||
                                               kSignature.preparesWithRow() ||
                                               Math::kScalesAtOnce);

public:
  /// Any one-dimensional grid; with clusters, it has a cluster for each row.
  static void run(const RowParams &params) {
    Group::begin();
    const unsigned blocks = kSpread ? params.ranges : kCluster;
    long long step = static_cast<long long>(gridDim.x / blocks) * kGroups;
    // All groups of a block make the same number of rounds, since they share
    // barriers.
    for (long long base = static_cast<long long>(blockIdx.x / blocks) * kGroups;
         base < params.rows; base += step)
      ReloadRows(params, base + threadIdx.x / kRowThreads).runRow();
  }

private:
  ReloadRows(const RowParams &params, long long row)
      : params(params), row(row), hasRow(row < params.rows),
        body(bodyOf<kSignature, kStart, kVector>(params, row)),
        vectors(body.vectors), factor(Math::factorOf(params)) {
    if constexpr (kCluster > 1) {
      long long perBlock =
          Order::wholeBlocks((vectors + kCluster - 1) / kCluster);
      rank = ptx::clusterCtaRank();
      begin = rank * perBlock;
      vectors = min(vectors, begin + perBlock);
    }
    if constexpr (kSpread) {
      rank = blockIdx.x % static_cast<unsigned>(params.ranges);
      begin = rank * kChunk;
      stride = params.ranges * kChunk;
    }
    if constexpr (kKept > 0) {
      extern __shared__ __align__(16) unsigned char storage[];
      sharedFirst = ptx::sharedAddress(storage) + threadIdx.x * kBytes;
    }
  }

  void runRow() {
    Stats stats[1] = {Stats::empty()};
    Ends ends(params, body, row, threadIdx.x % kRowThreads,
              hasRow && rank == 0);
    ends.load();
    if constexpr (kSignature.hasStatistics())
      findStatistics(stats, ends);
    if constexpr (isReduction(kSignature.op)) {
      using Out = Storage<kSignature.out>;
      if (isWriter())
        static_cast<Out *>(params.y)[row] = fromFloat<kSignature.out>(
            Math::reduced(stats[0], static_cast<double>(params.cols)));
    } else {
      Final final = Math::finish(stats[0], params);
      float inverse = 1.0f;
      if constexpr (kSignature.quantizes() && !kHasBlocks) {
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

  /// The first pass: \p stats become those of the row.
  void findStatistics(Stats (&stats)[1], Ends &ends) {
    forEachChunk<Pass::First>([&](auto &chunk) {
      // Each chunk has a collector of its own, so that its pivot is never far
      // off.
      auto collector = Math::Collector::empty();
      forEachVector(chunk, [&](int i, float(&value)[kVector],
                               const typename Vectors::Values &shared) {
        Math::collect(collector, i, value, shared.weight);
      });
      stats[0].merge(collector.template stats<kVector>());
    });
    ends.addTo(stats[0]);
    reduce<0>(stats);
  }

  /// Merges the statistics of all threads of the row.
  template <int kStage, class Any> void reduce(Any (&stats)[1]) const {
    Group::template reduce<kStage>(stats);
    if constexpr (kSpread)
      RowExchange<kConfig.blockThreads>(params, row, rank)
          .template merge<kStage>(stats);
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
          final, [&](const auto &, int, float(&value)[kVector]) {
            magnitude[0].add(value);
          });
      ends.forEachResult(
          final, [&](long long, float(&value)[1]) { magnitude[0].add(value); });
      reduce<1>(magnitude);
      return magnitude[0].max;
    }
  }

  void storeResults(const Final &final, float inverse) {
    constexpr int kOutBytes = bytesOf(kSignature.out);
    if constexpr (kHasBlocks) {
      ScaleBlocks<kSignature, kVector, kRowThreads, kHint> blocks;
      return forEachResult<Pass::Last>(
          final, [&](const auto &chunk, int i, float(&value)[kVector]) {
            blocks.add(params, row, i, chunk.columnAt(i), chunk.hasVector(i),
                       value);
          });
    }
    char *y = static_cast<char *>(params.y) + row * params.ldy * kOutBytes;
    forEachResult<Pass::Last>(final, [&](const auto &chunk, int i,
                                         float(&value)[kVector]) {
      if constexpr (kSignature.quantizes())
#pragma unroll
        for (float &element : value)
          element *= inverse;
      storeVector<kVector * kOutBytes, kHint>(
          y + chunk.columnAt(i) * kOutBytes, packFloats<kSignature.out>(value));
    });
  }

  /// Loads each chunk and calls \p visit with it.
  template <Pass kPass, class Visit> void forEachChunk(Visit &&visit) {
    constexpr bool kBackwards =
        kPass == Pass::Middle ||
        (kPass == Pass::Last && kSignature.hasStatistics() && !kHasMiddle);
    if (!hasRow)
      return;
    const long long chunks = (vectors - begin + stride - 1) / stride;
    const long long kept =
        kKept == 0 ? 0 : min(chunks, static_cast<long long>(kKept));
    // The loop is not unrolled: several chunks would not fit in registers.
    if constexpr (!kBackwards && kKept > 0)
#pragma unroll 1
      for (long long c = 0; c < kept; ++c)
        visitChunk<kPass, true>(c, visit);
#pragma unroll 1
    for (long long c = kept; c < chunks; ++c)
      visitChunk<kPass, false>(kBackwards ? chunks - 1 - (c - kept) : c, visit);
    if constexpr (kBackwards && kKept > 0)
#pragma unroll 1
      for (long long c = kept; --c >= 0;)
        visitChunk<kPass, true>(c, visit);
  }

  template <Pass kPass, bool kStays, class Visit>
  void visitChunk(long long number, Visit &&visit) {
    // Vectors that do not exist are zeros: an uninitialised value would occupy
    // registers throughout the kernel.
    Chunk<kPass, kStays> chunk = {};
    const long long first =
        begin + number * stride + Order::first(threadIdx.x % kRowThreads);
    chunk.left = static_cast<int>(min(vectors - first, kChunk));
    chunk.column = first * kVector + body.head;
    chunk.sharedAt = sharedFirst + static_cast<unsigned>(number) *
                                       (kItems * kConfig.blockThreads * kBytes);
    // Opaque, so that each operand has one address and constant offsets for its
    // vectors: addresses for all items and passes would fill the registers.
    ptx::opaque(chunk.column);
#pragma unroll
    for (int i = 0; i < kItems; ++i)
      if (chunk.hasVector(i))
        load(chunk, i);
    visit(chunk);
  }

  /// Calls \p visit with (number in the chunk, prepared values, operands of
  /// these columns) for each vector of \p chunk. In a last pass whose lanes
  /// share blocks, all of them visit as often: also with vectors that do not
  /// exist.
  template <Pass kPass, bool kStays, class Visit>
  void forEachVector(Chunk<kPass, kStays> &chunk, Visit &&visit) {
    constexpr bool kAlways = kHasBlocks && kPass == Pass::Last;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (!kAlways && !chunk.hasVector(i))
        continue;
      typename Vectors::Values shared;
      float value[kVector] = {};
      if (chunk.hasVector(i)) {
        if constexpr (!kIsAhead<kPass>)
          chunk.operands[i] =
              Vectors::template load<kShifted>(params, chunk.columnAt(i));
        shared = chunk.operands[i].unpack();
        auto words = values(value, chunk, i, shared);
        if constexpr (kStays && kPass == Pass::First)
          storeSharedVector<kBytes>(chunk.placeOf(i), words);
      }
      visit(i, value, shared);
    }
  }

  /// Calls \p visit with (chunk, number in it, results) likewise.
  template <Pass kPass, class Visit>
  void forEachResult(const Final &final, Visit &&visit) {
    forEachChunk<kPass>([&](auto &chunk) {
      forEachVector(chunk, [&](int i, float(&value)[kVector],
                               const typename Vectors::Values &shared) {
        Math::apply(value, final, shared.weight, shared.bias);
        visit(chunk, i, value);
      });
    });
  }

  using Row = MatrixRow<kSignature, kVector>;
  Row rowOf(const void *base, long long ld) const {
    return Row(base, ld, body, row);
  }
  Row rowOfMatrix(int m) const {
    const auto from = Math::matrixOf(params, m);
    return rowOf(from.base, from.ld);
  }
  template <bool kSummed> Row rowOfX() const {
    return kSummed ? rowOf(params.residualOut, params.ldResidualOut)
                   : rowOf(params.x, params.ldx);
  }

  template <Pass kPass, bool kStays>
  void load(Chunk<kPass, kStays> &chunk, int i) const {
    using Of = Chunk<kPass, kStays>;
    const long long column = chunk.columnAt(i);
    // Data that later passes or neighbours read again stays in the caches.
    constexpr CacheHint kOnce = kAny ? CacheHint::Plain : kHint;
    constexpr CacheHint kLoad = kPass == Pass::Last ? kOnce : CacheHint::Plain;
    if constexpr (Of::kIsShared)
      chunk.shared[i] = loadSharedVector<kBytes>(chunk.placeOf(i));
    else
      rowOfX<Of::kIsSummed>().template load<kLoad>(chunk.x[i], column);
    if constexpr (kSignature.residual && kPass == Pass::First)
      rowOf(params.residual, params.ldResidual)
          .template load<kOnce>(chunk.residual[i], column);
#pragma unroll
    for (int m = 0; m < Math::kMatrices; ++m)
      rowOfMatrix(m).template load<kLoad>(chunk.matrix[m][i], column);
    if constexpr (kIsAhead<kPass>)
      chunk.operands[i] = Vectors::template load<kShifted>(params, column);
  }

  /// Gives the prepared values of a loaded vector; returns the words that later
  /// passes read.
  template <Pass kPass, bool kStays>
  Words<kBytes> values(float (&value)[kVector], Chunk<kPass, kStays> &chunk,
                       int i, const typename Vectors::Values &shared) const {
    using Of = Chunk<kPass, kStays>;
    Words<kBytes> words;
    if constexpr (Of::kIsShared)
      words = chunk.shared[i];
    else
      words = rowOfX<Of::kIsSummed>().get(chunk.x[i]);
    unpackFloats<kSignature.in>(value, words);
    if constexpr (kSignature.residual && kPass == Pass::First) {
      addResidual(value, words, chunk.residual[i], chunk.columnAt(i));
      unpackFloats<kSignature.in>(value, words);
    }
    float beside[Math::kMatrixRoom][kVector];
#pragma unroll
    for (int m = 0; m < Math::kMatrices; ++m)
      unpackFloats<kSignature.in>(beside[m],
                                  rowOfMatrix(m).get(chunk.matrix[m][i]));
    Math::prepare(value, beside, shared, factor);
    return words;
  }

  /// Stores \p value + \p residual, and puts it into \p words.
  void addResidual(float (&value)[kVector], Words<kBytes> &words,
                   const Loaded &residual, long long column) const {
    float added[kVector];
    unpackFloats<kSignature.in>(
        added, rowOf(params.residual, params.ldResidual).get(residual));
#pragma unroll
    for (int e = 0; e < kVector; ++e)
      value[e] += added[e];
    words = packFloats<kSignature.in>(value);
    char *sumAt = static_cast<char *>(params.residualOut) +
                  (row * params.ldResidualOut + column) * kInBytes;
    if constexpr (kAny)
      storeShifted<kBytes, kInBytes>(sumAt, words);
    else
      storeVector<kBytes>(sumAt, words);
  }

  const RowParams &params;
  long long row;
  bool hasRow;
  RowBody<kVector> body;
  long long begin = 0, vectors; ///< this block's part of the row
  long long stride = kChunk;    ///< from one chunk of this block to its next
  const float factor;           ///< RowMath::factorOf()
  unsigned rank = 0;            ///< of the block among those of the row
  unsigned sharedFirst = 0;     ///< where this thread's vectors in shared
                                ///< memory begin
};

template <RowSignature kSignature, ReloadRowsConfig kConfig>
void reloadRows(const RowParams &params) {
  allowSuccessor();
  awaitPredecessor();
  ReloadRows<kSignature, kConfig>::run(params);
}

} // namespace kiln
