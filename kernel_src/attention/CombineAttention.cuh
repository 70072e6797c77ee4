//===- attention/CombineAttention.cuh - merges splits of the keys ---------===//
//
// The second step of split-KV kernels: O = sum of w_s O_s / sum of w_s over the
// splits s, where w_s = e^(LSE_s - M) and M is the greatest LSE. A split
// without keys has the LSE -inf, and its O is not read. A split whose LSE is
// NaN makes the total NaN, and so the row, although a maximum drops NaN.
//
// A block has one row of O. Teams of lanes take the splits in turn, so that the
// loads of all of them are in flight together: one row of many splits is bound
// by latency.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/CombineAttentionConfig.h"
#include "attention/DecodeMerge.cuh"
#include "common/Dependent.cuh"

namespace kiln {

/// Grid: (queries, heads, sequences).
template <AttentionSignature kSignature, CombineAttentionConfig kConfig>
void combineAttention(const AttentionParams &params) {
  constexpr int kColumns = (kSignature.valueDim + 3) / 4; ///< in fours
  constexpr int kLanes = kColumns > 16 ? 32 : kColumns > 8 ? 16 : 8;
  constexpr int kTeams = kConfig.threads() / kLanes;
  constexpr int kParts = (kColumns + kLanes - 1) / kLanes;
  constexpr float kLog2E = 1.4426950408889634f;
  const float kNone = -__uint_as_float(0x7f800000u);
  __shared__ float4 shared[kTeams][kColumns];

  const int query = blockIdx.x, head = blockIdx.y, sequence = blockIdx.z;
  allowSuccessor();
  awaitPredecessor();
  AttentionTokens queries = queriesOf<kSignature>(params, sequence);
  if (query >= queries.count)
    return;
  int splits = params.splits;
  if constexpr (kConfig.decode) {
    int keys = keysOfSequence<kSignature>(params, sequence).count;
    AttentionReach reach = reachOf(kSignature.mask, params.left, params.right);
    splits = min(splits, splitsOf(keysOfQueries(reach, queries.count, keys),
                                  params.splitKeys));
    if (splits == 1)
      return;
  }

  // Each warp finds the greatest LSE and the total for itself.
  const long long first =
      partialRow<kSignature>(params, sequence, queries, head, query);
  const long long step = partialRows<kSignature>(params);
  const float *lse = params.partialLse + first;
  float greatest = kNone, total = 0;
  for (int s = threadIdx.x % 32; s < splits; s += 32)
    greatest = fmaxf(greatest, lse[s * step]);
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2)
    greatest = fmaxf(greatest, __shfl_xor_sync(0xffffffffu, greatest, lanes));
  const float origin = DecodeSum::originOf(greatest);
  for (int s = threadIdx.x % 32; s < splits; s += 32)
    total += ptx::ex2ApproxFtz((lse[s * step] - origin) * kLog2E);
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2)
    total += __shfl_xor_sync(0xffffffffu, total, lanes);

  // Each team sums its own splits.
  const int team = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  DecodeSum sums[kParts] = {};
  const float4 *partial =
      reinterpret_cast<const float4 *>(params.partialO) + first * kColumns;
#pragma unroll 4
  for (int s = team; s < splits; s += kTeams) {
    const float own = lse[s * step];
    float factor = ptx::ex2ApproxFtz((own - origin) * kLog2E);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      int column = part * kLanes + lane;
      if (column < kColumns) {
        float4 o = partial[s * step * kColumns + column];
        if (own != kNone)
          sums[part].add(o, factor);
      }
    }
  }
#pragma unroll
  for (int part = 0; part < kParts; ++part)
    if (part * kLanes + lane < kColumns)
      shared[team][part * kLanes + lane] = sums[part].sums;
  __syncthreads();

  // The sums of the teams are added.
  for (int column = threadIdx.x; column < kColumns;
       column += kConfig.threads()) {
    DecodeSum all = {origin * kLog2E, total, {0, 0, 0, 0}};
#pragma unroll
    for (int t = 0; t < kTeams; ++t)
      all.add(shared[t][column], 1);
    writeAttentionRow<kSignature>(params, sequence, queries, head, query,
                                  column * 4, all, 1);
  }
}

} // namespace kiln
