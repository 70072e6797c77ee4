//===- attention/CollectRows.cuh - K and V as a kernel can read them ------===//
//
// A step ahead of kernels that read rows of one type in one contiguous piece:
// e4m3 becomes the type of Q, rows of small pages become rows of a sequence,
// and rows that no wide access can read begin at multiples of 16 bytes.
// Elements keep their value, since 16 bits hold every e4m3. The kernel behind
// applies scales. The same kernel moves O from where it was computed to rows at
// any alignment.
//
// Grid: (blocks of tokens, sequences; operands: K, V, Q, or some of them).
// Packed sequences count as one. Rows that no query sees are not collected,
// except near the visible ones (CollectRowsConfig::kMargin).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/AttentionRanges.h"
#include "attention/CollectRowsConfig.h"
#include "common/Access.cuh"
#include "common/Convert.cuh"
#include "common/Dependent.cuh"

namespace kiln {

/// \p kSignature: `kv` is the type of stored K and V, `out` of stored Q, `q` of
/// collected rows. Head dims are ignored.
template <AttentionSignature kSignature, CollectRowsConfig kConfig>
class CollectRows {
  static_assert(kConfig.isValid(kSignature), "no such access");

  static constexpr int kToBytes = bytesOf(kSignature.q);
  static constexpr int kItems = kConfig.kItems;
  static constexpr int kQueries = 2; // the operand
  static constexpr bool kPacksKeys =
      kSignature.keyLengths == AttentionLengths::Packed;
  static constexpr bool kPacksQueries =
      kSignature.queryLengths == AttentionLengths::Packed;

  /// One operand as it is stored.
  struct Source {
    const char *base = nullptr;
    HeadStrides strides;
    int operand = 0;
  };

public:
  static void run(const CollectRowsParams &params) {
    allowSuccessor();
    awaitPredecessor();
    const AttentionParams &attention = params.attention;
    const int operand = params.first + blockIdx.z, sequence = blockIdx.y;
    // Packed sequences count as one.
    const bool isPacked = operand == kQueries ? kPacksQueries : kPacksKeys;
    if (isPacked && sequence > 0)
      return;
    const CollectedRows &rows = params.rows[operand];
    Source source;
    source.operand = operand;
    source.base = static_cast<const char *>(operand == 0   ? attention.k
                                            : operand == 1 ? attention.v
                                                           : attention.q);
    source.strides = operand == 0   ? attention.kStrides
                     : operand == 1 ? attention.vStrides
                                    : attention.qStrides;
    const long long first =
        static_cast<long long>(blockIdx.x) * rows.blockTokens;
    if constexpr (kSignature.pages == AttentionPages::Table)
      if (operand != kQueries)
        prefetchPages(attention, rows, first, sequence);
    AttentionRange wanted = wantedTokens(attention, rows, operand, sequence);
    if (first >= wanted.end)
      return;
    const int begin = max(static_cast<int>(first), wanted.begin);
    const int end = static_cast<int>(
        min(static_cast<long long>(wanted.end), first + rows.blockTokens));
    if (begin >= end)
      return;
    if (operand == kQueries)
      collect<kSignature.out, kConfig.queryBytes(kSignature)>(
          attention, rows, source, sequence, begin, end);
    else
      collect<kSignature.kv, kConfig.keyBytes(kSignature)>(
          attention, rows, source, sequence, begin, end);
  }

private:
  /// Loads the numbers of the block's first pages while the length of the
  /// sequence is in flight.
  static void prefetchPages(const AttentionParams &params,
                            const CollectedRows &rows, long long first,
                            int sequence) {
    const long long token = first + threadIdx.x;
    if (threadIdx.x < rows.blockTokens && token < rows.tokens)
      ptx::prefetchL2(params.pageTable + sequence * params.pageTableStride +
                      static_cast<int>(token) / params.pageSize);
  }

