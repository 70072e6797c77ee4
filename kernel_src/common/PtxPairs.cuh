//===- common/PtxPairs.cuh - arithmetic of pairs of 16-bit elements -------===//
//
// Continues Ptx.cuh with instructions that few kernels need.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"

namespace kiln::ptx {

/// a * b + c of two bf16 elements, each rounded once (sm_80).
inline unsigned fmaBf16x2(unsigned a, unsigned b, unsigned c) {
  unsigned value;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(value) : "r"(a), "r"(b), "r"(c));
  return value;
}

/// a * b + c of two fp16 elements, each rounded once (sm_80).
inline unsigned fmaF16x2(unsigned a, unsigned b, unsigned c) {
  unsigned value;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(value) : "r"(a), "r"(b), "r"(c));
  return value;
}

/// (a & mask) | bits, as one instruction: compilers emit two where both are
/// constants.
inline unsigned lop3AndOr(unsigned a, unsigned mask, unsigned bits) {
  unsigned value;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;"
      : "=r"(value)
      : "r"(a), "r"(mask), "r"(bits));
  return value;
}

} // namespace kiln::ptx
