//===- common/WgmmaRegisters.cuh - wgmma with A in registers --------------===//
//
// wgmma.mma_async m64nNk16 (m64nNk32 for e4m3) with the first operand in
// registers, the second one in shared memory, and fp32 sums: one text for each
// width, as in Wgmma.cuh. Sums of one product become the first operand of the
// next without a move of data between threads. Source: PTX ISA, asynchronous
// warpgroup level matrix instructions.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Wgmma.cuh"

namespace kiln::ptx {

#define KILN_WGMMA(n, count, type, a0, a1, a2, a3, b, scale, transB)           \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #scale ", 0;\n"            \
               "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type \
               " {" KILN_REGS_##count "}, {%" #a0 ", %" #a1 ", %" #a2          \
                                      ", %" #a3 "}, %" #b                      \
                                      ", p, 1, 1, %" #transB ";\n}"            \
               : KILN_OUTS_##count                                             \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(descriptorB), \
                 "r"(accumulate), "n"(kTransB))
#define KILN_WGMMA_E4M3(n, count, a0, a1, a2, a3, b, scale)                    \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #scale ", 0;\n"            \
               "wgmma.mma_async.sync.aligned.m64n" #n "k32.f32.e4m3.e4m3"      \
               " {" KILN_REGS_##count "}, {%" #a0 ", %" #a1 ", %" #a2          \
                                      ", %" #a3 "}, %" #b ", p, 1, 1;\n}"      \
               : KILN_OUTS_##count                                             \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(descriptorB), \
                 "r"(accumulate))
/// Width \p n has \p count sums; the other operands follow them.
#define KILN_WGMMA_WIDTH(n, count, a0, a1, a2, a3, b, scale, transB)           \
  template <> struct WgmmaRegistersOf<n> {                                     \
    template <DType kType, int kTransB>                                        \
    static void run(float (&d)[n / 2], const unsigned *a,                      \
                    unsigned long long descriptorB, int accumulate) {          \
      if constexpr (kType == DType::BF16)                                      \
        KILN_WGMMA(n, count, "bf16", a0, a1, a2, a3, b, scale, transB);        \
      else if constexpr (kType == DType::E4M3)                                 \
        KILN_WGMMA_E4M3(n, count, a0, a1, a2, a3, b, scale);                   \
      else                                                                     \
        KILN_WGMMA(n, count, "f16", a0, a1, a2, a3, b, scale, transB);         \
    }                                                                          \
  };

namespace detail {

/// The instruction of one width.
template <int kN> struct WgmmaRegistersOf;

KILN_WGMMA_WIDTH(8, 4, 4, 5, 6, 7, 8, 9, 10)
KILN_WGMMA_WIDTH(16, 8, 8, 9, 10, 11, 12, 13, 14)
KILN_WGMMA_WIDTH(24, 12, 12, 13, 14, 15, 16, 17, 18)
KILN_WGMMA_WIDTH(32, 16, 16, 17, 18, 19, 20, 21, 22)
KILN_WGMMA_WIDTH(40, 20, 20, 21, 22, 23, 24, 25, 26)
KILN_WGMMA_WIDTH(48, 24, 24, 25, 26, 27, 28, 29, 30)
KILN_WGMMA_WIDTH(56, 28, 28, 29, 30, 31, 32, 33, 34)
KILN_WGMMA_WIDTH(64, 32, 32, 33, 34, 35, 36, 37, 38)
KILN_WGMMA_WIDTH(72, 36, 36, 37, 38, 39, 40, 41, 42)
KILN_WGMMA_WIDTH(80, 40, 40, 41, 42, 43, 44, 45, 46)
KILN_WGMMA_WIDTH(88, 44, 44, 45, 46, 47, 48, 49, 50)
KILN_WGMMA_WIDTH(96, 48, 48, 49, 50, 51, 52, 53, 54)
KILN_WGMMA_WIDTH(104, 52, 52, 53, 54, 55, 56, 57, 58)
KILN_WGMMA_WIDTH(112, 56, 56, 57, 58, 59, 60, 61, 62)
KILN_WGMMA_WIDTH(120, 60, 60, 61, 62, 63, 64, 65, 66)
KILN_WGMMA_WIDTH(128, 64, 64, 65, 66, 67, 68, 69, 70)
KILN_WGMMA_WIDTH(136, 68, 68, 69, 70, 71, 72, 73, 74)
KILN_WGMMA_WIDTH(144, 72, 72, 73, 74, 75, 76, 77, 78)
KILN_WGMMA_WIDTH(152, 76, 76, 77, 78, 79, 80, 81, 82)
KILN_WGMMA_WIDTH(160, 80, 80, 81, 82, 83, 84, 85, 86)
KILN_WGMMA_WIDTH(168, 84, 84, 85, 86, 87, 88, 89, 90)
KILN_WGMMA_WIDTH(176, 88, 88, 89, 90, 91, 92, 93, 94)
KILN_WGMMA_WIDTH(184, 92, 92, 93, 94, 95, 96, 97, 98)
KILN_WGMMA_WIDTH(192, 96, 96, 97, 98, 99, 100, 101, 102)
KILN_WGMMA_WIDTH(200, 100, 100, 101, 102, 103, 104, 105, 106)
KILN_WGMMA_WIDTH(208, 104, 104, 105, 106, 107, 108, 109, 110)
KILN_WGMMA_WIDTH(216, 108, 108, 109, 110, 111, 112, 113, 114)
KILN_WGMMA_WIDTH(224, 112, 112, 113, 114, 115, 116, 117, 118)
KILN_WGMMA_WIDTH(232, 116, 116, 117, 118, 119, 120, 121, 122)
KILN_WGMMA_WIDTH(240, 120, 120, 121, 122, 123, 124, 125, 126)
KILN_WGMMA_WIDTH(248, 124, 124, 125, 126, 127, 128, 129, 130)
KILN_WGMMA_WIDTH(256, 128, 128, 129, 130, 131, 132, 133, 134)

} // namespace detail

/// wgmma() with the four registers \p a in place of the first tile: two
/// elements each, as for mma.sync.m16n8k16 (for e4m3 four, as for m16n8k32:
/// columns 2 c to 2 c + 3 in place of c and c + 1). Thread t of the warpgroup
/// has rows 16 (t / 32) + t % 32 / 4 (+ 8 in a[1] and a[3]), in them columns 2
/// (t % 4) and the next one (+ 8 in a[2] and a[3]). a must not be changed
/// before the wait for the group (sm_90a).
template <DType kType, int kN, int kTransB>
void wgmmaRegisters(float (&d)[kN / 2], const unsigned *a,
                    unsigned long long descriptorB, int accumulate) {
  static_assert(kType == DType::BF16 || kType == DType::FP16 ||
                    (kType == DType::E4M3 && !kTransB),
                "no such type here");
  static_assert(hasWgmma(kN), "no such width here");
  detail::WgmmaRegistersOf<kN>::template run<kType, kTransB>(d, a, descriptorB,
                                                             accumulate);
}

#undef KILN_WGMMA
#undef KILN_WGMMA_E4M3
#undef KILN_WGMMA_WIDTH

} // namespace kiln::ptx
