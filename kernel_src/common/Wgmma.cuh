//===- common/Wgmma.cuh - wgmma by its width ------------------------------===//
//
// wgmma.mma_async m64nNk16 with both operands in shared memory, fp32 sums. Its
// operand list has N / 2 registers, so each width is a text of its own, made by
// macros from one list of registers. Source: PTX ISA, asynchronous warpgroup
// level matrix instructions.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"

namespace kiln::ptx {

#define KILN_REGS_4 "%0, %1, %2, %3"
#define KILN_OUTS_4 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define KILN_REGS_8 KILN_REGS_4 ", %4, %5, %6, %7"
#define KILN_OUTS_8 KILN_OUTS_4, "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define KILN_REGS_12 KILN_REGS_8 ", %8, %9, %10, %11"
#define KILN_OUTS_12                                                           \
  KILN_OUTS_8, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define KILN_REGS_16 KILN_REGS_12 ", %12, %13, %14, %15"
#define KILN_OUTS_16                                                           \
  KILN_OUTS_12, "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define KILN_REGS_24 KILN_REGS_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define KILN_OUTS_24                                                           \
  KILN_OUTS_16, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),            \
      "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define KILN_REGS_32 KILN_REGS_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define KILN_OUTS_32                                                           \
  KILN_OUTS_24, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),            \
      "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define KILN_REGS_40 KILN_REGS_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define KILN_OUTS_40                                                           \
  KILN_OUTS_32, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),            \
      "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define KILN_REGS_48 KILN_REGS_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define KILN_OUTS_48                                                           \
  KILN_OUTS_40, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),            \
      "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define KILN_REGS_56 KILN_REGS_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define KILN_OUTS_56                                                           \
  KILN_OUTS_48, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]),            \
      "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define KILN_REGS_64 KILN_REGS_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define KILN_OUTS_64                                                           \
  KILN_OUTS_56, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),            \
      "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define KILN_REGS_72 KILN_REGS_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define KILN_OUTS_72                                                           \
  KILN_OUTS_64, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]),            \
      "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define KILN_REGS_80 KILN_REGS_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define KILN_OUTS_80                                                           \
  KILN_OUTS_72, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]),            \
      "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define KILN_REGS_88 KILN_REGS_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define KILN_OUTS_88                                                           \
  KILN_OUTS_80, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]),            \
      "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define KILN_REGS_96 KILN_REGS_88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define KILN_OUTS_96                                                           \
  KILN_OUTS_88, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]),            \
      "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define KILN_REGS_104                                                          \
  KILN_REGS_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define KILN_OUTS_104                                                          \
  KILN_OUTS_96, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]),            \
      "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define KILN_REGS_112                                                          \
  KILN_REGS_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define KILN_OUTS_112                                                          \
  KILN_OUTS_104, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]),       \
      "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define KILN_REGS_120                                                          \
  KILN_REGS_112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define KILN_OUTS_120                                                          \
  KILN_OUTS_112, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]),       \
      "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define KILN_REGS_128                                                          \
  KILN_REGS_120 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define KILN_OUTS_128                                                          \
  KILN_OUTS_120, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]),       \
      "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

#define KILN_WGMMA(n, count, type, a, b, scale, transA, transB)                \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #scale ", 0;\n"            \
               "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type \
               " {" KILN_REGS_##count                                          \
               "}, %" #a ", %" #b ", p, 1, 1, %" #transA ", %" #transB ";\n}"  \
               : KILN_OUTS_##count                                             \
               : "l"(descriptorA), "l"(descriptorB), "r"(accumulate),          \
                 "n"(kTransA), "n"(kTransB))
#define KILN_WGMMA_WIDTH(n, count, a, b, scale, transA, transB)                \
  template <> struct WgmmaOf<n> {                                              \
    template <DType kType, int kTransA, int kTransB>                           \
    static void run(float (&d)[n / 2], unsigned long long descriptorA,         \
                    unsigned long long descriptorB, int accumulate) {          \
      if constexpr (kType == DType::BF16)                                      \
        KILN_WGMMA(n, count, "bf16", a, b, scale, transA, transB);             \
      else                                                                     \
        KILN_WGMMA(n, count, "f16", a, b, scale, transA, transB);              \
    }                                                                          \
  };