  /// The tokens of a sequence that the next kernel may read.
  static AttentionRange wantedTokens(const AttentionParams &params,
                                     const CollectedRows &rows, int operand,
                                     int sequence) {
    if (operand == kQueries && kPacksQueries)
      return packedTokens(params.queryOffsets, params.batch, rows.tokens);
    if (operand == kQueries)
      return {0, rows.tokens};
    if constexpr (kPacksKeys)
      return packedTokens(params.keyOffsets, params.batch, rows.tokens);
    const int keys = keysOfSequence<kSignature>(params, sequence).count;
    if constexpr (kSignature.mask == AttentionMask::None)
      return {0, keys};
    const int queries = queriesOf<kSignature>(params, sequence).count;
    const AttentionReach reach =
        reachOf(kSignature.mask, params.left, params.right);
    const AttentionRange seen = keysOfAny(reach, {0, queries}, queries, keys);
    if (seen.size() == 0)
      return {};
    constexpr int kMargin = CollectRowsConfig::kMargin;
    return {max(seen.begin - kMargin, 0),
            min(keys - kMargin, seen.end) + kMargin};
  }

  /// The tokens of all packed sequences together; no other rows may be touched.
  static AttentionRange packedTokens(const int *offsets, int batch,
                                     int tokens) {
    const int begin = max(offsets[0], 0), end = min(offsets[batch], tokens);
    return begin < end ? AttentionRange{begin, end} : AttentionRange{};
  }

  /// Copies rows of type \p kFrom by accesses of \p kBytes. A group of lanes
  /// has a row, and kItems accesses of each lane are in flight.
  template <DType kFrom, int kBytes>
  static void collect(const AttentionParams &params, const CollectedRows &rows,
                      const Source &source, int sequence, int begin, int end) {
    constexpr int kElements = kBytes / bytesOf(kFrom);
    const unsigned vectors = rows.width / kElements; // of a row
    const unsigned lanes = lanesFor(vectors);
    const unsigned lane = threadIdx.x % lanes;
    const unsigned groups = kConfig.threads() / lanes;
    const unsigned count = (end - begin) * rows.heads;
    for (unsigned at = threadIdx.x / lanes; at < count; at += groups * kItems) {
      const char *from[kItems];
      char *to[kItems];
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        const unsigned row = min(at + i * groups, count - 1);
        const unsigned token = row / rows.heads;
        const int head = row - token * rows.heads;
        from[i] =
            source.base + rowOf(params, source, sequence, head, begin + token) *
                              bytesOf(kFrom);
        to[i] = static_cast<char *>(rows.target) +
                (sequence * rows.strides.batch + head * rows.strides.head +
                 static_cast<long long>(begin + token) * rows.strides.token) *
                    kToBytes;
      }
      for (unsigned v = lane; v < vectors; v += lanes) {
        const int column = v * kElements;
        Words<kBytes> words[kItems];
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
          words[i] = {};
          if (at + i * groups < count && column < rows.elements)
            words[i] = loadVector<kBytes>(from[i] + column * bytesOf(kFrom));
        }
#pragma unroll
        for (int i = 0; i < kItems; ++i)
          if (at + i * groups < count)
            store<kFrom, kBytes>(to[i] + column * kToBytes, words[i]);
      }
    }
  }

  /// The smallest power of two that is not below \p vectors, at most a warp.
  static unsigned lanesFor(unsigned vectors) {
    unsigned lanes = 1;
    while (lanes < vectors && lanes < 32)
      lanes *= 2;
    return lanes;
  }

  /// Elements from the start of an operand to one of its rows.
  static long long rowOf(const AttentionParams &params, const Source &source,
                         int sequence, int head, int token) {
    if (source.operand == kQueries)
      return sequence * source.strides.batch + head * source.strides.head +
             token * source.strides.token;
    return keyOffset<kSignature>(params, source.strides, sequence, {}, head,
                                 token);
  }

  template <DType kFrom, int kBytes>
  static void store(char *target, const Words<kBytes> &words) {
    if constexpr (kFrom == kSignature.q)
      storeVector<kBytes>(target, words);
    else {
      constexpr int kElements = kBytes / bytesOf(kFrom);
      float values[kElements];
      unpackFloats<kFrom>(values, words);
      storeVector<kElements * kToBytes>(target,
                                        packFloats<kSignature.q>(values));
    }
  }
};

template <AttentionSignature kSignature, CollectRowsConfig kConfig>
void collectRows(const CollectRowsParams &params) {
  CollectRows<kSignature, kConfig>::run(params);
}

} // namespace kiln
