//===- common/Wgmma.cuh - wgmma by its width ------------------------------===//
//
// wgmma.mma_async m64nNk16 (m64nNk32 for e4m3) with both operands in shared
// memory and fp32 sums. Its operand list has N / 2 registers, so each width is
// a text of its own, made by macros from one list of registers. The texts for
// tf32 are in WgmmaTf32.cuh, which only kernels of tf32 include: reading 32
// such texts takes the compiler 8 ms. Source: PTX ISA, asynchronous warpgroup
// level matrix instructions.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"

namespace kiln::ptx {

// The first so many sums: their registers in the text, and their operands.
#define KILN_OUTS_AT(i)                                                        \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define KILN_REGS_4 "%0, %1, %2, %3"
#define KILN_REGS_8 KILN_REGS_4 ", %4, %5, %6, %7"
#define KILN_REGS_12 KILN_REGS_8 ", %8, %9, %10, %11"
#define KILN_REGS_16 KILN_REGS_12 ", %12, %13, %14, %15"
#define KILN_REGS_20 KILN_REGS_16 ", %16, %17, %18, %19"
#define KILN_REGS_24 KILN_REGS_20 ", %20, %21, %22, %23"
#define KILN_REGS_28 KILN_REGS_24 ", %24, %25, %26, %27"
#define KILN_REGS_32 KILN_REGS_28 ", %28, %29, %30, %31"
#define KILN_REGS_36 KILN_REGS_32 ", %32, %33, %34, %35"
#define KILN_REGS_40 KILN_REGS_36 ", %36, %37, %38, %39"
#define KILN_REGS_44 KILN_REGS_40 ", %40, %41, %42, %43"
#define KILN_REGS_48 KILN_REGS_44 ", %44, %45, %46, %47"
#define KILN_REGS_52 KILN_REGS_48 ", %48, %49, %50, %51"
#define KILN_REGS_56 KILN_REGS_52 ", %52, %53, %54, %55"
#define KILN_REGS_60 KILN_REGS_56 ", %56, %57, %58, %59"
#define KILN_REGS_64 KILN_REGS_60 ", %60, %61, %62, %63"
#define KILN_REGS_68 KILN_REGS_64 ", %64, %65, %66, %67"
#define KILN_REGS_72 KILN_REGS_68 ", %68, %69, %70, %71"
#define KILN_REGS_76 KILN_REGS_72 ", %72, %73, %74, %75"
#define KILN_REGS_80 KILN_REGS_76 ", %76, %77, %78, %79"
#define KILN_REGS_84 KILN_REGS_80 ", %80, %81, %82, %83"
#define KILN_REGS_88 KILN_REGS_84 ", %84, %85, %86, %87"
#define KILN_REGS_92 KILN_REGS_88 ", %88, %89, %90, %91"
#define KILN_REGS_96 KILN_REGS_92 ", %92, %93, %94, %95"
#define KILN_REGS_100 KILN_REGS_96 ", %96, %97, %98, %99"
#define KILN_REGS_104 KILN_REGS_100 ", %100, %101, %102, %103"
#define KILN_REGS_108 KILN_REGS_104 ", %104, %105, %106, %107"
#define KILN_REGS_112 KILN_REGS_108 ", %108, %109, %110, %111"
#define KILN_REGS_116 KILN_REGS_112 ", %112, %113, %114, %115"
#define KILN_REGS_120 KILN_REGS_116 ", %116, %117, %118, %119"
#define KILN_REGS_124 KILN_REGS_120 ", %120, %121, %122, %123"
#define KILN_REGS_128 KILN_REGS_124 ", %124, %125, %126, %127"
#define KILN_OUTS_4 KILN_OUTS_AT(0)
#define KILN_OUTS_8 KILN_OUTS_4, KILN_OUTS_AT(4)
#define KILN_OUTS_12 KILN_OUTS_8, KILN_OUTS_AT(8)
#define KILN_OUTS_16 KILN_OUTS_12, KILN_OUTS_AT(12)
#define KILN_OUTS_20 KILN_OUTS_16, KILN_OUTS_AT(16)
#define KILN_OUTS_24 KILN_OUTS_20, KILN_OUTS_AT(20)
#define KILN_OUTS_28 KILN_OUTS_24, KILN_OUTS_AT(24)
#define KILN_OUTS_32 KILN_OUTS_28, KILN_OUTS_AT(28)
#define KILN_OUTS_36 KILN_OUTS_32, KILN_OUTS_AT(32)
#define KILN_OUTS_40 KILN_OUTS_36, KILN_OUTS_AT(36)
#define KILN_OUTS_44 KILN_OUTS_40, KILN_OUTS_AT(40)
#define KILN_OUTS_48 KILN_OUTS_44, KILN_OUTS_AT(44)
#define KILN_OUTS_52 KILN_OUTS_48, KILN_OUTS_AT(48)
#define KILN_OUTS_56 KILN_OUTS_52, KILN_OUTS_AT(52)
#define KILN_OUTS_60 KILN_OUTS_56, KILN_OUTS_AT(56)
#define KILN_OUTS_64 KILN_OUTS_60, KILN_OUTS_AT(60)
#define KILN_OUTS_68 KILN_OUTS_64, KILN_OUTS_AT(64)
#define KILN_OUTS_72 KILN_OUTS_68, KILN_OUTS_AT(68)
#define KILN_OUTS_76 KILN_OUTS_72, KILN_OUTS_AT(72)
#define KILN_OUTS_80 KILN_OUTS_76, KILN_OUTS_AT(76)
#define KILN_OUTS_84 KILN_OUTS_80, KILN_OUTS_AT(80)
#define KILN_OUTS_88 KILN_OUTS_84, KILN_OUTS_AT(84)
#define KILN_OUTS_92 KILN_OUTS_88, KILN_OUTS_AT(88)
#define KILN_OUTS_96 KILN_OUTS_92, KILN_OUTS_AT(92)
#define KILN_OUTS_100 KILN_OUTS_96, KILN_OUTS_AT(96)
#define KILN_OUTS_104 KILN_OUTS_100, KILN_OUTS_AT(100)
#define KILN_OUTS_108 KILN_OUTS_104, KILN_OUTS_AT(104)
#define KILN_OUTS_112 KILN_OUTS_108, KILN_OUTS_AT(108)
#define KILN_OUTS_116 KILN_OUTS_112, KILN_OUTS_AT(112)
#define KILN_OUTS_120 KILN_OUTS_116, KILN_OUTS_AT(116)
#define KILN_OUTS_124 KILN_OUTS_120, KILN_OUTS_AT(120)
#define KILN_OUTS_128 KILN_OUTS_124, KILN_OUTS_AT(124)

#define KILN_WGMMA(n, count, type, a, b, scale, transA, transB)                \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #scale ", 0;\n"            \
               "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type \
               " {" KILN_REGS_##count                                          \
               "}, %" #a ", %" #b ", p, 1, 1, %" #transA ", %" #transB ";\n}"  \
               : KILN_OUTS_##count                                             \
               : "l"(descriptorA), "l"(descriptorB), "r"(accumulate),          \
                 "n"(kTransA), "n"(kTransB))
