//===- common/PtxPairs.cuh - arithmetic of pairs, emulated ----------------===//
//
// In the place of kernel_src's file of this name; see Ptx.cuh.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Ptx.cuh"

namespace kiln::ptx {

inline unsigned fmaBf16x2(unsigned a, unsigned b, unsigned c) {
  // fp32 holds the products of bf16, and the sums that kernels make of them.
  auto one = [&](int shift) {
    auto part = [&](unsigned pair) {
      return detail::fromBf16((unsigned short)(pair >> shift));
    };
    return detail::toBf16(part(a) * part(b) + part(c)) << shift;
  };
  return one(0) | one(16);
}

inline unsigned fmaF16x2(unsigned a, unsigned b, unsigned c) {
  auto one = [&](int shift) {
    auto part = [&](unsigned pair) {
      return cvtF32F16((unsigned short)(pair >> shift));
    };
    return unsigned(cvtRnF16F32(part(a) * part(b) + part(c))) << shift;
  };
  return one(0) | one(16);
}

inline unsigned lop3AndOr(unsigned a, unsigned mask, unsigned bits) {
  return (a & mask) | bits;
}

} // namespace kiln::ptx
