//===- common/MmaBytes.cuh - products of one-byte types, emulated ---------===//
//
// In the place of kernel_src's file of this name; see Ptx.cuh.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"
#include "common/Types.h"

namespace kiln::ptx {

namespace detail {

/// A lane's part of a product of 16 x 8, 32 bytes along k.
template <class Sum> struct ByteWarpProduct {
  Sum *sums;
  const unsigned *a;
  unsigned b[2];
};

template <DType kType> auto byteElement(unsigned bits) {
  if constexpr (kType == DType::INT8)
    return int((signed char)bits);
  else if constexpr (kType == DType::E4M3)
    return fromE4m3(bits & 0xff);
  else
    return cvtF32F16((unsigned short)(bits << 8));
}

/// As the tensor core keeps it: 13 bits of an fp8 sum's mantissa.
inline int keptSum(int sum) { return sum; }
inline float keptSum(float sum) {
  return __uint_as_float(__float_as_uint(sum) & ~0x3ffu);
}

template <DType kTypeA, DType kTypeB, class Sum>
void multiplyBytesInWarp(Sum (&sums)[4], const unsigned (&a)[4], unsigned b0,
                         unsigned b1) {
  ByteWarpProduct<Sum> mine{sums, a, {b0, b1}};
  kilnMachine->meet(~0u, &mine, [](void *const *lanes, unsigned mask) {
    Sum a[16][32], b[32][8];
    emulated::forLanes<ByteWarpProduct<Sum>>(
        lanes, mask, [&](int lane, auto &of) {
          const int group = lane / 4, place = lane % 4 * 4;
          for (int i = 0; i < 4; ++i) {
            for (int r = 0; r < 4; ++r)
              a[group + r % 2 * 8][place + r / 2 * 16 + i] =
                  byteElement<kTypeA>(of.a[r] >> 8 * i);
            for (int r = 0; r < 2; ++r)
              b[place + r * 16 + i][group] =
                  byteElement<kTypeB>(of.b[r] >> 8 * i);
          }
        });
    emulated::forLanes<ByteWarpProduct<Sum>>(
        lanes, mask, [&](int lane, auto &of) {
          for (int i = 0; i < 4; ++i) {
            Sum sum = of.sums[i];
            for (int k = 0; k < 32; ++k)
              sum += a[lane / 4 + i / 2 * 8][k] * b[k][lane % 4 * 2 + i % 2];
            of.sums[i] = keptSum(sum);
          }
        });
  });
}

} // namespace detail

inline void mmaS8(int (&d)[4], const unsigned (&a)[4], unsigned b0,
                  unsigned b1) {
  detail::multiplyBytesInWarp<DType::INT8, DType::INT8>(d, a, b0, b1);
}
template <DType kTypeA, DType kTypeB>
void mmaFp8(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  static_assert(isFp8(kTypeA) && isFp8(kTypeB));
  detail::multiplyBytesInWarp<kTypeA, kTypeB>(d, a, b0, b1);
}

inline int dp4a(unsigned a, unsigned b, int sum) {
  for (int i = 0; i < 32; i += 8)
    sum += int((signed char)(a >> i)) * int((signed char)(b >> i));
  return sum;
}

} // namespace kiln::ptx