#define KILN_WGMMA_E4M3(n, count, a, b, scale)                                 \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #scale ", 0;\n"            \
               "wgmma.mma_async.sync.aligned.m64n" #n "k32.f32.e4m3.e4m3"      \
               " {" KILN_REGS_##count "}, %" #a ", %" #b ", p, 1, 1;\n}"       \
               : KILN_OUTS_##count                                             \
               : "l"(descriptorA), "l"(descriptorB), "r"(accumulate))
/// Width \p n has \p count sums; the other operands follow them.
#define KILN_WGMMA_WIDTH(n, count, b, scale, transA, transB)                   \
  template <> struct WgmmaOf<n> {                                              \
    template <DType kType, int kTransA, int kTransB>                           \
    static void run(float (&d)[n / 2], unsigned long long descriptorA,         \
                    unsigned long long descriptorB, int accumulate) {          \
      if constexpr (kType == DType::BF16)                                      \
        KILN_WGMMA(n, count, "bf16", count, b, scale, transA, transB);         \
      else if constexpr (kType == DType::E4M3)                                 \
        KILN_WGMMA_E4M3(n, count, count, b, scale);                            \
      else                                                                     \
        KILN_WGMMA(n, count, "f16", count, b, scale, transA, transB);          \
    }                                                                          \
  };

