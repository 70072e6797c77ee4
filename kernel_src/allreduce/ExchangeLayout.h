//===- allreduce/ExchangeLayout.h - the memory that ranks share -----------===//
//
// Each rank has exchange memory of equal size, which all ranks write. It begins
// with a head: the error word, the size of a half, and a counter of launches
// for each block. Two halves follow, which launches use in turn: a rank may be
// one launch ahead of another, and never two (PushRows.cuh says why). A half
// has a place for the inputs of each rank (its inbox) and, where rows have
// owners, one for their sums. Every word behind the head is 0 between launches
// that have ended. Included by the host and by NVRTC.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

struct ExchangeLayout {
  /// The most blocks of a launch: each has its own copy of the counter, since
  /// no block may count while another still reads.
  static constexpr int kMostBlocks = 1024;
  /// Offset of the word with halfVectors() of the first launch: halves stay
  /// where they are until the memory is set to zero.
  static constexpr int kHalfVectors = 4;
  /// The error word of launches with other halves than the first; above 1 + any
  /// rank.
  static constexpr unsigned kHalvesDiffer = 256;
  static constexpr long long kCounters = 4096; ///< offset of the first
  static constexpr long long kHeadBytes = kCounters + 4 * kMostBlocks;
  /// Words in exchange memory are moved and waited for by 16 bytes.
  static constexpr int kVectorBytes = 16;

  static constexpr long long roundedUp(long long bytes) {
    return (bytes + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
  }
  /// Bytes of each half in \p bytes of exchange memory; not above 0 where these
  /// are too few.
  static constexpr long long halfBytes(long long bytes) {
    return (bytes - kHeadBytes) / 2 / kVectorBytes * kVectorBytes;
  }
  /// A half's vectors, as the head has them.
  static constexpr unsigned halfVectors(long long halfBytes) {
    return static_cast<unsigned>(halfBytes / kVectorBytes);
  }
  /// Bytes of a half for \p rows rows of \p pitch bytes: one shot, or with
  /// owners of rows.
  static constexpr long long bytesOfRows(long long rows, long long pitch,
                                         int ranks, bool hasOwners) {
    return hasOwners ? (inboxRows(rows, ranks, true) * ranks + rows) * pitch
                     : rows * ranks * pitch;
  }
  /// Rows of one rank's inputs that a rank receives.
  static constexpr long long inboxRows(long long rows, int ranks,
                                       bool hasOwners) {
    return hasOwners ? (rows + ranks - 1) / ranks : rows;
  }
};

} // namespace kiln
