//===- rows/ResidentRows.cuh - rows that stay on the chip -----------------===//
//
// load: every vector of a thread's rows is in flight before the first is used;
//       the bytes in flight determine the speed (Little's law)
// reduce: statistics of the thread's own vectors, then of the row's group
// store: each value again, from where it was kept
//
// Between load and store a row is kept packed, in the form in which it was
// loaded: two bf16 values a register. forgetUnpacked() makes the compiler
// convert a second time rather than keep the fp32 values, which would cost the
// occupancy that hides the reduction. Exception: intermediate values that the
// statistics need, the exponentials of softmax, the weighted values of a norm
// with quantised results or those behind a chain, may replace the row: then
// only a scaling remains. The operands that all rows share (weight, bias) come
// from L1 or L2; with few vectors a thread there are registers to load them one
// ahead of their use.
//
// No block loops over rows, whether it has one row, several, or a part of one:
// the scheduler starts blocks in order and evens out SMs of unequal speed, so
// that reads and writes sweep through memory together. A resident grid that
// strides over the rows reached 0.91 of this on an H200 (copy of 256 MB: 72.4
// against 65.7 us).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Dependent.cuh"
#include "rows/ResidentRowsConfig.h"
#include "rows/RowExchange.cuh"
#include "rows/RowGroup.cuh"
#include "rows/ThreadRows.cuh"

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
                         kConfig.exact == 1>;
  using Vectors = RowVectors<kSignature, kVector>;
  using Mine = ThreadRows<kSignature, kConfig>;
  using Operands = typename Mine::Operands;
  static constexpr RowStart kStart = kConfig.rowStart();
  /// Operands that all rows share have another alignment than a row that may
  /// begin anywhere, and so may the other matrices.
  static constexpr bool kShifted = kStart != RowStart::Aligned;
  static constexpr bool kAny = kStart == RowStart::Any;
  static constexpr bool kSpread = kConfig.spread != 0;
  /// Lanes that share the ends of one of a thread's rows.
  static constexpr int kEndLanes = kConfig.rowThreads / kRows;
  using Ends = typename RowEndsOf<kSignature, kStart, kVector, kEndLanes>::Type;
  /// kHeld: vectors of a row that a thread holds. kAtOnce: vectors whose shared
  /// operands are loaded at once; kEarly: these are all, so they are loaded
  /// before the reduction.
  static constexpr int kHeld = kVectors + kShared;
  static constexpr int kAtOnce = kHeld < 2 ? 1 : 2;
  static constexpr bool kEarly = kHeld <= kAtOnce;
  static constexpr bool kUnpacked = kConfig.unpacked != 0;

public:
  static void run(const RowParams &params) {
    ResidentRows block(params);
    if (block.mine.isIdle()) // and then all blocks of its cluster are
      return;
    Group::begin();
    Ends ends = block.ends();
    block.load(ends);
    if constexpr (kEarly)
      block.loadShared(Operands(block.mine), 0);
    Stats stats[kRows];
    if constexpr (kSignature.hasStatistics()) {
      block.reduce(stats);
      block.addEnds(ends, stats);
      block.template reduceRow<0>(stats);
    }
    if constexpr (isReduction(kSignature.op))
      block.storeReduced(stats);
    else
      block.store(stats, ends);
  }

