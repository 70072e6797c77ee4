//===- rows/ResidentRows.cuh - rows that stay on the chip -----------------===//
//
// load: every vector of a thread's rows is in flight before the first is used;
//       the bytes that are in flight are what the speed is made of (Little)
// reduce: statistics of the thread's own vectors, then of the row's group
// store: each value again, from where it was kept
//
// Between load and store a row is kept packed, as it came: two bf16 values a
// register. forgetUnpacked() makes the compiler convert a second time rather
// than keep the fp32 values, which would cost the occupancy that hides the
// reduction. The operands that all rows share (weight, bias) come from L1 or
// L2; few vectors a thread leave the registers to load them one ahead of their
// use.
//
// No block loops over rows, whether it has one, several or a part of one: the
// scheduler starts blocks in order and evens out SMs of unequal speed, so that
// reads and writes sweep through memory together. A resident grid that strides
// over the rows reached 0.91 of this on an H200 (copy of 256 MB: 72.4 against
// 65.7 us).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Dependent.cuh"
#include "rows/ResidentRowsConfig.h"
#include "rows/RowEnds.cuh"
#include "rows/RowExchange.cuh"
#include "rows/RowGroup.cuh"
#include "rows/RowMath.cuh"

namespace kiln {

template <RowSignature kSignature, ResidentRowsConfig kConfig>
class ResidentRows {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");

  static constexpr int kVector = kConfig.vector, kVectors = kConfig.vectors;
  static constexpr int kShared = kConfig.sharedVectors, kRows = kConfig.rows;
  static constexpr int kThreads = kConfig.blockThreads;
  static constexpr int kInBytes = bytesOf(kSignature.in);
  static constexpr int kBytes = kVector * kInBytes;
  static constexpr CacheHint kHint =
      kConfig.streaming ? CacheHint::Streaming : CacheHint::Plain;
  using Math = RowMath<kSignature>;
  using Stats = typename Math::Stats;
  using Final = typename Math::Final;
  using Group = RowGroup<kThreads, kConfig.rowThreads, kRows, kConfig.cluster,
                         kConfig.exact != 0>;
  using Vectors = RowVectors<kSignature, kVector>;
  static constexpr RowStart kStart = kConfig.rowStart();
  /// Operands that all rows share lie otherwise than a row that may begin
  /// anywhere, and so may the other matrices.
  static constexpr bool kShifted = kStart != RowStart::Aligned;
  static constexpr bool kAny = kStart == RowStart::Any;
  static constexpr bool kSpread = kConfig.spread != 0;
  using Ends =
      typename RowEndsOf<kSignature, kStart, kVector, kConfig.rowThreads>::Type;
  /// Vectors of a thread; of as many at a time the shared operands are loaded,
  /// of few before the reduction.
  static constexpr int kHeld = kVectors + kShared;
  static constexpr int kAtOnce = kHeld < 2 ? 1 : 2;
  static constexpr bool kEarly = kHeld <= kAtOnce;

public:
  static void run(const RowParams &params) {
    Group::begin();
    ResidentRows block(params);
    Ends ends = block.ends();
    ends.load();
    block.load();
    if constexpr (kEarly)
      block.loadShared(0);
    Stats stats[kRows];
    block.reduce(stats);
    ends.addTo(stats[0]);
    block.template reduceRow<0>(stats);
    if constexpr (isReduction(kSignature.op))
      block.storeReduced(stats);
    else
      block.store(stats, ends);
  }

private:
  explicit ResidentRows(const RowParams &params) : params(params) {
    constexpr int kCluster = kConfig.cluster;
    int lane = threadIdx.x % kConfig.rowThreads;
    int group = threadIdx.x / kConfig.rowThreads;
    int blocks = kSpread ? params.ranges : kCluster;
    row = static_cast<long long>(blockIdx.x / blocks) * kConfig.blockRows() +
          group;
    body = bodyOf<kSignature, kStart, kVector>(params, row);
    int vectorsOfRow = static_cast<int>(body.vectors);
    int rank = this->rank();
    // Blocks of a row share it evenly, whatever they could hold.
    int perBlock = (vectorsOfRow + blocks - 1) / blocks;
    end = min(vectorsOfRow, (rank + 1) * perBlock);
    first = rank * perBlock + lane;
  }

