//===- attention/AttentionColumns.cuh - sums of a row as 16 bits ----------===//
#pragma once

#include "common/Ptx.cuh"
#include "common/Types.h"

namespace kiln {

/// Two neighbouring elements of O, bf16 or fp16.
template <DType kType> unsigned packPair(float low, float high) {
  if constexpr (kType == DType::BF16)
    return ptx::cvtRnBf16x2F32(low, high);
  else
    return ptx::cvtRnF16x2F32(low, high);
}

/// Transposes a matrix whose columns four lanes hold, one each. Lanes hold two
/// columns of each of four groups of eight columns, and receive one whole group
/// each. \p quarter: which of the four lanes this is.
inline void exchangeColumns(unsigned (&bits)[4], int quarter) {
  bool isOdd = quarter & 1, isUpper = quarter & 2;
  auto swap = [](unsigned &low, unsigned &high, bool keepsHigh, int mask) {
    unsigned got = __shfl_xor_sync(~0u, keepsHigh ? low : high, mask);
    (keepsHigh ? low : high) = got;
  };
  swap(bits[0], bits[1], isOdd, 1);
  swap(bits[2], bits[3], isOdd, 1);
  swap(bits[0], bits[2], isUpper, 2);
  swap(bits[1], bits[3], isUpper, 2);
}

} // namespace kiln
