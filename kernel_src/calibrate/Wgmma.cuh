//===- calibrate/Wgmma.cuh - rates of wgmma by type and width -------------===//
//
// A group of eight products is issued while the group before runs, on the same
// sums, so that a product waits only for the tensor core, or for the port of
// shared memory: an instruction with 64 rows and N columns reads (64 + N) * 32
// bytes. All warpgroups of a block have columns in common and rows of their
// own. Elements look random: with equal ones the tensor cores need less power,
// and a clock that is held under load would be too high.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "calibrate/Lanes.cuh"
#include "common/PtxSm90.cuh"
#include "common/Wgmma.cuh"
#include "common/WgmmaBytes.cuh"
#include "common/WgmmaTf32.cuh"

namespace kiln::calibrate {

/// The descriptor of the tile at \p address, a multiple of 1024: rows of 128
/// bytes with the 128-byte swizzle.
inline unsigned long long tileDescriptor(unsigned address) {
  constexpr unsigned long long kSwizzle128 = 1ull << 62;
  constexpr unsigned long long kStride = 1024 >> 4, kLeading = 1;
  return kSwizzle128 | kStride << 32 | kLeading << 16 |
         (address & 0x3ffffu) >> 4;
}

template <DType kType, int kN, class Sum>
void multiplyTiles(Sum (&sums)[kN / 2], unsigned long long rows,
                   unsigned long long columns) {
  if constexpr (kType == DType::INT8)
    ptx::wgmmaBytes<DType::INT8, DType::INT8, kN>(sums, rows, columns, 1);
  else
    ptx::wgmma<kType, kN, 0, 0>(sums, rows, columns, 1);
}

template <DType kType, int kN, class Sum>
void runWgmma(const RateParams &params) {
  extern __shared__ unsigned char memory[];
  const unsigned start = ptx::sharedAddress(memory);
  const unsigned begin = (start + 1023) / 1024 * 1024;
  constexpr int kWords = (kN + 64 * kWgmmaGroups) * 128 / 4;
  for (int i = threadIdx.x; i < kWords; i += blockDim.x)
    ptx::stShared32(begin + i * 4, randomPair(i));
  ptx::fenceProxyAsync();
  __syncthreads();
  const unsigned long long columns = tileDescriptor(begin);
  const unsigned long long rows =
      tileDescriptor(begin + (kN + threadIdx.x / 128 * 64) * 128);
  Sum sums[kN / 2] = {};
  Span span = beginSpan();
#pragma unroll 1
  for (int round = 0; round < params.rounds; ++round) {
    ptx::wgmmaFence();
#pragma unroll
    for (int i = 0; i < kWgmmaUnroll; ++i)
      multiplyTiles<kType, kN>(sums, rows + i % 4 * 2, columns + i % 4 * 2);
    ptx::wgmmaCommit();
    ptx::wgmmaWait<1>();
  }
  ptx::wgmmaWait<0>();
  ptx::pin(sums);
  endSpan(span);
  leaveSpan(params, span);
  Sum all = 0;
#pragma unroll
  for (int i = 0; i < kN / 2; ++i)
    all += sums[i];
  sink(params, all);
}

} // namespace kiln::calibrate