  /// Of this block among those of its row.
  int rank() const {
    if constexpr (kConfig.cluster > 1)
      return static_cast<int>(ptx::clusterCtaRank());
    else if constexpr (kSpread)
      return static_cast<int>(blockIdx.x) % params.ranges;
    else
      return 0;
  }

  /// Those of this thread's row that are its; of several blocks the first's.
  Ends ends() const {
    bool takes = hasRow(0) && rank() == 0;
    return Ends(params, body, row, threadIdx.x % kConfig.rowThreads, takes);
  }

  /// Row of this thread's \p r-th row, and whether there is one.
  long long rowAt(int r) const { return row + r * kConfig.groups(); }
  bool hasRow(int r) const {
    return kConfig.blockRows() == 1 || rowAt(r) < params.rows;
  }
  /// Vector of the row that is this thread's \p i-th, and whether there is one.
  int vectorAt(int i) const { return first + i * kConfig.rowThreads; }
  bool isInside(int r, int i) const {
    return hasRow(r) && (kConfig.exact || vectorAt(i) < end);
  }
  long long columnAt(int i) const {
    return static_cast<long long>(vectorAt(i)) * kVector + body.head;
  }

  const char *inputAt(const void *base, long long ld, int r, int i) const {
    return static_cast<const char *>(base) +
           (rowAt(r) * ld + columnAt(i)) * kInBytes;
  }

  /// Shared memory of this thread's \p i-th vector beyond the registers.
  unsigned sharedAt(int i) const {
    extern __shared__ __align__(16) unsigned char storage[];
    return ptx::sharedAddress(storage) +
           ((i - kVectors) * kThreads + threadIdx.x) * kBytes;
  }

  void load() {
    if constexpr (kAny)
      return loadAny();
    if constexpr (kShared > 0) {
#pragma unroll
      for (int i = kVectors; i < kVectors + kShared; ++i)
        if (isInside(0, i))
          ptx::cpAsync<kBytes>(sharedAt(i), inputAt(params.x, params.ldx, 0, i),
                               kBytes);
      ptx::cpAsyncCommit();
    }
    Words<kBytes> residual[kSignature.residual ? kRows : 1][kVectors];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        if (!isInside(r, i))
          continue;
        x[r][i] =
            loadVector<kBytes, kHint>(inputAt(params.x, params.ldx, r, i));
        if constexpr (kSignature.residual)
          residual[r][i] = loadVector<kBytes, kHint>(
              inputAt(params.residual, params.ldResidual, r, i));
        if constexpr (Math::kMaskMatrix)
          mask[r][i] = loadVector<kBytes, kHint>(
              inputAt(params.mask, params.ldMask, r, i));
      }
    if constexpr (kSignature.residual)
      addResidual(residual);
  }

