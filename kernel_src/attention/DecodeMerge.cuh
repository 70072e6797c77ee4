//===- attention/DecodeMerge.cuh - from the sums of warps to O ------------===//
//
// The rings of a block leave their sums in shared memory and merge them, four
// columns a thread. The result is a row of O where the block had all keys of
// its sequence. Otherwise it is a partial result for the combine kernel or, in
// a cluster, for the cluster's blocks, each of which merges some columns.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/DecodeRows.cuh"
#include "attention/DecodeSplits.h"

namespace kiln {

/// Four columns of the sums of one row, its greatest score (an exponent of 2)
/// and its total.
struct DecodeSum {
  float greatest, total;
  float4 sums;

  /// Whether the row has seen a key. A maximum drops NaN, and an ordered
  /// comparison fails for it, so the test is whether the total is exactly 0.
  bool hasKeys() const { return total != 0; }

  /// The greatest score as an origin. Rows without keys have minus infinity, of
  /// which no difference may be taken.
  static float originOf(float greatest) {
    return greatest == -__uint_as_float(0x7f800000u) ? 0 : greatest;
  }
  void add(const float4 &other, float factor) {
    sums.x += other.x * factor;
    sums.y += other.y * factor;
    sums.z += other.z * factor;
    sums.w += other.w * factor;
  }
};

/// Natural logarithm of 2^exponent * total.
inline float naturalLog(float exponent, float total) {
  constexpr float kLn2 = 0.6931471805599453f;
  return (exponent + __log2f(total)) * kLn2;
}

/// Writes four columns of a row of O, as far as they exist. The writer of the
/// first columns also writes the LSE.
template <AttentionSignature kSignature>
void writeAttentionRow(const AttentionParams &params, int sequence,
                       AttentionTokens queries, int head, int query, int column,
                       DecodeSum sum, float valueScale) {
  float factor = 0, lse = -__uint_as_float(0x7f800000u);
  if (sum.hasKeys()) {
    float origin = sum.greatest, total = sum.total, share = 1;
    if constexpr (kSignature.sinks) {
      float sink = params.sinks[head] * 1.4426950408889634f;
      origin = fmaxf(sum.greatest, sink);
      share = ptx::ex2ApproxFtz(sum.greatest - origin);
      total = sum.total * share + ptx::ex2ApproxFtz(sink - origin);
    }
    factor = valueScale * share / total;
    lse = naturalLog(origin, total);
  }
  const float o[4] = {sum.sums.x * factor, sum.sums.y * factor,
                      sum.sums.z * factor, sum.sums.w * factor};
  char *row = static_cast<char *>(params.o) +
              (queryOffset<kSignature>(params.oStrides, sequence, queries, head,
                                       query) +
               column) *
                  bytesOf(kSignature.out);
  if constexpr (kSignature.align >= 4 * bytesOf(kSignature.out))
    storeFloats<kSignature.out, 4>(row, o);
  else {
    const float low[2] = {o[0], o[1]}, high[2] = {o[2], o[3]};
    storeFloats<kSignature.out, 2>(row, low);
    if (kSignature.valueDim % 4 == 0 || column + 2 < kSignature.valueDim)
      storeFloats<kSignature.out, 2>(row + 2 * bytesOf(kSignature.out), high);
  }
  if constexpr (kSignature.lse)
    if (column == 0)
      params
          .lse[lseOffset<kSignature>(params, sequence, queries, head, query)] =
          lse;
}

template <AttentionSignature kSignature, DecodeAttentionConfig kConfig>
class DecodeMerge {
  static constexpr int kPitch = DecodeAttentionConfig::sumPitch(kSignature);
  static constexpr int kRows = kConfig.rows;
  static constexpr int kColumns = (kSignature.valueDim + 3) / 4; ///< in fours
  using Rows = DecodeRows<kSignature, kConfig>;

public:
  DecodeMerge(const AttentionParams &params, const DecodeBlockRows &rows,
              float *shared)
      : params(params), rows(rows), shared(shared) {
    if constexpr (kSignature.scales)
      valueScale = scaleOf(params, params.vScale, rows.sequence, rows.kvHead);
    if constexpr (bytesOf(kSignature.kv) == 1)
      valueScale *= detail::e4m3Unit();
  }

  /// Leaves the sums of a warp of ring \p ring in shared memory.
  void leave(int ring, const Rows &sums) {
    float *own = shared + ring * kConfig.sumFloats(kSignature);
    sums.forEachSum([&](int row, int column, auto values) {
      *reinterpret_cast<decltype(values) *>(own + row * kPitch + column) =
          values;
    });
    float unit = sums.scoreUnit();
    sums.forEachRow([&](int row, float greatest, float total) {
      if (threadIdx.x % 4 == 0) {
        own[kRows * kPitch + row] = greatest * unit;
        own[kRows * (kPitch + 1) + row] = total;
      }
    });
  }

  /// Merges the rings and writes rows of O.
  void writeRows() {
    forEachPart(threadIdx.x, kConfig.threads(), [&](int row, int column) {
      write(row, column, mergeRings(row, column));
    });
  }

