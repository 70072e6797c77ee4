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
                         int(kType), accumulate, kTransA, kTransB});
}

template <DType kTypeA, DType kTypeB, int kN, class Sum>
void wgmmaBytes(Sum (&d)[kN / 2], unsigned long long descriptorA,
                unsigned long long descriptorB, int accumulate) {
  static_assert(hasWgmma(kN) && sizeof(Sum) == sizeof(float));
  static_assert(kTypeA != DType::INT8 || kN <= 24 || kN % 16 == 0);
  kilnMachine->multiply({d, nullptr, descriptorA, descriptorB, kN, int(kTypeA),
                         int(kTypeB), accumulate, 0, 0});
}

template <int kN>
void wgmmaTf32Registers(float (&d)[kN / 2], const unsigned *a,
                        unsigned long long descriptorB, int accumulate) {
  static_assert(hasWgmma(kN));
  kilnMachine->multiply({d, a, 0, descriptorB, kN, int(DType::FP32),
                         int(DType::FP32), accumulate, 0, 0});
}

} // namespace kiln::ptx
