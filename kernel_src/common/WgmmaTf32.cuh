//===- common/WgmmaTf32.cuh - wgmma of tf32 by its width ------------------===//
//
// wgmma.mma_async m64nNk8 for tf32 with fp32 sums: the second operand is in
// shared memory, the first one there or in registers. Implements wgmma() and
// wgmmaTf32Registers() of Wgmma.cuh. Source: PTX ISA, asynchronous warpgroup
// level matrix instructions.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Wgmma.cuh"

namespace kiln::ptx::detail {

#define KILN_WGMMA_TF32(n, count, a, b, scale)                                 \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #scale ", 0;\n"            \
               "wgmma.mma_async.sync.aligned.m64n" #n "k8.f32.tf32.tf32"       \
               " {" KILN_REGS_##count "}, %" #a ", %" #b ", p, 1, 1;\n}"       \
               : KILN_OUTS_##count                                             \
               : "l"(descriptorA), "l"(descriptorB), "r"(accumulate))
#define KILN_WGMMA_TF32_REGISTERS(n, count, a0, a1, a2, a3, b, scale)          \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #scale ", 0;\n"            \
               "wgmma.mma_async.sync.aligned.m64n" #n "k8.f32.tf32.tf32"       \
               " {" KILN_REGS_##count "}, {%" #a0 ", %" #a1 ", %" #a2          \
                                      ", %" #a3 "}, %" #b ", p, 1, 1;\n}"      \
               : KILN_OUTS_##count                                             \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(descriptorB), \
                 "r"(accumulate))
/// Width \p n has \p count sums; the other operands follow them.
#define KILN_WGMMA_TF32_WIDTH(n, count, a1, a2, a3, a4, a5)                    \
  template <> struct WgmmaTf32Of<n> {                                          \
    static void run(float (&d)[n / 2], unsigned long long descriptorA,         \
                    unsigned long long descriptorB, int accumulate) {          \
      KILN_WGMMA_TF32(n, count, count, a1, a2);                                \
    }                                                                          \
    static void run(float (&d)[n / 2], const unsigned *a,                      \
                    unsigned long long descriptorB, int accumulate) {          \
      KILN_WGMMA_TF32_REGISTERS(n, count, count, a1, a2, a3, a4, a5);          \
    }                                                                          \
  };

KILN_WGMMA_TF32_WIDTH(8, 4, 5, 6, 7, 8, 9)
KILN_WGMMA_TF32_WIDTH(16, 8, 9, 10, 11, 12, 13)
KILN_WGMMA_TF32_WIDTH(24, 12, 13, 14, 15, 16, 17)
KILN_WGMMA_TF32_WIDTH(32, 16, 17, 18, 19, 20, 21)
KILN_WGMMA_TF32_WIDTH(40, 20, 21, 22, 23, 24, 25)
KILN_WGMMA_TF32_WIDTH(48, 24, 25, 26, 27, 28, 29)
KILN_WGMMA_TF32_WIDTH(56, 28, 29, 30, 31, 32, 33)
KILN_WGMMA_TF32_WIDTH(64, 32, 33, 34, 35, 36, 37)
KILN_WGMMA_TF32_WIDTH(72, 36, 37, 38, 39, 40, 41)
KILN_WGMMA_TF32_WIDTH(80, 40, 41, 42, 43, 44, 45)
KILN_WGMMA_TF32_WIDTH(88, 44, 45, 46, 47, 48, 49)
KILN_WGMMA_TF32_WIDTH(96, 48, 49, 50, 51, 52, 53)
KILN_WGMMA_TF32_WIDTH(104, 52, 53, 54, 55, 56, 57)
KILN_WGMMA_TF32_WIDTH(112, 56, 57, 58, 59, 60, 61)
KILN_WGMMA_TF32_WIDTH(120, 60, 61, 62, 63, 64, 65)
KILN_WGMMA_TF32_WIDTH(128, 64, 65, 66, 67, 68, 69)
KILN_WGMMA_TF32_WIDTH(136, 68, 69, 70, 71, 72, 73)
KILN_WGMMA_TF32_WIDTH(144, 72, 73, 74, 75, 76, 77)
KILN_WGMMA_TF32_WIDTH(152, 76, 77, 78, 79, 80, 81)
KILN_WGMMA_TF32_WIDTH(160, 80, 81, 82, 83, 84, 85)
KILN_WGMMA_TF32_WIDTH(168, 84, 85, 86, 87, 88, 89)
KILN_WGMMA_TF32_WIDTH(176, 88, 89, 90, 91, 92, 93)
KILN_WGMMA_TF32_WIDTH(184, 92, 93, 94, 95, 96, 97)
KILN_WGMMA_TF32_WIDTH(192, 96, 97, 98, 99, 100, 101)
KILN_WGMMA_TF32_WIDTH(200, 100, 101, 102, 103, 104, 105)
KILN_WGMMA_TF32_WIDTH(208, 104, 105, 106, 107, 108, 109)
KILN_WGMMA_TF32_WIDTH(216, 108, 109, 110, 111, 112, 113)
KILN_WGMMA_TF32_WIDTH(224, 112, 113, 114, 115, 116, 117)
KILN_WGMMA_TF32_WIDTH(232, 116, 117, 118, 119, 120, 121)
KILN_WGMMA_TF32_WIDTH(240, 120, 121, 122, 123, 124, 125)
KILN_WGMMA_TF32_WIDTH(248, 124, 125, 126, 127, 128, 129)
KILN_WGMMA_TF32_WIDTH(256, 128, 129, 130, 131, 132, 133)

#undef KILN_WGMMA_TF32
#undef KILN_WGMMA_TF32_REGISTERS
#undef KILN_WGMMA_TF32_WIDTH

} // namespace kiln::ptx::detail
