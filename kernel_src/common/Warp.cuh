//===- common/Warp.cuh - what the lanes of a warp have in common ----------===//
//
// All lanes call these functions together, and all get their result.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"

namespace kiln {

/// Before sm_80 lanes pass values on instead.
inline constexpr bool kHasWarpReductions = __CUDA_ARCH__ >= 800;

inline unsigned greatestOfWarp(unsigned value) {
  if constexpr (kHasWarpReductions) {
    return ptx::reduxMax(value);
  } else {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      value = max(value, __shfl_xor_sync(~0u, value, distance));
    return value;
  }
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
  if constexpr (kHasWarpReductions) {
    return ptx::reduxAdd(value);
  } else {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      value += __shfl_xor_sync(~0u, value, distance);
    return value;
  }
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

/// In an order that references keep: lane l adds the value of lane l ^ 16, then
/// of l ^ 8, and so on.
inline float sumOfWarp(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(~0u, value, distance);
  return value;
}

/// The sum, by \p add, of the lanes up to and including the own one.
template <class T, class Add> T sumUpToLane(T value, Add add) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const T other = __shfl_sync(~0u, value, max(lane - distance, 0));
    if (lane >= distance)
      value = add(value, other);
  }
  return value;
}
template <class T> T sumUpToLane(T value) {
  return sumUpToLane(value, [](T a, T b) { return a + b; });
}

} // namespace kiln
