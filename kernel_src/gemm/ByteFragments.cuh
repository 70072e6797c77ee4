//===- gemm/ByteFragments.cuh - fragments of one byte an element ----------===//
//
// A register of an mma.sync fragment holds four neighbours along k. Where fp8
// has no instruction of its own, a fragment of 32 of k becomes two fp16
// fragments of 16: the first has the registers of the lower half of k, the
// second those of the upper half. In each register bytes 0 and 1 become the
// pair in the lower half of the instruction's k, and bytes 2 and 3 the pair in
// the upper half. This order of k differs from that in memory, but A and B
// share it, so no element has to change its lane.
//
// Without the instruction that converts e4m3 (below sm_89) its bits are moved
// to the place of fp16's bits, which scales its value by 2^-8; the sums make up
// for that.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/MmaBytes.cuh"
#include "common/Ptx.cuh"
#include "gemm/ByteProducts.h"

namespace kiln {

/// Products of one-byte types on the target architecture.
inline constexpr int kByteCapability = __CUDA_ARCH__ / 10;

/// The type of the sums.
template <bool kIsInt> struct SumOf { using Type = float; };
template <> struct SumOf<true> { using Type = int; };
template <GemmSignature kSignature>
using ProductSum = typename SumOf<kSignature.in == DType::INT8>::Type;

/// True where e4m3 is converted by an instruction.
inline constexpr bool kHasE4m3Conversion = kByteCapability >= 89;

/// Two fp16 from the e4m3 in the upper bytes of two halves, times 2^-8; NaN
/// stays NaN.
inline unsigned halvesOfE4m3(unsigned bytes) {
  unsigned size = bytes >> 1 & 0x3f803f80u;
  // The sum reaches bit 14 for NaN (0x7f) alone, and gives an exponent of ones.
  unsigned nan = (size + 0x00800080u) & 0x40004000u;
  return (bytes & 0x80008000u) | size | nan;
}

/// Converts four fp8 to fp16: bytes 0 and 1 of \p word, and bytes 2 and 3.
template <DType kType>
void convertFp8(unsigned &low, unsigned &high, unsigned word) {
  if constexpr (kType == DType::E4M3 && kHasE4m3Conversion) {
    low = ptx::cvtRnF16x2E4m3x2(static_cast<unsigned short>(word));
    high = ptx::cvtRnF16x2E4m3x2(static_cast<unsigned short>(word >> 16));
  } else {
    // Each byte above a byte of zeros is an fp16 with the value of the e5m2.
    low = ptx::prmt(word, 0, 0x1404);
    high = ptx::prmt(word, 0, 0x3424);
    if constexpr (kType == DType::E4M3) {
      low = halvesOfE4m3(low);
      high = halvesOfE4m3(high);
    }
  }
}

/// The factor that an element needs after convertFp8.
constexpr float fp8Factor(DType type) {
  return type == DType::E4M3 && !kHasE4m3Conversion ? 256.0f : 1.0f;
}

/// The factor that the sums of multiplyBytes need.
template <GemmSignature kSignature> constexpr float byteFactor() {
  if (byteProductOf(kSignature, kByteCapability) != ByteProduct::Converted)
    return 1.0f;
  return fp8Factor(kSignature.in) * fp8Factor(kSignature.typeB());
}

/// Adds the products of 32 of k: kTilesA fragments of 16 rows of kTypeA by
/// kTilesB fragments of 8 columns of kTypeB, whose registers lie in pairs.
template <ByteProduct kProduct, DType kTypeA, DType kTypeB, class Sum,
          int kTilesA, int kTilesB, int kPairs>
void multiplyBytes(Sum (&sums)[kTilesA][kTilesB][4],
                   const unsigned (&a)[kTilesA][4],
                   const unsigned (&b)[kPairs][4]) {
  static_assert(kPairs == (kTilesB + 1) / 2, "B has another number of pairs");
  auto forEachTile = [&](auto &&multiply) {
#pragma unroll
    for (int i = 0; i < kTilesA; ++i)
#pragma unroll
      for (int step = 0; step < kTilesB; ++step) {
        // Back and forth, so that neighbouring products share a fragment of B.
        int j = i % 2 == 0 ? step : kTilesB - 1 - step;
        multiply(i, j);
      }
  };
  if constexpr (kProduct == ByteProduct::Int8)
    forEachTile([&](int i, int j) {
      ptx::mmaS8(sums[i][j], a[i], b[j / 2][j % 2 * 2],
                 b[j / 2][j % 2 * 2 + 1]);
    });
  else if constexpr (kProduct == ByteProduct::Fp8)
    forEachTile([&](int i, int j) {
      ptx::mmaFp8<kTypeA, kTypeB>(sums[i][j], a[i], b[j / 2][j % 2 * 2],
                                  b[j / 2][j % 2 * 2 + 1]);
    });
  else {
    // (half of k, row or column fragment, register)
    unsigned rows[2][kTilesA][4], columns[2][kTilesB][2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < kTilesA; ++i)
#pragma unroll
        for (int r = 0; r < 2; ++r)
          convertFp8<kTypeA>(rows[half][i][r], rows[half][i][r + 2],
                             a[i][half * 2 + r]);
#pragma unroll
      for (int j = 0; j < kTilesB; ++j)
        convertFp8<kTypeB>(columns[half][j][0], columns[half][j][1],
                           b[j / 2][j % 2 * 2 + half]);
      forEachTile([&](int i, int j) {
        ptx::mmaFp16(sums[i][j], rows[half][i], columns[half][j][0],
                     columns[half][j][1]);
      });
    }
  }
}

} // namespace kiln
