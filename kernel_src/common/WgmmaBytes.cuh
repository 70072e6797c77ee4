//===- common/WgmmaBytes.cuh - wgmma of one-byte types by its width -------===//
//
// wgmma.mma_async m64nNk32 for fp8 with fp32 sums, with two types in any order,
// and for int8 with int32 sums; both operands are in shared memory. Implements
// wgmmaBytes() of Wgmma.cuh. Source: PTX ISA, asynchronous warpgroup level
// matrix instructions.
//
// An fp8 sum keeps 13 bits of its mantissa: see GemmSignature::isPromoted().
// int8 has all widths up to 24, and multiples of 16 from 32 on.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Wgmma.cuh"

namespace kiln::ptx::detail {

#define KILN_INTS_AT(i)                                                        \
  "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define KILN_INTS_4 KILN_INTS_AT(0)
#define KILN_INTS_8 KILN_INTS_4, KILN_INTS_AT(4)
#define KILN_INTS_12 KILN_INTS_8, KILN_INTS_AT(8)
#define KILN_INTS_16 KILN_INTS_12, KILN_INTS_AT(12)
#define KILN_INTS_20 KILN_INTS_16, KILN_INTS_AT(16)
#define KILN_INTS_24 KILN_INTS_20, KILN_INTS_AT(20)
#define KILN_INTS_28 KILN_INTS_24, KILN_INTS_AT(24)
#define KILN_INTS_32 KILN_INTS_28, KILN_INTS_AT(28)
#define KILN_INTS_36 KILN_INTS_32, KILN_INTS_AT(32)
#define KILN_INTS_40 KILN_INTS_36, KILN_INTS_AT(36)
#define KILN_INTS_44 KILN_INTS_40, KILN_INTS_AT(40)
#define KILN_INTS_48 KILN_INTS_44, KILN_INTS_AT(44)
#define KILN_INTS_52 KILN_INTS_48, KILN_INTS_AT(48)
#define KILN_INTS_56 KILN_INTS_52, KILN_INTS_AT(52)
#define KILN_INTS_60 KILN_INTS_56, KILN_INTS_AT(56)
#define KILN_INTS_64 KILN_INTS_60, KILN_INTS_AT(60)
#define KILN_INTS_68 KILN_INTS_64, KILN_INTS_AT(64)
#define KILN_INTS_72 KILN_INTS_68, KILN_INTS_AT(68)
#define KILN_INTS_76 KILN_INTS_72, KILN_INTS_AT(72)
#define KILN_INTS_80 KILN_INTS_76, KILN_INTS_AT(76)
#define KILN_INTS_84 KILN_INTS_80, KILN_INTS_AT(80)
#define KILN_INTS_88 KILN_INTS_84, KILN_INTS_AT(84)
#define KILN_INTS_92 KILN_INTS_88, KILN_INTS_AT(88)
#define KILN_INTS_96 KILN_INTS_92, KILN_INTS_AT(92)
#define KILN_INTS_100 KILN_INTS_96, KILN_INTS_AT(96)
#define KILN_INTS_104 KILN_INTS_100, KILN_INTS_AT(100)
#define KILN_INTS_108 KILN_INTS_104, KILN_INTS_AT(104)
#define KILN_INTS_112 KILN_INTS_108, KILN_INTS_AT(108)
#define KILN_INTS_116 KILN_INTS_112, KILN_INTS_AT(112)
#define KILN_INTS_120 KILN_INTS_116, KILN_INTS_AT(116)
#define KILN_INTS_124 KILN_INTS_120, KILN_INTS_AT(120)
#define KILN_INTS_128 KILN_INTS_124, KILN_INTS_AT(124)

#define KILN_WGMMA_BYTES(n, count, sum, types, outs, a, b, scale, scales)      \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #scale ", 0;\n"            \
               "wgmma.mma_async.sync.aligned.m64n" #n "k32." sum "." types     \
               " {" KILN_REGS_##count "}, %" #a ", %" #b ", p" scales ";\n}"   \
               : outs##count                                                   \
               : "l"(descriptorA), "l"(descriptorB), "r"(accumulate))