namespace detail {

/// The instruction of one width. (A class for each: of one function with all
/// of them the compiler's front end goes over each operand at each use.)
template <int kN> struct WgmmaOf;

KILN_WGMMA_WIDTH(8, 4, 4, 5, 6, 7, 8)
KILN_WGMMA_WIDTH(16, 8, 8, 9, 10, 11, 12)
KILN_WGMMA_WIDTH(24, 12, 12, 13, 14, 15, 16)
KILN_WGMMA_WIDTH(32, 16, 16, 17, 18, 19, 20)
KILN_WGMMA_WIDTH(48, 24, 24, 25, 26, 27, 28)
KILN_WGMMA_WIDTH(64, 32, 32, 33, 34, 35, 36)
KILN_WGMMA_WIDTH(80, 40, 40, 41, 42, 43, 44)
KILN_WGMMA_WIDTH(96, 48, 48, 49, 50, 51, 52)
KILN_WGMMA_WIDTH(112, 56, 56, 57, 58, 59, 60)
KILN_WGMMA_WIDTH(128, 64, 64, 65, 66, 67, 68)
KILN_WGMMA_WIDTH(144, 72, 72, 73, 74, 75, 76)
KILN_WGMMA_WIDTH(160, 80, 80, 81, 82, 83, 84)
KILN_WGMMA_WIDTH(176, 88, 88, 89, 90, 91, 92)
KILN_WGMMA_WIDTH(192, 96, 96, 97, 98, 99, 100)
KILN_WGMMA_WIDTH(208, 104, 104, 105, 106, 107, 108)
KILN_WGMMA_WIDTH(224, 112, 112, 113, 114, 115, 116)
KILN_WGMMA_WIDTH(240, 120, 120, 121, 122, 123, 124)
KILN_WGMMA_WIDTH(256, 128, 128, 129, 130, 131, 132)

} // namespace detail

/// Widths that wgmma() knows.
constexpr bool hasWgmma(int n) {
  return n == 8 || n == 24 || (n >= 16 && n <= 256 && n % 16 == 0);
}

/// d (64 x kN) += A B, or = where \p accumulate is 0, for tiles of 64 x 16 and
/// 16 x kN that the descriptors name; kTrans: the tile's rows run along k. Sums
/// as of mma.sync: warp w of the warpgroup has rows 16 w + lane / 4 (+ 8), of
/// columns 8 j + 2 (lane % 4) and the next in d[4 j] to d[4 j + 3]. Not before
/// the group is waited for may d be touched (sm_90a).
template <DType kType, int kN, int kTransA, int kTransB>
void wgmma(float (&d)[kN / 2], unsigned long long descriptorA,
           unsigned long long descriptorB, int accumulate) {
  static_assert(kType == DType::BF16 || kType == DType::FP16,
                "k is 16 for elements of two bytes only");
  static_assert(hasWgmma(kN), "no such width here");
  detail::WgmmaOf<kN>::template run<kType, kTransA, kTransB>(
      d, descriptorA, descriptorB, accumulate);
}

#undef KILN_REGS_4
#undef KILN_OUTS_4
#undef KILN_REGS_8
#undef KILN_OUTS_8
#undef KILN_REGS_12
#undef KILN_OUTS_12
#undef KILN_REGS_16
#undef KILN_OUTS_16
#undef KILN_REGS_24
#undef KILN_OUTS_24
#undef KILN_REGS_32
#undef KILN_OUTS_32
#undef KILN_REGS_40
#undef KILN_OUTS_40
#undef KILN_REGS_48
#undef KILN_OUTS_48
#undef KILN_REGS_56
#undef KILN_OUTS_56
#undef KILN_REGS_64
#undef KILN_OUTS_64
#undef KILN_REGS_72
#undef KILN_OUTS_72
#undef KILN_REGS_80
#undef KILN_OUTS_80
#undef KILN_REGS_88
#undef KILN_OUTS_88
#undef KILN_REGS_96
#undef KILN_OUTS_96
#undef KILN_REGS_104
#undef KILN_OUTS_104
#undef KILN_REGS_112
#undef KILN_OUTS_112
#undef KILN_REGS_120
#undef KILN_OUTS_120
#undef KILN_REGS_128
#undef KILN_OUTS_128
#undef KILN_WGMMA
#undef KILN_WGMMA_WIDTH

} // namespace kiln::ptx
