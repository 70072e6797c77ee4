//===- common/MmaBytes.cuh - products of one-byte types in a warp ---------===//
//
// mma.sync m16n8k32 of int8 and of fp8, and the scalar product of four int8. A
// register of A holds four neighbours along k, from 4 * (lane % 4) on. The four
// registers have rows lane / 4 and lane / 4 + 8 for the lower 16 of k, then the
// same rows for the upper 16. The two registers of B have column lane / 4.
// Source: PTX ISA.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"

namespace kiln::ptx {

/// d += a b for int8 (16x32, row) and (32x8, column), with wrapping int32 sums
/// (sm_80).
inline void mmaS8(int (&d)[4], const unsigned (&a)[4], unsigned b0,
                  unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#define KILN_MMA_FP8(types)                                                    \
  asm volatile("mma.sync.aligned.m16n8k32.row.col.f32." types ".f32 "          \
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "                \
               "{%0, %1, %2, %3};"                                             \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))

/// As mmaS8, for fp8 with fp32 sums (sm_89).
template <DType kTypeA, DType kTypeB>
void mmaFp8(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  static_assert(isFp8(kTypeA) && isFp8(kTypeB), "types of another product");
  if constexpr (kTypeA == DType::E4M3 && kTypeB == DType::E4M3)
    KILN_MMA_FP8("e4m3.e4m3");
  else if constexpr (kTypeA == DType::E4M3)
    KILN_MMA_FP8("e4m3.e5m2");
  else if constexpr (kTypeB == DType::E4M3)
    KILN_MMA_FP8("e5m2.e4m3");
  else
    KILN_MMA_FP8("e5m2.e5m2");
}

#undef KILN_MMA_FP8

/// \p sum plus the products of four int8 each; wraps.
inline int dp4a(unsigned a, unsigned b, int sum) {
  int result;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
}

} // namespace kiln::ptx
