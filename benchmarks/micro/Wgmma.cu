//===- micro/Wgmma.cu - clocks of consecutive wgmma -----------------------===//
//
// A group of eight products is issued while the group before runs, on the same
// sums, so that a product waits only for the tensor core, or for the port of
// shared memory: an instruction with 64 rows and N columns reads (64 + N) * 32
// bytes, or N * 32 with A in registers. All warpgroups read the same tiles, so
// their descriptors are the same in all threads; different ones would go
// through R2UR, two more instructions for each product.
//
//===----------------------------------------------------------------------===//
#include "Instructions.cuh"
#include "Micro.h"

namespace micro {
namespace {

constexpr int kGroup = 8, kTileRows = 64;

/// 1.0 of e4m3, and a small number in any other type.
constexpr unsigned kElements = 0x38383838u;

__host__ __device__ constexpr int wordsOf(int columns) {
  return (columns + kTileRows) * kRowBytes / 4;
}

template <Product kProduct, int kN, bool kFromRegisters>
__global__ void __launch_bounds__(256, 1)
    backToBack(int groups, Span *spans, unsigned *sink) {
  extern __shared__ unsigned char memory[];
  unsigned char *tiles = atomsOf(memory);
  constexpr int kWords = wordsOf(kN);
  for (int i = threadIdx.x; i < kWords; i += blockDim.x)
    reinterpret_cast<unsigned *>(tiles)[i] = kElements;
  fenceProxyAsync();
  __syncthreads();

  unsigned long long columns = descriptorOf(sharedAddress(tiles));
  unsigned long long rows = descriptorOf(sharedAddress(tiles) + kN * kRowBytes);
  unsigned sums[kN / 2] = {};
  unsigned fragment[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    fragment[i] = reinterpret_cast<volatile unsigned *>(tiles)[i];
  long long begin = clockNow();
#pragma unroll 1
  for (int group = 0; group < groups; ++group) {
    wgmmaFence();
#pragma unroll
    for (int i = 0; i < kGroup; ++i)
      if constexpr (kFromRegisters)
        wgmma<kN>(sums, fragment, columns + stepOffset(i % 4), 1);
      else
        wgmma<kProduct, kN>(sums, rows + stepOffset(i % 4),
                            columns + stepOffset(i % 4), 1);
    wgmmaCommit();
    wgmmaWait<1>();
  }
  wgmmaWait<0>();
  pin(sums);
  long long end = clockNow();
  if (threadIdx.x % 32 == 0)
    spans[threadIdx.x / 32] = {begin, end};
  unsigned all = 0;
#pragma unroll
  for (int i = 0; i < kN / 2; ++i)
    all ^= sums[i];
  sink[threadIdx.x] = all;
}

template <Product kProduct, int kN, bool kFromRegisters>
double clocksOfProduct(int warpgroups) {
  Buffer<Span> spans(8);
  Buffer<unsigned> sink(256);
  constexpr int kGroups = 64;
  double round = clocksOfRound(kGroups, [&](int groups) {
    launch(backToBack<kProduct, kN, kFromRegisters>,
           {1, 128 * warpgroups, wordsOf(kN) * 4 + kAtomBytes}, groups,
           spans.data(), sink.data());
    return clocksOf(spans.values());
  });
  return round / (kGroup * warpgroups);
}

template <Product kProduct, int kN, bool kFromRegisters = false>
void addWidth(Report &report, const std::string &kind) {
  report.add(
      "wgmma/" + kind + "/n" + std::to_string(kN),
      {{"n", kN},
       {"clocks", clocksOfProduct<kProduct, kN, kFromRegisters>(1)},
       {"clocks_of_two", clocksOfProduct<kProduct, kN, kFromRegisters>(2)}});
}

template <int... kWidths> void addWidths(Report &report) {
  (addWidth<Product::E4m3, kWidths>(report, "e4m3"), ...);
  (addWidth<Product::S8, kWidths>(report, "s8"), ...);
  (addWidth<Product::Bf16, kWidths>(report, "bf16"), ...);
  (addWidth<Product::Bf16, kWidths, true>(report, "bf16_registers"), ...);
}

} // namespace

void measureWgmma(Report &report) {
  addWidths<8, 16, 32, 64, 96, 128, 160, 192, 256>(report);
}

} // namespace micro
