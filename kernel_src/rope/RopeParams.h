//===- rope/RopeParams.h - parameters of rotary embeddings ----------------===//
#pragma once

#include "common/HeadStrides.h"

namespace kiln {

/// Addresses that a signature does not use are null.
struct RopeParams {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void *qOut = nullptr, *kOut = nullptr; ///< may be q and k
  void *kCache = nullptr, *vCache = nullptr;
  /// Batches of caches are pages; the others have none.
  HeadStrides qStrides, kStrides, vStrides, qOutStrides, kOutStrides;
  HeadStrides kCacheStrides, vCacheStrides;
  const void *table = nullptr; ///< [tableRows][rotary dimensions]
  const void *qWeight = nullptr, *kWeight = nullptr;
  const void *positions = nullptr, *slots = nullptr; ///< [tokens]
  const int *pageTable = nullptr; ///< [sequences][pageTableColumns]
  const int *sequences = nullptr; ///< [tokens]
  const float *kScale = nullptr, *vScale = nullptr;
  long long tokens = 0, tableRows = 0;
  long long pageSize = 1, pageCount = 0; ///< of the caches
  long long pageTableRows = 0, pageTableColumns = 0;
  int heads = 0, kvHeads = 0;
  float epsilon = 0;
  /// Positions, slots and tables may be read before the kernel's predecessor
  /// has ended.
  bool isEarly = false;

  /// The row of the caches of \p slot: a page and a row of it; the page is -1
  /// for none.
  struct CacheRow {
    long long page = -1, row = 0;
  };
  constexpr CacheRow rowOfSlot(long long slot) const {
    if (slot < 0)
      return {};
    const long long page = divide(slot, pageSize);
    return {page < pageCount ? page : -1, slot - page * pageSize};
  }
  /// The row of position \p p of sequence \p n.
  constexpr CacheRow rowOfPosition(long long n, long long p) const {
    if (n < 0 || n >= pageTableRows || p < 0)
      return {};
    const long long column = divide(p, pageSize);
    if (column >= pageTableColumns)
      return {};
    const long long page = pageTable[n * pageTableColumns + column];
    return {page < pageCount ? page : -1, p - column * pageSize};
  }

private:
  /// The division uses 32 bits where they suffice: 64 bits cost three times as
  /// much.
  static constexpr long long divide(long long a, long long b) {
    return (a | b) >> 32 == 0
               ? static_cast<unsigned>(a) / static_cast<unsigned>(b)
               : a / b;
  }
};

/// The operands that a reference computes.
enum class RopeResult : int { Q, K, KCache, VCache };

/// Rows [rowBegin, rowEnd) of a result, ordered by page, head and token.
struct ReferenceRopeParams {
  RopeParams rope;
  RopeResult result = RopeResult::Q;
  long long rowBegin = 0, rowEnd = 0;
  double *reference = nullptr;
  double *bound = nullptr; ///< the scale of the error of an element
};

} // namespace kiln