  /// The same where each matrix lies elsewhere: what covers the vectors, then
  /// the vectors.
  void loadAny() {
    constexpr bool kResidual = kSignature.residual;
    // By L1: a lane's neighbours ask for half of the same.
    using Covering = CoveringVectors<kBytes, kInBytes>;
    Covering ofX[kVectors], ofResidual[kResidual ? kVectors : 1],
        ofMask[Math::kMaskMatrix ? kVectors : 1];
    using Row = MatrixRow<kSignature, kVector>;
    const Row rowOfX(params.x, params.ldx, body, row),
        rowOfResidual(params.residual, params.ldResidual, body, row),
        rowOfMask(params.mask, params.ldMask, body, row);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if (!isInside(0, i))
        continue;
      rowOfX.load(ofX[i], columnAt(i));
      if constexpr (kResidual)
        rowOfResidual.load(ofResidual[i], columnAt(i));
      if constexpr (Math::kMaskMatrix)
        rowOfMask.load(ofMask[i], columnAt(i));
    }
    Words<kBytes> residual[kResidual ? kRows : 1][kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      x[0][i] = rowOfX.get(ofX[i]);
      if constexpr (kResidual)
        residual[0][i] = rowOfResidual.get(ofResidual[i]);
      if constexpr (Math::kMaskMatrix)
        mask[0][i] = rowOfMask.get(ofMask[i]);
    }
    if constexpr (kResidual)
      addResidual(residual);
  }

  /// x becomes x + residual as it is stored.
  void addResidual(const Words<kBytes> (&residual)[kRows][kVectors]) {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        if (!isInside(r, i))
          continue;
        float sum[kVector], added[kVector];
        unpackFloats<kSignature.in>(sum, x[r][i]);
        unpackFloats<kSignature.in>(added, residual[r][i]);
#pragma unroll
        for (int e = 0; e < kVector; ++e)
          sum[e] += added[e];
        x[r][i] = packFloats<kSignature.in>(sum);
        char *sumAt =
            static_cast<char *>(params.residualOut) +
            (rowAt(r) * params.ldResidualOut + columnAt(i)) * kInBytes;
        if constexpr (kAny)
          storeShifted<kBytes, kInBytes, kHint>(sumAt, x[r][i]);
        else
          storeVector<kBytes, kHint>(sumAt, x[r][i]);
      }
  }

  /// Merges the statistics of all threads of each row.
  template <int kStage, class Any> void reduceRow(Any (&stats)[kRows]) const {
    Group::template reduce<kStage>(stats);
    if constexpr (kSpread)
      RowExchange<kThreads>(params, row, rank()).template merge<kStage>(stats);
  }

  /// The \p i-th vector of row \p r, prepared.
  void values(float (&out)[kVector], int r, int i,
              const typename Vectors::Values &shared) {
    unpackFloats<kSignature.in>(out, i < kVectors ? x[r][i < kVectors ? i : 0]
                                                  : fromShared(i));
    if constexpr (Math::kMaskMatrix) {
      float masked[kVector];
      unpackFloats<kSignature.in>(masked, mask[r][i]);
      Math::prepare(out, masked, params);
    } else
      Math::prepare(out, shared.mask, params);
  }

  /// By one access: of several, each would meet four lanes in a bank.
  Words<kBytes> fromShared(int i) const {
    if constexpr (kBytes == 16) {
      uint4 words = ptx::ldShared128(sharedAt(i));
      return {words.x, words.y, words.z, words.w};
    } else {
      Words<kBytes> words;
#pragma unroll
      for (int w = 0; w < kBytes / 4; ++w)
        words.word[w] = ptx::ldShared32(sharedAt(i) + 4 * w);
      return words;
    }
  }

  void reduce(Stats (&stats)[kRows]) {
    typename Math::Collector collectors[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      collectors[r] = Math::Collector::empty();
#pragma unroll
    for (int i = 0; i < kVectors + kShared; ++i) {
      if (kShared > 0 && i == kVectors)
        ptx::cpAsyncWait<0>();
      typename Vectors::Values shared;
      if constexpr (Vectors::kMaskRow || Math::kScalesAtOnce)
        if (isInside(0, i))
          shared =
              Vectors::template load<kShifted>(params, columnAt(i)).unpack();
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (!isInside(r, i))
          continue;
        float value[kVector];
        values(value, r, i, shared);
        Math::collect(collectors[r], value, shared.weight);
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      stats[r] = collectors[r].template stats<kVector>();
    forget();
  }

  void forget() {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        forgetUnpacked(x[r][i]);
        if constexpr (Math::kMaskMatrix)
          forgetUnpacked(mask[r][i]);
      }
  }

  /// Calls \p visit with (r, i, results) for each vector of the rows.
  template <class Visit>
  void forEachResult(const Final (&final)[kRows], Visit &&visit) {
#pragma unroll
    for (int first = 0; first < kHeld; first += kAtOnce) {
      if constexpr (!kEarly)
        loadShared(first);
#pragma unroll
      for (int i = first; i < first + kAtOnce && i < kHeld; ++i) {
        typename Vectors::Values of = operands[i - first].unpack();
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          if (!isInside(r, i))
            continue;
          float value[kVector];
          values(value, r, i, of);
          Math::apply(value, final[r], of.weight, of.bias);
          visit(r, i, value);
        }
      }
    }
  }

  /// The shared operands of vectors \p first and following.
  void loadShared(int first) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      if (first + i < kHeld && isInside(0, first + i))
        operands[i] =
            Vectors::template load<kShifted>(params, columnAt(first + i));
  }

  void store(const Stats (&stats)[kRows], Ends &ends) {
    Final final[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      final[r] = Math::finish(stats[r], params);
    float inverse[kRows];
    if constexpr (kSignature.quantizes()) {
      float greatest[kRows];
      findGreatest(stats, final, ends, greatest);
      storeScales(greatest, inverse);
    }
    // One factor less for each value, where nothing is added to it.
    constexpr bool kFold = Math::kScalesAtOnce;
    if constexpr (kFold)
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        final[r].factor *= inverse[r];
    ends.store(final[0], kFold ? 1.0f : inverse[0]);
    forEachResult(final, [&](int r, int i, float(&value)[kVector]) {
      if constexpr (kSignature.quantizes() && !kFold)
#pragma unroll
        for (float &element : value)
          element *= inverse[r];
      storeVector<kVector * bytesOf(kSignature.out), kHint>(
          static_cast<char *>(params.y) +
              (rowAt(r) * params.ldy + columnAt(i)) * bytesOf(kSignature.out),
          packFloats<kSignature.out>(value));
    });
  }

  /// The greatest magnitude of each row's results.
  void findGreatest(const Stats (&stats)[kRows], const Final (&final)[kRows],
                    Ends &ends, float (&greatest)[kRows]) {
    if constexpr (kSignature.op == RowOp::Quantize) {
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        greatest[r] = stats[r].max;
    } else if constexpr (Math::kScalesAtOnce) {
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        greatest[r] = stats[r].weighted.max * final[r].factor;
    } else {
      MagnitudeStats magnitudes[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        magnitudes[r] = MagnitudeStats::empty();
      forEachResult(final, [&](int r, int, float(&value)[kVector]) {
        magnitudes[r].add(value);
      });
      ends.forEachResult(final[0], [&](long long, float(&value)[1]) {
        magnitudes[0].add(value);
      });
      reduceRow<1>(magnitudes);
      forget();
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        greatest[r] = magnitudes[r].max;
    }
  }

  /// Stores the scale of each row and gives what its values are multiplied by.
  void storeScales(const float (&greatest)[kRows], float (&inverse)[kRows]) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float scale = Math::scaleOf(greatest[r]);
      inverse[r] = 1.0f / scale;
      if (isWriter() && hasRow(r))
        params.scales[rowAt(r)] = scale;
    }
  }

  /// One thread of each row's group.
  bool isWriter() const {
    return rank() == 0 && threadIdx.x % kConfig.rowThreads == 0;
  }

  void storeReduced(const Stats (&stats)[kRows]) const {
    using Out = Storage<kSignature.out>;
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      if (isWriter() && hasRow(r))
        static_cast<Out *>(params.y)[rowAt(r)] = fromFloat<kSignature.out>(
            Math::reduced(stats[r], static_cast<double>(params.cols)));
  }

  const RowParams &params;
  long long row;
  RowBody<kVector> body;
  int first, end; ///< vectors of the row
  Vectors operands[kAtOnce];
  Words<kBytes> x[kRows][kVectors];
  Words<kBytes> mask[Math::kMaskMatrix ? kRows : 1][kVectors];
};

template <RowSignature kSignature, ResidentRowsConfig kConfig>
void residentRows(const RowParams &params) {
  allowSuccessor();
  awaitPredecessor();
  ResidentRows<kSignature, kConfig>::run(params);
}

} // namespace kiln