  /// Merges the rings and writes partial results of \p split.
  void writePartials(int split) {
    forEachPart(threadIdx.x, kConfig.threads(), [&](int row, int column) {
      DecodeSum sum = mergeRings(row, column);
      long long at = split * partialRows<kSignature>(params) +
                     partialRow<kSignature>(params, rows.sequence, rows.queries,
                                            rows.headOf(rows.begin + row),
                                            rows.queryOf(rows.begin + row));
      float factor = sum.hasKeys() ? valueScale / sum.total : 0;
      *reinterpret_cast<float4 *>(
          params.partialO + at * partialPitch(kSignature.valueDim) +
          column) = {sum.sums.x * factor, sum.sums.y * factor,
                     sum.sums.z * factor, sum.sums.w * factor};
      if (column == 0)
        params.partialLse[at] = sum.hasKeys()
                                    ? naturalLog(sum.greatest, sum.total)
                                    : -Rows::infinity();
    });
  }

  /// Merges the rings, then the \p blocks blocks of the cluster.
  void writeCluster(int blocks) {
    float *own = shared + kConfig.rings() * kConfig.sumFloats(kSignature);
    forEachPart(threadIdx.x, kConfig.threads(), [&](int row, int column) {
      DecodeSum sum = mergeRings(row, column);
      *reinterpret_cast<float4 *>(own + row * kPitch + column) = sum.sums;
      if (column == 0) {
        own[kRows * kPitch + row] = sum.greatest;
        own[kRows * (kPitch + 1) + row] = sum.total;
      }
    });
    __syncwarp(); // the barrier needs converged warps
    ptx::barrierClusterArriveRelease();
    ptx::barrierClusterWait();
    int rank = static_cast<int>(ptx::clusterCtaRank());
    unsigned address = ptx::sharedAddress(own);
    // Neighbouring parts go to different blocks, so that few parts keep all
    // blocks busy.
    forEachPart(threadIdx.x * blocks + rank, kConfig.threads() * blocks,
                [&](int row, int column) {
                  write(row, column, mergeBlocks(address, blocks, row, column));
                });
    // No block may end while another reads its sums.
    __syncwarp();
    ptx::barrierClusterArriveRelaxed();
    ptx::barrierClusterWait();
  }

private:
  template <class F> void forEachPart(int first, int step, F &&visit) {
    for (int part = first; part < (rows.end - rows.begin) * kColumns;
         part += step)
      visit(part / kColumns, part % kColumns * 4);
  }

  DecodeSum mergeRings(int row, int column) {
    DecodeSum all = {-Rows::infinity(), 0, {0, 0, 0, 0}};
    const float *greatest = shared + kRows * kPitch + row;
#pragma unroll
    for (int ring = 0; ring < kConfig.rings(); ++ring)
      all.greatest =
          fmaxf(all.greatest, greatest[ring * kConfig.sumFloats(kSignature)]);
    float origin = DecodeSum::originOf(all.greatest);
#pragma unroll
    for (int ring = 0; ring < kConfig.rings(); ++ring) {
      const float *own = shared + ring * kConfig.sumFloats(kSignature);
      float factor = ptx::ex2ApproxFtz(own[kRows * kPitch + row] - origin);
      all.total += own[kRows * (kPitch + 1) + row] * factor;
      all.add(*reinterpret_cast<const float4 *>(own + row * kPitch + column),
              factor);
    }
    return all;
  }

  DecodeSum mergeBlocks(unsigned address, int blocks, int row, int column) {
    constexpr int kMost = DecodeAttentionConfig::kMaxCluster;
    float greatest[kMost], total[kMost];
    float4 sums[kMost];
    DecodeSum all = {-Rows::infinity(), 0, {0, 0, 0, 0}};
#pragma unroll
    for (int block = 0; block < kMost; ++block)
      if (block < blocks) {
        unsigned from = ptx::mapaSharedCluster(address, block);
        greatest[block] =
            ptx::ldSharedClusterF32(from + (kRows * kPitch + row) * 4);
        total[block] =
            ptx::ldSharedClusterF32(from + (kRows * (kPitch + 1) + row) * 4);
        sums[block] =
            ptx::ldSharedClusterF32x4(from + (row * kPitch + column) * 4);
      }
#pragma unroll
    for (int block = 0; block < kMost; ++block)
      if (block < blocks)
        all.greatest = fmaxf(all.greatest, greatest[block]);
    float origin = DecodeSum::originOf(all.greatest);
#pragma unroll
    for (int block = 0; block < kMost; ++block)
      if (block < blocks) {
        float factor = ptx::ex2ApproxFtz(greatest[block] - origin);
        all.total += total[block] * factor;
        all.add(sums[block], factor);
      }
    return all;
  }

  void write(int row, int column, const DecodeSum &sum) {
    row += rows.begin;
    writeAttentionRow<kSignature>(params, rows.sequence, rows.queries,
                                  rows.headOf(row), rows.queryOf(row), column,
                                  sum, valueScale);
  }

  const AttentionParams &params;
  const DecodeBlockRows &rows;
  float *shared;
  float valueScale = 1;
};

} // namespace kiln
