//===- micro/Promotion.cu - the cost of adding fp8 sums elsewhere ---------===//
//
// Groups of four products, 128 of k, for a tile of 64 x N a warpgroup. Either
// the sums stay in place; or every group's sums are added to others after it
// has ended ("waited"); or they are added while the next group runs, which
// needs a second set ("beside": as in Sm90Gemm). In the last form a tile above
// 128 columns is multiplied in two parts, since three times N / 2 registers are
// too many.
//
//===----------------------------------------------------------------------===//
#include "Instructions.cuh"
#include "Micro.h"

namespace micro {
namespace {

constexpr int kTileRows = 64, kProducts = 4;
constexpr unsigned kElements = 0x38383838u; // 1.0 of e4m3

enum class Form { Kept, Waited, Beside };

template <int kN> constexpr int kPartsOf = kN > 128 ? 2 : 1;

template <int kCount>
__device__ void add(float *totals, unsigned (&sums)[kCount]) {
  pin(sums);
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    totals[i] += __uint_as_float(sums[i]);
}

/// A group of a tile, or of a part of it.
template <int kN>
__device__ void multiply(unsigned (&sums)[kN / 2], unsigned long long rows,
                         unsigned long long columns, bool accumulates) {
  wgmmaFence();
#pragma unroll
  for (int i = 0; i < kProducts; ++i)
    wgmma<Product::E4m3, kN>(sums, rows + stepOffset(i),
                             columns + stepOffset(i), accumulates || i > 0);
  wgmmaCommit();
}

/// \p isTile is true, which the compiler does not know: additions behind a
/// branch are not mixed with the issue of products.
template <int kN, Form kForm>
__global__ void __launch_bounds__(256, 1)
    promote(int rounds, bool isTile, Span *spans, float *sink) {
  extern __shared__ unsigned char memory[];
  unsigned char *tiles = atomsOf(memory);
  for (int i = threadIdx.x; i < (kN + kTileRows) * kRowBytes / 4;
       i += blockDim.x)
    reinterpret_cast<unsigned *>(tiles)[i] = kElements;
  fenceProxyAsync();
  __syncthreads();

  unsigned long long columns = descriptorOf(sharedAddress(tiles));
  unsigned long long rows = descriptorOf(sharedAddress(tiles) + kN * kRowBytes);
  float totals[kN / 2] = {};
  long long begin = clockNow();
  if constexpr (kForm == Form::Kept) {
    unsigned sums[kN / 2] = {};
#pragma unroll 1
    for (int round = 0; round < 2 * rounds; ++round) {
      multiply<kN>(sums, rows, columns, true);
      wgmmaWait<1>();
    }
    wgmmaWait<0>();
    add(totals, sums);
  } else if constexpr (kForm == Form::Waited) {
    unsigned sums[kN / 2];
#pragma unroll 1
    for (int round = 0; round < 2 * rounds; ++round) {
      multiply<kN>(sums, rows, columns, false);
      wgmmaWait<0>();
      add(totals, sums);
    }
  } else {
    constexpr int kParts = kPartsOf<kN>, kWidth = kN / kParts;
    constexpr int kGroups = 2 * kParts; // in a round, an even number
    unsigned sets[2][kWidth / 2];
#pragma unroll 1
    for (int round = 0; round < rounds; ++round)
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        // With two groups in flight ptxas would wait for each product.
        wgmmaWait<0>();
        int part = group % kParts, before = (group + kGroups - 1) % kParts;
        multiply<kWidth>(sets[group % 2], rows,
                         columns + (part * kWidth * kRowBytes >> 4), false);
        if (group > 0 ? isTile : round > 0)
          add(totals + before * (kWidth / 2), sets[1 - group % 2]);
      }
    wgmmaWait<0>();
    add(totals + (kParts - 1) * (kWidth / 2), sets[1]);
  }
  long long end = clockNow();
  if (threadIdx.x % 32 == 0)
    spans[threadIdx.x / 32] = {begin, end};
  float all = 0;
#pragma unroll
  for (int i = 0; i < kN / 2; ++i)
    all += totals[i];
  sink[threadIdx.x] = all;
}

/// Clocks of a tile's 128 of k for all warpgroups together.
template <int kN, Form kForm> double clocksOfTiles(int warpgroups) {
  Buffer<Span> spans(8);
  Buffer<float> sink(256);
  constexpr int kRounds = 64;
  return clocksOfRound(kRounds,
                       [&](int rounds) {
                         launch(promote<kN, kForm>,
                                {1, 128 * warpgroups,
                                 (kN + kTileRows) * kRowBytes + kAtomBytes},
                                rounds, true, spans.data(), sink.data());
                         return clocksOf(spans.values());
                       }) /
         2;
}

template <int kN> void addWidth(Report &report) {
  for (int warpgroups : {1, 2})
    report.add("promotion/x" + std::to_string(warpgroups) + "/n" +
                   std::to_string(kN),
               {{"n", kN},
                {"warpgroups", warpgroups},
                {"kept", clocksOfTiles<kN, Form::Kept>(warpgroups)},
                {"waited", clocksOfTiles<kN, Form::Waited>(warpgroups)},
                {"beside", clocksOfTiles<kN, Form::Beside>(warpgroups)}});
}

} // namespace

void measurePromotion(Report &report) {
  addWidth<64>(report);
  addWidth<96>(report);
  addWidth<128>(report);
  addWidth<160>(report);
  addWidth<192>(report);
}

} // namespace micro