private:
  explicit ResidentRows(const RowParams &params)
      : params(params), mine(params), factor(Math::factorOf(params)) {
    if constexpr (kShared > 0) {
      extern __shared__ __align__(16) unsigned char storage[];
      sharedFirst = ptx::sharedAddress(storage) + threadIdx.x * kBytes;
      ptx::opaque(sharedFirst); // keeps the compiler from computing it for each
                                // vector
    }
  }

  /// This lane's ends of the row that endsRow() names; among several blocks of
  /// a row only the first one has ends.
  Ends ends() const {
    int r = endsRow();
    bool takes = r < kRows && mine.hasRow(r) && mine.rank() == 0;
    return Ends(params, mine.parts(), mine.rowAt(r), threadIdx.x % kEndLanes,
                takes);
  }
  /// Index of the row whose ends belong to this lane.
  int endsRow() const {
    return kRows == 1 ? 0 : threadIdx.x % kConfig.rowThreads / kEndLanes;
  }
  void addEnds(Ends &ends, Stats (&stats)[kRows]) const {
    if constexpr (kRows == 1)
      ends.addTo(stats[0]);
    else if constexpr (kShifted) {
      Stats ofEnds = Stats::empty();
      ends.addTo(ofEnds);
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        if (r == endsRow())
          stats[r].merge(ofEnds);
    }
  }
  /// The value in \p each for the row whose ends belong to this lane.
  template <class Any> Any ofEndsRow(const Any (&each)[kRows]) const {
    Any chosen = each[0];
#pragma unroll
    for (int r = 1; r < kRows; ++r)
      if (r == endsRow())
        chosen = each[r];
    return chosen;
  }

  /// Address in shared memory of this thread's \p i-th vector of row \p r,
  /// which exceeds the registers.
  unsigned sharedAt(int r, int i) const {
    return sharedFirst + (r * kShared + i - kVectors) * (kThreads * kBytes);
  }

  /// Loads the rows, and \p ends while the rows are in flight.
  void load(Ends &ends) {
    if constexpr (kAny)
      return loadAny(ends);
    const auto xRows = mine.input(params.x, params.ldx);
    if constexpr (kShared > 0) {
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int i = kVectors; i < kVectors + kShared; ++i)
          if (mine.isInside(i))
            ptx::cpAsync<kBytes>(sharedAt(r, i), xRows.at(r, i), kBytes);
      ptx::cpAsyncCommit();
    }
    Words<kBytes> residual[kSignature.residual ? kRows : 1][kVectors];
    const auto residualRows = mine.input(params.residual, params.ldResidual);
    typename Mine::Input matrixRows[Math::kMatrixRoom];