/// Width \p n has \p count sums; the other operands follow them.
#define KILN_WGMMA_FP8_RUN(n, count, a, b, scale)                              \
  template <DType kTypeA, DType kTypeB>                                        \
  static void run(float(&d)[n / 2], unsigned long long descriptorA,            \
                  unsigned long long descriptorB, int accumulate) {            \
    if constexpr (kTypeA == DType::E4M3 && kTypeB == DType::E4M3)              \
      KILN_WGMMA_BYTES(n, count, "f32", "e4m3.e4m3", KILN_OUTS_, a, b, scale,  \
                       ", 1, 1");                                              \
    else if constexpr (kTypeA == DType::E4M3)                                  \
      KILN_WGMMA_BYTES(n, count, "f32", "e4m3.e5m2", KILN_OUTS_, a, b, scale,  \
                       ", 1, 1");                                              \
    else if constexpr (kTypeB == DType::E4M3)                                  \
      KILN_WGMMA_BYTES(n, count, "f32", "e5m2.e4m3", KILN_OUTS_, a, b, scale,  \
                       ", 1, 1");                                              \
    else                                                                       \
      KILN_WGMMA_BYTES(n, count, "f32", "e5m2.e5m2", KILN_OUTS_, a, b, scale,  \
                       ", 1, 1");                                              \
  }
#define KILN_WGMMA_FP8_WIDTH(n, count, b, scale)                               \
  template <> struct WgmmaBytesOf<n> {                                         \
    KILN_WGMMA_FP8_RUN(n, count, count, b, scale)                              \
  };
#define KILN_WGMMA_BYTES_WIDTH(n, count, b, scale)                             \
  template <> struct WgmmaBytesOf<n> {                                         \
    KILN_WGMMA_FP8_RUN(n, count, count, b, scale)                              \
    template <DType kTypeA, DType kTypeB>                                      \
    static void run(int (&d)[n / 2], unsigned long long descriptorA,           \
                    unsigned long long descriptorB, int accumulate) {          \
      KILN_WGMMA_BYTES(n, count, "s32", "s8.s8", KILN_INTS_, count, b, scale,  \
                       "");                                                    \
    }                                                                          \
  };

KILN_WGMMA_BYTES_WIDTH(8, 4, 5, 6)
KILN_WGMMA_BYTES_WIDTH(16, 8, 9, 10)
KILN_WGMMA_BYTES_WIDTH(24, 12, 13, 14)
KILN_WGMMA_BYTES_WIDTH(32, 16, 17, 18)
KILN_WGMMA_FP8_WIDTH(40, 20, 21, 22)
KILN_WGMMA_BYTES_WIDTH(48, 24, 25, 26)
KILN_WGMMA_FP8_WIDTH(56, 28, 29, 30)
KILN_WGMMA_BYTES_WIDTH(64, 32, 33, 34)
KILN_WGMMA_FP8_WIDTH(72, 36, 37, 38)
KILN_WGMMA_BYTES_WIDTH(80, 40, 41, 42)
KILN_WGMMA_FP8_WIDTH(88, 44, 45, 46)
KILN_WGMMA_BYTES_WIDTH(96, 48, 49, 50)
KILN_WGMMA_FP8_WIDTH(104, 52, 53, 54)
KILN_WGMMA_BYTES_WIDTH(112, 56, 57, 58)
KILN_WGMMA_FP8_WIDTH(120, 60, 61, 62)
KILN_WGMMA_BYTES_WIDTH(128, 64, 65, 66)
KILN_WGMMA_FP8_WIDTH(136, 68, 69, 70)
KILN_WGMMA_BYTES_WIDTH(144, 72, 73, 74)
KILN_WGMMA_FP8_WIDTH(152, 76, 77, 78)
KILN_WGMMA_BYTES_WIDTH(160, 80, 81, 82)
KILN_WGMMA_FP8_WIDTH(168, 84, 85, 86)
KILN_WGMMA_BYTES_WIDTH(176, 88, 89, 90)
KILN_WGMMA_FP8_WIDTH(184, 92, 93, 94)
KILN_WGMMA_BYTES_WIDTH(192, 96, 97, 98)
KILN_WGMMA_FP8_WIDTH(200, 100, 101, 102)
KILN_WGMMA_BYTES_WIDTH(208, 104, 105, 106)
KILN_WGMMA_FP8_WIDTH(216, 108, 109, 110)
KILN_WGMMA_BYTES_WIDTH(224, 112, 113, 114)
KILN_WGMMA_FP8_WIDTH(232, 116, 117, 118)
KILN_WGMMA_BYTES_WIDTH(240, 120, 121, 122)
KILN_WGMMA_FP8_WIDTH(248, 124, 125, 126)
KILN_WGMMA_BYTES_WIDTH(256, 128, 129, 130)

#undef KILN_INTS_AT
#undef KILN_WGMMA_BYTES
#undef KILN_WGMMA_FP8_RUN
#undef KILN_WGMMA_FP8_WIDTH
#undef KILN_WGMMA_BYTES_WIDTH

} // namespace kiln::ptx::detail
