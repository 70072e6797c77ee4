//===- attention/DecodeAttention.cuh - few queries, long caches -----------===//
//
// Attention for so few rows of queries that one tile of rows covers them: K and
// V are read once, and the kernel is as fast as memory delivers them.
//
// A block has the query rows that share a head of K (the rows of a group are
// packed) and one split of the keys. Each of its warps moves tiles of keys
// through a ring of its own (DecodeKeys.cuh), multiplies them by mma.sync and
// keeps its own running softmax (DecodeRows.cuh). Warps meet only at the end
// (DecodeMerge.cuh). There is no barrier and no producer: warps wait for memory
// alone.
//
// In decoding the kernel ahead appends one token to the cache. A launch that is
// told so (hasEarlyKeys) copies the tiles before that token while the kernel
// ahead still runs: reading the cache takes most of the time.
//
// Blocks read lengths and tables in device memory and leave at once where their
// split has no keys, so a grid for the longest sequence serves ragged batches
// without a host-side plan. A sequence with all keys in one split is written
// directly. The others are merged by the combine kernel, which starts early
// (griddepcontrol), or by their cluster through distributed shared memory.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/DecodeKeys.cuh"
#include "attention/DecodeMerge.cuh"
#include "attention/DecodeRows.cuh"
#include "attention/DecodeSplits.h"
#include "common/Dependent.cuh"

namespace kiln {

/// Grid: (splits, heads of K x blocks of rows, sequences). With `cluster` and
/// several splits, the splits form a cluster.
template <AttentionSignature kSignature, DecodeAttentionConfig kConfig>
void decodeAttention(const AttentionParams &params) {
  static_assert(kConfig.isValid(kSignature), "the config breaks a limit");
  extern __shared__ __align__(128) char shared[];
  const int warp = threadIdx.x / 32;
  const int split = blockIdx.x, sequence = blockIdx.z;
  allowSuccessor();
  // Narrower copies leave lines in L1, which may hold a part of the newest
  // tokens.
  constexpr bool kMayBeEarly =
      DecodeAttentionConfig::copyBytes(kSignature) == 16;
  if (!kMayBeEarly || !params.hasEarlyKeys)
    awaitPredecessor();

  // Find the keys and the rows. Divisions come last: copies need none.
  AttentionTokens queries = queriesOf<kSignature>(params, sequence);
  AttentionTokens keys = keysOfSequence<kSignature>(params, sequence);
  const AttentionReach reach =
      reachOf(kSignature.mask, params.left, params.right);
  const AttentionRange visible =
      keysOfQueries(reach, queries.count, keys.count);
  if (!kConfig.cluster && !isSplitUsed(visible, split, params.splitKeys))
    return awaitPredecessor();
  AttentionRange range = keysOfDecodeSplit(visible, split, params.splitKeys);
  DecodeBlockRows rows = {queries, keys.count, sequence};
  const int rowBlock = static_cast<int>(blockIdx.y) < params.kvHeads
                           ? 0
                           : blockIdx.y / params.kvHeads;
  rows.kvHead = blockIdx.y - rowBlock * params.kvHeads;
  rows.group = params.heads / params.kvHeads;
  rows.begin = rowBlock * kConfig.rows;
  rows.end = min(rows.begin + kConfig.rows, queries.count * rows.group);
  if constexpr (kSignature.queryLengths == AttentionLengths::Packed)
    if (rows.begin >= rows.end)
      return awaitPredecessor(); // the grid is for the most queries
  if constexpr (kSignature.mask != AttentionMask::None) {
    AttentionRange seen =
        keysOfAny(reach, rows.range(), queries.count, keys.count);
    range = {max(range.begin, seen.begin), min(range.end, seen.end)};
  }

  // Multiply the tiles. The first copies start before Q is loaded.
  const int number = warp / kConfig.partCount(),
            part = warp % kConfig.partCount();
  DecodeRing<kSignature, kConfig> ring(
      params, sequence, keys, rows.kvHead, range, number, part,
      ptx::sharedAddress(shared) + number * kConfig.ringBytes(kSignature));
  const int newest = max(0, keys.count - queries.count);
#pragma unroll
  for (int stage = 0; stage < kConfig.stages - 1; ++stage) {
    if (ring.reaches(newest))
      awaitPredecessor();
    ring.load();
  }
  awaitPredecessor();
  DecodeRows<kSignature, kConfig> sums(params, rows, range, part,
                                       ptx::sharedAddress(shared) +
                                           kConfig.queryOffset(kSignature));
  constexpr int kKeyPitch =
      DecodeAttentionConfig::pitch(kSignature.headDim, kSignature.kv);
  constexpr int kValuePitch =
      DecodeAttentionConfig::pitch(kSignature.valueDim, kSignature.kv);
  const bool shares = ring.sharesTiles();
#pragma unroll 1
  for (int first = range.begin + number * kConfig.tile; first < range.end;
       first += kConfig.rings() * kConfig.tile) {
    unsigned stage = ring.wait();
    ring.load();
    sums.take(stage, shares ? stage : stage + kConfig.keyTileBytes(kSignature),
              shares ? kKeyPitch : kValuePitch, first);
  }
  sums.joinTotals();

  // Merge. The sums take the place of the rings.
  ptx::cpAsyncWait<0>();
  __syncthreads();
  DecodeMerge<kSignature, kConfig> merge(params, rows,
                                         reinterpret_cast<float *>(shared));
  merge.leave(number, sums);
  __syncthreads();
  if constexpr (kConfig.cluster) {
    if (params.splits > 1)
      return merge.writeCluster(params.splits);
  } else if (visible.size() > params.splitKeys)
    return merge.writePartials(split);
  merge.writeRows();
}

} // namespace kiln