namespace detail {

/// The instruction of one width. (Each width is a class: in one function with
/// all of them the compiler's front end would go over each operand at each
/// use.)
template <int kN> struct WgmmaOf;

KILN_WGMMA_WIDTH(8, 4, 5, 6, 7, 8)
KILN_WGMMA_WIDTH(16, 8, 9, 10, 11, 12)
KILN_WGMMA_WIDTH(24, 12, 13, 14, 15, 16)
KILN_WGMMA_WIDTH(32, 16, 17, 18, 19, 20)
KILN_WGMMA_WIDTH(40, 20, 21, 22, 23, 24)
KILN_WGMMA_WIDTH(48, 24, 25, 26, 27, 28)
KILN_WGMMA_WIDTH(56, 28, 29, 30, 31, 32)
KILN_WGMMA_WIDTH(64, 32, 33, 34, 35, 36)
KILN_WGMMA_WIDTH(72, 36, 37, 38, 39, 40)
KILN_WGMMA_WIDTH(80, 40, 41, 42, 43, 44)
KILN_WGMMA_WIDTH(88, 44, 45, 46, 47, 48)
KILN_WGMMA_WIDTH(96, 48, 49, 50, 51, 52)
KILN_WGMMA_WIDTH(104, 52, 53, 54, 55, 56)
KILN_WGMMA_WIDTH(112, 56, 57, 58, 59, 60)
KILN_WGMMA_WIDTH(120, 60, 61, 62, 63, 64)
KILN_WGMMA_WIDTH(128, 64, 65, 66, 67, 68)
KILN_WGMMA_WIDTH(136, 68, 69, 70, 71, 72)
KILN_WGMMA_WIDTH(144, 72, 73, 74, 75, 76)
KILN_WGMMA_WIDTH(152, 76, 77, 78, 79, 80)
KILN_WGMMA_WIDTH(160, 80, 81, 82, 83, 84)
KILN_WGMMA_WIDTH(168, 84, 85, 86, 87, 88)
KILN_WGMMA_WIDTH(176, 88, 89, 90, 91, 92)
KILN_WGMMA_WIDTH(184, 92, 93, 94, 95, 96)
KILN_WGMMA_WIDTH(192, 96, 97, 98, 99, 100)
KILN_WGMMA_WIDTH(200, 100, 101, 102, 103, 104)
KILN_WGMMA_WIDTH(208, 104, 105, 106, 107, 108)
KILN_WGMMA_WIDTH(216, 108, 109, 110, 111, 112)
KILN_WGMMA_WIDTH(224, 112, 113, 114, 115, 116)
KILN_WGMMA_WIDTH(232, 116, 117, 118, 119, 120)
KILN_WGMMA_WIDTH(240, 120, 121, 122, 123, 124)
KILN_WGMMA_WIDTH(248, 124, 125, 126, 127, 128)
KILN_WGMMA_WIDTH(256, 128, 129, 130, 131, 132)

/// The instruction for tf32, in WgmmaTf32.cuh.
template <int kN> struct WgmmaTf32Of;
/// The instruction for fp8 and int8, in WgmmaBytes.cuh.
template <int kN> struct WgmmaBytesOf;

} // namespace detail

/// Widths that wgmma() supports.
constexpr bool hasWgmma(int n) { return n >= 8 && n <= 256 && n % 8 == 0; }

/// Elements along k of one instruction: 32 bytes.
constexpr int wgmmaDepth(DType type) { return 32 / bytesOf(type); }

/// d (64 x kN) += A B, or = where \p accumulate is 0, for tiles of 64 x 16 and
/// 16 x kN (for other types wgmmaDepth() elements along k) that the descriptors
/// name. kTrans: the tile's rows run along k, which e4m3 and fp32 do not allow.
/// fp32 is multiplied as tf32: its low 13 bits are not read. Sums are laid out
/// as for mma.sync: warp w of the warpgroup has rows 16 w + lane / 4 (+ 8),
/// with columns 8 j + 2 (lane % 4) and the next in d[4 j] to d[4 j + 3]. d must
/// not be touched before the wait for the group (sm_90a).
template <DType kType, int kN, int kTransA, int kTransB>
void wgmma(float (&d)[kN / 2], unsigned long long descriptorA,
           unsigned long long descriptorB, int accumulate) {
  static_assert(kType == DType::BF16 || kType == DType::FP16 ||
                    ((kType == DType::E4M3 || kType == DType::FP32) &&
                     !kTransA && !kTransB),
                "no such type here");
  static_assert(hasWgmma(kN), "no such width here");
  if constexpr (kType == DType::FP32)
    detail::WgmmaTf32Of<kN>::run(d, descriptorA, descriptorB, accumulate);
  else
    detail::WgmmaOf<kN>::template run<kType, kTransA, kTransB>(
        d, descriptorA, descriptorB, accumulate);
}

/// wgmma() for types of one byte, with both tiles along k: any two of fp8 with
/// fp32 sums, or two of int8 with int32 sums.
template <DType kTypeA, DType kTypeB, int kN, class Sum>
void wgmmaBytes(Sum (&d)[kN / 2], unsigned long long descriptorA,
                unsigned long long descriptorB, int accumulate) {
  static_assert(hasWgmma(kN), "no such width here");
  detail::WgmmaBytesOf<kN>::template run<kTypeA, kTypeB>(
      d, descriptorA, descriptorB, accumulate);
}

/// wgmma() for tf32 with the four registers \p a in place of the first tile,
/// one element each, as for mma.sync.m16n8k8. Thread t of the warpgroup has
/// rows 16 (t / 32) + t % 32 / 4 (+ 8 in a[1] and a[3]), in them column t % 4
/// (+ 4 in a[2] and a[3]). a must not be changed before the wait for the group
/// (sm_90a).
template <int kN>
void wgmmaTf32Registers(float (&d)[kN / 2], const unsigned *a,
                        unsigned long long descriptorB, int accumulate) {
  static_assert(hasWgmma(kN), "no such width here");
  detail::WgmmaTf32Of<kN>::run(d, a, descriptorB, accumulate);
}

#undef KILN_WGMMA
#undef KILN_WGMMA_E4M3
#undef KILN_WGMMA_WIDTH

} // namespace kiln::ptx
