//===- Builtins.h - CUDA's built-ins on the host --------------------------===//
//
// Comes before the text of every emulated kernel. It has the parts of the
// language, and the functions of NVRTC, that kernel_src uses.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Machine.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#define __CUDA_ARCH__ KILN_EMULATED_ARCH
#define __global__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define __grid_constant__
#define __restrict__ __restrict

extern "C" {
/// Set when the kernel's library is opened.
extern kiln::emulated::Machine *kilnMachine;

/// The functions that GCC and Clang call for an access that
/// -fsanitize=alignment finds wrong.
struct KilnMismatch {
  struct {
    const char *file;
    unsigned line, column;
  } where;
  const void *type;
  unsigned char logAlignment, kind;
};
__attribute__((visibility("hidden"), used)) inline void
__ubsan_handle_type_mismatch_v1(const KilnMismatch *mismatch, void *address) {
  kilnMachine->misaligned(address, 1u << mismatch->logAlignment);
}
}

#define threadIdx (kilnMachine->thread->threadIdx)
#define blockIdx (kilnMachine->thread->blockIdx)
#define blockDim (kilnMachine->thread->blockDim)
#define gridDim (kilnMachine->thread->gridDim)

//===----------------------------------------------------------------------===//
// Vectors and bits
//===----------------------------------------------------------------------===//

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};

inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}

inline float __uint_as_float(unsigned bits) {
  return __builtin_bit_cast(float, bits);
}
inline unsigned __float_as_uint(float value) {
  return __builtin_bit_cast(unsigned, value);
}
inline float __int_as_float(int bits) {
  return __builtin_bit_cast(float, bits);
}
inline int __float_as_int(float value) {
  return __builtin_bit_cast(int, value);
}
inline double __longlong_as_double(long long bits) {
  return __builtin_bit_cast(double, bits);
}
inline long long __double_as_longlong(double value) {
  return __builtin_bit_cast(long long, value);
}
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const uint64_t bytes = uint64_t(high) << 32 | low;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i)
    result |= unsigned(bytes >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  return result;
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned((uint64_t(high) << 32 | low) >> (shift & 31));
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

using std::isfinite;
using std::isinf;
using std::isnan;

inline float __fdividef(float a, float b) { return a / b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline unsigned __float2uint_rn(float value) {
  return value > 0 ? unsigned(std::nearbyint(value)) : 0;
}
inline int __float2int_rn(float value) {
  constexpr float kBeyond = 2147483648.0f;
  if (isnan(value))
    return 0;
  if (value >= kBeyond)
    return 2147483647;
  return value < -kBeyond ? -2147483647 - 1 : int(std::nearbyint(value));
}
inline float cospif(float x) {
  return float(std::cos(3.14159265358979323846 * x));
}
inline float rsqrtf(float x) { return 1 / sqrtf(x); }

// The name is one of the host library.
namespace kiln::emulated {
inline float log2Of(float x) { return log2f(x); }
} // namespace kiln::emulated
#define __log2f kiln::emulated::log2Of

#define KILN_LEAST_AND_MOST(A, B, Result)                                      \
  inline Result min(A a, B b) {                                                \
    const Result left = a, right = b;                                          \
    return right < left ? right : left;                                        \
  }                                                                            \
  inline Result max(A a, B b) {                                                \
    const Result left = a, right = b;                                          \
    return left < right ? right : left;                                        \
  }
KILN_LEAST_AND_MOST(int, int, int)
KILN_LEAST_AND_MOST(unsigned, unsigned, unsigned)
KILN_LEAST_AND_MOST(int, unsigned, unsigned)
KILN_LEAST_AND_MOST(unsigned, int, unsigned)
KILN_LEAST_AND_MOST(long long, long long, long long)
KILN_LEAST_AND_MOST(int, long long, long long)
KILN_LEAST_AND_MOST(long long, int, long long)
#undef KILN_LEAST_AND_MOST
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }

//===----------------------------------------------------------------------===//
// Threads together
//===----------------------------------------------------------------------===//

inline void __syncthreads() { kilnMachine->barrier(0, 0, true); }
inline void __syncwarp(unsigned mask = ~0u) {
  kilnMachine->meet(mask, nullptr, [](void *const *, unsigned) {});
}
inline void __threadfence() {}

namespace kiln::emulated {

/// Calls \p each with what every lane of \p mask brought.
template <class T, class Each>
void forLanes(void *const *lanes, unsigned mask, const Each &each) {
  for (int lane = 0; lane < kWarp; ++lane)
    if (mask >> lane & 1)
      each(lane, *static_cast<T *>(lanes[lane]));
}

template <class T> struct Exchange {
  T value, result;
  unsigned from; ///< lane
};

/// The value of lane \p from.
template <class T> T exchange(unsigned mask, T value, unsigned from) {
  Exchange<T> mine{value, value, from % kWarp};
  kilnMachine->meet(mask, &mine, [](void *const *lanes, unsigned mask) {
    forLanes<Exchange<T>>(lanes, mask, [&](int, Exchange<T> &to) {
      if (mask >> to.from & 1)
        to.result = static_cast<Exchange<T> *>(lanes[to.from])->value;
    });
  });
  return mine.result;
}

/// kOperation(kOperation(a, b), ...) of all lanes' values.
template <auto kOperation, class T> T reduce(unsigned mask, T value) {
  kilnMachine->meet(mask, &value, [](void *const *lanes, unsigned mask) {
    T all = *static_cast<T *>(lanes[__builtin_ctz(mask)]);
    forLanes<T>(lanes, mask & (mask - 1),
                [&](int, T &lane) { all = kOperation(all, lane); });
    forLanes<T>(lanes, mask, [&](int, T &lane) { lane = all; });
  });
  return value;
}

} // namespace kiln::emulated

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int = 32) {
  const unsigned lane = kilnMachine->thread->lane();
  return kiln::emulated::exchange(mask, value, lane ^ unsigned(lanes));
}
template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
  const unsigned lane = kilnMachine->thread->lane();
  return kiln::emulated::exchange(
      mask, value, lane / width * width + unsigned(from) % width);
}
inline unsigned __ballot_sync(unsigned mask, bool value) {
  unsigned bit = unsigned(value) << kilnMachine->thread->lane();
  return kiln::emulated::reduce<[](unsigned a, unsigned b) { return a | b; }>(
      mask, bit);
}
inline int __any_sync(unsigned mask, bool value) {
  return __ballot_sync(mask, value) != 0;
}
template <class T> T __reduce_max_sync(unsigned mask, T value) {
  return kiln::emulated::reduce<[](T a, T b) { return a < b ? b : a; }>(mask,
                                                                        value);
}
template <class T> T __reduce_min_sync(unsigned mask, T value) {
  return kiln::emulated::reduce<[](T a, T b) { return b < a ? b : a; }>(mask,
                                                                        value);
}
template <class T> T __reduce_add_sync(unsigned mask, T value) {
  return kiln::emulated::reduce<[](T a, T b) { return T(a + b); }>(mask, value);
}

// One thread runs at a time.
template <class T, class V> T atomicAdd(T *to, V value) {
  return std::exchange(*to, T(*to + value));
}
template <class T, class V> T atomicMax(T *to, V value) {
  return std::exchange(*to, *to < T(value) ? T(value) : *to);
}
template <class T, class V> T atomicOr(T *to, V value) {
  return std::exchange(*to, T(*to | value));
}
template <class T, class V> T atomicMin(T *to, V value) {
  return std::exchange(*to, T(value) < *to ? T(value) : *to);
}
