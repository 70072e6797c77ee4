//===- common/WgmmaRegisters.cuh - wgmma with A in registers, emulated ----===//
//
// In the place of kernel_src's file of this name; see Ptx.cuh.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Wgmma.cuh"

namespace kiln::ptx {

template <DType kType, int kN, int kTransB>
void wgmmaRegisters(float (&d)[kN / 2], const unsigned *a,
                    unsigned long long descriptorB, int accumulate) {
  static_assert(hasWgmma(kN));
  kilnMachine->multiply({d, a, 0, descriptorB, kN, int(kType), int(kType),
                         accumulate, 0, kTransB});
}

} // namespace kiln::ptx
