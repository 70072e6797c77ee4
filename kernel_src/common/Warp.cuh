//===- common/Warp.cuh - what the lanes of a warp have in common ----------===//
//
// All lanes call these functions together, and all get the result.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"

namespace kiln {

/// Before sm_80 lanes pass values on instead.
inline constexpr bool kHasWarpReductions = __CUDA_ARCH__ >= 800;

inline unsigned greatestOfWarp(unsigned value) {
  if constexpr (kHasWarpReductions)
    return ptx::reduxMax(value);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value = max(value, __shfl_xor_sync(~0u, value, distance));
  return value;
}

inline unsigned leastOfWarp(unsigned value) { return ~greatestOfWarp(~value); }

inline unsigned long long greatestOfWarp(unsigned long long value) {
  const auto mine = static_cast<unsigned>(value >> 32);
  const unsigned high = greatestOfWarp(mine);
  const unsigned low =
      greatestOfWarp(mine == high ? static_cast<unsigned>(value) : 0);
  return static_cast<unsigned long long>(high) << 32 | low;
}

inline unsigned sumOfWarp(unsigned value) {
  if constexpr (kHasWarpReductions)
    return ptx::reduxAdd(value);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(~0u, value, distance);
  return value;
}

/// By parts whose sums have 32 bits.
inline unsigned long long sumOfWarp(unsigned long long value) {
  constexpr int kBits = 22;
  constexpr unsigned kMask = (1u << kBits) - 1;
  unsigned long long sum = 0;
#pragma unroll
  for (int shift = 0; shift < 64; shift += kBits)
    sum += static_cast<unsigned long long>(
               sumOfWarp(static_cast<unsigned>(value >> shift) & kMask))
           << shift;
  return sum;
}

} // namespace kiln