#pragma unroll
    for (int m = 0; m < Math::kMatrices; ++m) {
      const auto from = Math::matrixOf(params, m);
      matrixRows[m] = mine.input(from.base, from.ld);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        if (!mine.isInside(i))
          continue;
        x[r][i] = loadVector<kBytes, kHint>(xRows.at(r, i));
        if constexpr (kSignature.residual)
          residual[r][i] = loadVector<kBytes, kHint>(residualRows.at(r, i));
#pragma unroll
        for (int m = 0; m < Math::kMatrices; ++m)
          matrix[m][r][i] = loadVector<kBytes, kHint>(matrixRows[m].at(r, i));
      }
    ends.load();
    if constexpr (kSignature.residual)
      addResidual(residual);
  }

  /// load() where each matrix has another alignment: loads the covering
  /// vectors, then makes the vectors of them.
  void loadAny(Ends &ends) {
    constexpr bool kResidual = kSignature.residual;
    // The loads go through L1, since neighbouring lanes share half of their
    // bytes.
    using Covering = CoveringVectors<kBytes, kInBytes>;
    Covering ofX[kVectors], ofResidual[kResidual ? kVectors : 1],
        ofMatrix[Math::kMatrixRoom][Math::kMatrices > 0 ? kVectors : 1];
    using Row = MatrixRow<kSignature, kVector>;
    auto rowOf = [&](const void *base, long long ld) {
      return Row(base, ld, mine.parts(), mine.firstRow());
    };
    const Row rowOfX = rowOf(params.x, params.ldx),
              rowOfResidual = rowOf(params.residual, params.ldResidual);
    Row rowsOfMatrix[Math::kMatrixRoom];
#pragma unroll
    for (int m = 0; m < Math::kMatrices; ++m) {
      const auto from = Math::matrixOf(params, m);
      rowsOfMatrix[m] = rowOf(from.base, from.ld);
    }
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if (!mine.isInside(i))
        continue;
      rowOfX.load(ofX[i], mine.columnAt(i));
      if constexpr (kResidual)
        rowOfResidual.load(ofResidual[i], mine.columnAt(i));
#pragma unroll
      for (int m = 0; m < Math::kMatrices; ++m)
        rowsOfMatrix[m].load(ofMatrix[m][i], mine.columnAt(i));
    }
    ends.load();
    Words<kBytes> residual[kResidual ? kRows : 1][kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      x[0][i] = rowOfX.get(ofX[i]);
      if constexpr (kResidual)
        residual[0][i] = rowOfResidual.get(ofResidual[i]);
#pragma unroll
      for (int m = 0; m < Math::kMatrices; ++m)
        matrix[m][0][i] = rowsOfMatrix[m].get(ofMatrix[m][i]);
    }
    if constexpr (kResidual)
      addResidual(residual);
  }

  /// x becomes x + residual as it is stored.
  void addResidual(const Words<kBytes> (&residual)[kRows][kVectors]) {
    const auto sums = mine.template output<kSignature.in>(params.residualOut,
                                                          params.ldResidualOut);
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        if (!mine.isInside(i))
          continue;
        float sum[kVector], added[kVector];
        unpackFloats<kSignature.in>(sum, x[r][i]);
        unpackFloats<kSignature.in>(added, residual[r][i]);
#pragma unroll
        for (int e = 0; e < kVector; ++e)
          sum[e] += added[e];
        x[r][i] = packFloats<kSignature.in>(sum);
        if constexpr (kAny)
          storeShifted<kBytes, kInBytes, kHint>(sums.at(r, i), x[r][i]);
        else
          storeVector<kBytes, kHint>(sums.at(r, i), x[r][i]);
      }
  }

  /// Merges the statistics of all threads of each row.
  template <int kStage, class Any> void reduceRow(Any (&stats)[kRows]) const {
    Group::template reduce<kStage>(stats);
    // Ends only belong to rows that exist.
#pragma unroll
    for (int r = 1; r < kRows; ++r)
      if (!mine.hasRow(r))
        stats[r] = stats[0];
    if constexpr (kSpread)
      RowExchange<kThreads>(params, mine.firstRow(), mine.rank())
          .template merge<kStage>(stats);
  }

  /// The prepared values of the \p i-th vector of row \p r.
  void values(float (&out)[kVector], int r, int i,
              const typename Vectors::Values &shared) {
    Words<kBytes> words = x[r][i < kVectors ? i : 0];
    if constexpr (kShared > 0)
      if (i >= kVectors)
        words = loadSharedVector<kBytes>(sharedAt(r, i));
    unpackFloats<kSignature.in>(out, words);
    float beside[Math::kMatrixRoom][kVector];
#pragma unroll
    for (int m = 0; m < Math::kMatrices; ++m)
      unpackFloats<kSignature.in>(beside[m], matrix[m][r][i]);
    Math::prepare(out, beside, shared, factor);
  }

  void reduce(Stats (&stats)[kRows]) {
    if constexpr (kUnpacked && kSignature.op == RowOp::Softmax)
      return exponentiate(stats);
    const Operands of(mine);
    typename Math::Collector collectors[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      collectors[r] = Math::Collector::empty();
#pragma unroll
    for (int i = 0; i < kVectors + kShared; ++i) {
      if (kShared > 0 && i == kVectors)
        ptx::cpAsyncWait<0>();
      typename Vectors::Values shared;
      if constexpr (kSignature.preparesWithRow() || Math::kScalesAtOnce)
        if (mine.isInside(i))
          shared = (kEarly ? operands[i % kAtOnce] : of.load(i)).unpack();
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (!mine.isInside(i))
          continue;
        float passing[kVector];
        // The index stays inside of `made` where it keeps nothing.
        auto &value = kUnpacked ? made[r][kUnpacked ? i : 0] : passing;
        values(value, r, i, shared);
        Math::collect(collectors[r], i, value, shared.weight);
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      stats[r] = collectors[r].template stats<kVector>();
    if constexpr (!kUnpacked)
      forget();
  }

  /// Replaces the rows by exponentials relative to the greatest value of this
  /// thread, and computes their statistics.
  void exponentiate(Stats (&stats)[kRows]) {
    const Operands of(mine);
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      stats[r] = Stats::empty();
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if (!mine.isInside(i))
        continue;
      typename Vectors::Values shared;
      if constexpr (kSignature.preparesWithRow())
        shared = of.load(i).unpack();
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        values(made[r][i], r, i, shared);
#pragma unroll
        for (float value : made[r][i])
          stats[r].max = fmaxf(stats[r].max, value);
      }
    }
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      if (mine.isInside(i))
#pragma unroll
        for (int r = 0; r < kRows; ++r)
          stats[r].exponentiate(made[r][i]);
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      ownMax[r] = stats[r].max;
  }

  void forget() {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        forgetUnpacked(x[r][i]);
#pragma unroll
        for (int m = 0; m < Math::kMatrices; ++m)
          forgetUnpacked(matrix[m][r][i]);
      }
  }

  /// Calls \p visit with (r, i, results) for each vector of the rows. Where
  /// lanes share blocks, all of them visit as often: also with vectors that do
  /// not exist.
  template <class Visit>
  void forEachResult(const Final (&final)[kRows], Visit &&visit) {
    if constexpr (kUnpacked)
      return forEachScaled(final, visit);
    const Operands of(mine);
#pragma unroll
    for (int first = 0; first < kHeld; first += kAtOnce) {
      if constexpr (!kEarly)
        loadShared(of, first);
#pragma unroll
      for (int i = first; i < first + kAtOnce && i < kHeld; ++i) {
        typename Vectors::Values shared = operands[i - first].unpack();
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          if (!kSignature.hasBlocks() && !mine.isInside(i))
            continue;
          float value[kVector] = {};
          if (mine.isInside(i)) {
            values(value, r, i, shared);
            Math::apply(value, final[r], shared.weight, shared.bias);
          }
          visit(r, i, value);
        }
      }
    }
  }

  /// As above where the rows only have to be scaled.
  template <class Visit>
  void forEachScaled(const Final (&final)[kRows], Visit &&visit) {
    float scaling[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      scaling[r] = final[r].factor *
                   (kSignature.op == RowOp::Softmax
                        ? detail::expOfDifference(ownMax[r], final[r].shift)
                        : 1.0f);
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      if (mine.isInside(i))
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
#pragma unroll
          for (float &value : made[r][i])
            value *= scaling[r];
          visit(r, i, made[r][i]);
        }
  }

  /// The shared operands of \p first and the vectors that follow.
  void loadShared(const Operands &of, int first) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      if (first + i < kHeld && mine.isInside(first + i))
        operands[i] = of.load(first + i);
  }

  void store(const Stats (&stats)[kRows], Ends &ends) {
    Final final[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      final[r] = Math::finish(stats[r], params);
    if constexpr (kSignature.hasBlocks())
      return storeBlocks(final);
    float inverse[kRows];
    if constexpr (kSignature.quantizes()) {
      float greatest[kRows];
      findGreatest(stats, final, ends, greatest);
      storeScales(greatest, inverse);
    }
    // Without a bias, the inverse of the scale is merged into the factor.
    constexpr bool kFold = Math::kScalesAtOnce;
    if constexpr (kFold)
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        final[r].factor *= inverse[r];
    ends.store(ofEndsRow(final), kFold ? 1.0f : ofEndsRow(inverse));
    const auto results =
        mine.template output<kSignature.out>(params.y, params.ldy);
    forEachResult(final, [&](int r, int i, float(&value)[kVector]) {
      if constexpr (kSignature.quantizes() && !kFold)
#pragma unroll
        for (float &element : value)
          element *= inverse[r];
      storeVector<kVector * bytesOf(kSignature.out), kHint>(
          results.at(r, i), packFloats<kSignature.out>(value));
    });
  }

  /// Stores results whose blocks have scales of their own.
  void storeBlocks(const Final (&final)[kRows]) {
    ScaleBlocks<kSignature, kVector, kConfig.rowThreads, kHint> blocks[kRows];
    forEachResult(final, [&](int r, int i, float(&value)[kVector]) {
      blocks[r].add(params, mine.rowAt(r), i, mine.columnAt(i),
                    mine.isInside(i), value);
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
      ends.forEachResult(ofEndsRow(final), [&](long long, float(&value)[1]) {
#pragma unroll
        for (int r = 0; r < kRows; ++r)
          if (r == endsRow())
            magnitudes[r].add(value);
      });
      reduceRow<1>(magnitudes);
      forget();
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        greatest[r] = magnitudes[r].max;
    }
  }

  /// Stores the scale of each row and gives the factor for its values.
  void storeScales(const float (&greatest)[kRows], float (&inverse)[kRows]) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float scale = Math::scaleOf(greatest[r]);
      inverse[r] = 1.0f / scale;
      if (isWriter() && mine.hasRows())
        params.scales[mine.rowAt(r)] = scale;
    }
  }

  /// True for one thread of each row's group.
  bool isWriter() const {
    return mine.rank() == 0 && threadIdx.x % kConfig.rowThreads == 0;
  }

  void storeReduced(const Stats (&stats)[kRows]) const {
    using Out = Storage<kSignature.out>;
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      if (isWriter() && mine.hasRows())
        static_cast<Out *>(params.y)[mine.rowAt(r)] = fromFloat<kSignature.out>(
            Math::reduced(stats[r], static_cast<double>(params.cols)));
  }

  const RowParams &params;
  const Mine mine;
  const float factor;   ///< RowMath::factorOf()
  unsigned sharedFirst; ///< where this thread's vectors in shared memory begin
  Vectors operands[kAtOnce];
  Words<kBytes> x[kRows][kVectors];
  Words<kBytes> matrix[Math::kMatrixRoom][Math::kMatrices > 0 ? kRows : 1]
                      [kVectors];
  /// Replaces x if unpacked: exponentials relative to the greatest value of
  /// this thread, weighted values, or those behind a chain.
  float made[kRows][kUnpacked ? kVectors : 1][kVector];
  float ownMax[kRows];
};

template <RowSignature kSignature, ResidentRowsConfig kConfig>
void residentRows(const RowParams &params) {
  allowSuccessor();
  awaitPredecessor();
  ResidentRows<kSignature, kConfig>::run(params);
}

} // namespace kiln
