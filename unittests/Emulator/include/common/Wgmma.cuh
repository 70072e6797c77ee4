//===- common/Wgmma.cuh - wgmma, emulated ---------------------------------===//
//
// In the place of kernel_src's file of this name; see Ptx.cuh.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"

namespace kiln::ptx {

constexpr bool hasWgmma(int n) { return n >= 8 && n <= 256 && n % 8 == 0; }
constexpr int wgmmaDepth(DType type) { return 32 / bytesOf(type); }

template <DType kType, int kN, int kTransA, int kTransB>
void wgmma(float (&d)[kN / 2], unsigned long long descriptorA,
           unsigned long long descriptorB, int accumulate) {
  static_assert(hasWgmma(kN));
  kilnMachine->multiply({d, nullptr, descriptorA, descriptorB, kN, int(kType),
                         accumulate, kTransA, kTransB});
}

template <int kN>
void wgmmaTf32Registers(float (&d)[kN / 2], const unsigned *a,
                        unsigned long long descriptorB, int accumulate) {
  static_assert(hasWgmma(kN));
  kilnMachine->multiply(
      {d, a, 0, descriptorB, kN, int(DType::FP32), accumulate, 0, 0});
}

} // namespace kiln::ptx
