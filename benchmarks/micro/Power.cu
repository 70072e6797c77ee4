//===- micro/Power.cu - clocks and watts of sustained products ------------===//
//
// All SMs multiply 128 x 256 tiles of random data in shared memory for a while:
// the fastest rate that the GPU's power allows the tensor cores. Elements are
// N(0, 1), times 16 for e4m3 and times 40 for int8, because power depends on
// them.
//
//===----------------------------------------------------------------------===//
#include "Instructions.cuh"
#include "Micro.h"

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <thread>

namespace micro {
namespace {

constexpr int kColumns = 256, kRowsOfWarpgroup = 64, kWarpgroups = 2;
constexpr int kTileRows = kColumns + kWarpgroups * kRowsOfWarpgroup;
constexpr int kTileBytes = kTileRows * kRowBytes;
constexpr int kProducts = 8; ///< in a round

template <Product kProduct>
__global__ void __launch_bounds__(128 * kWarpgroups, 1)
    multiplyOn(int rounds, const uint4 *elements, Span *spans, unsigned *sink) {
  extern __shared__ unsigned char memory[];
  unsigned char *tiles = atomsOf(memory);
  for (int i = threadIdx.x; i < kTileBytes / 16; i += blockDim.x)
    reinterpret_cast<uint4 *>(tiles)[i] = elements[i];
  fenceProxyAsync();
  __syncthreads();
  unsigned address = sharedAddress(tiles);
  unsigned long long columns = descriptorOf(address);
  unsigned long long rows = descriptorOf(
      address + (kColumns + threadIdx.x / 128 * kRowsOfWarpgroup) * kRowBytes);
  unsigned sums[kColumns / 2] = {};
  long long begin = clockNow();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    wgmmaFence();
#pragma unroll
    for (int i = 0; i < kProducts; ++i)
      wgmma<kProduct, kColumns>(sums, rows + stepOffset(i % 4),
                                columns + stepOffset(i % 4), 1);
    wgmmaCommit();
    wgmmaWait<1>();
  }
  wgmmaWait<0>();
  pin(sums);
  long long end = clockNow();
  if (threadIdx.x == 0)
    spans[blockIdx.x] = {begin, end};
  unsigned all = 0;
#pragma unroll
  for (int i = 0; i < kColumns / 2; ++i)
    all ^= sums[i];
  sink[blockIdx.x * blockDim.x + threadIdx.x] = all;
}

std::vector<unsigned char> randomElements(Product product) {
  std::mt19937 random(20240501);
  std::normal_distribution<float> normal;
  std::vector<unsigned char> bytes(kTileBytes);
  for (size_t i = 0; i < bytes.size(); ++i)
    if (product == Product::E4m3)
      bytes[i] = __nv_fp8_e4m3(16 * normal(random)).__x;
    else if (product == Product::S8)
      bytes[i] = static_cast<unsigned char>(static_cast<signed char>(
          std::clamp(std::round(40 * normal(random)), -127.0f, 127.0f)));
    else if (i % 2 == 0) {
      __nv_bfloat16_raw element = __nv_bfloat16(normal(random));
      bytes[i] = element.x & 255;
      bytes[i + 1] = element.x >> 8;
    }
  return bytes;
}

template <Product kProduct>
void addProduct(Report &report, const char *name, int depth) {
  constexpr int kRounds = 8192, kLaunches = 100;
  Buffer<unsigned char> elements(randomElements(kProduct));
  Buffer<Span> spans(smCount());
  Buffer<unsigned> sink(size_t(smCount()) * 128 * kWarpgroups);
  cudaEvent_t marks[3];
  for (cudaEvent_t &mark : marks)
    check(cudaEventCreate(&mark), "cudaEventCreate");
  auto run = [&](int launches) {
    for (int i = 0; i < launches; ++i)
      launch(multiplyOn<kProduct>,
             {smCount(), 128 * kWarpgroups, kTileBytes + kAtomBytes}, kRounds,
             reinterpret_cast<const uint4 *>(elements.data()), spans.data(),
             sink.data());
  };
  // The first half only heats up the GPU.
  run(kLaunches / 2);
  check(cudaEventRecord(marks[0]), "cudaEventRecord");
  run(kLaunches / 2);
  check(cudaEventRecord(marks[1]), "cudaEventRecord");
  run(1);
  check(cudaEventRecord(marks[2]), "cudaEventRecord");
  std::vector<double> watts;
  check(cudaEventSynchronize(marks[0]), "cudaEventSynchronize");
  while (cudaEventQuery(marks[1]) == cudaErrorNotReady) {
    watts.push_back(powerNow());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  cudaGetLastError(); // "not ready" would count as the next launch's error
  check(cudaEventSynchronize(marks[2]), "cudaEventSynchronize");
  float all = 0, last = 0;
  check(cudaEventElapsedTime(&all, marks[0], marks[1]), "cudaEventElapsedTime");
  check(cudaEventElapsedTime(&last, marks[1], marks[2]),
        "cudaEventElapsedTime");
  Span span = spans.values()[0];
  double flops = 2.0 * 64 * kColumns * depth * kProducts * kRounds *
                 kWarpgroups * smCount() * (kLaunches / 2);
  report.add(std::string("power/") + name,
             {{"tflops", flops / all / 1e9},
              {"mhz", double(span.end - span.begin) / last / 1e3},
              {"watts", watts.empty() ? 0 : median(watts)}});
  for (cudaEvent_t mark : marks)
    check(cudaEventDestroy(mark), "cudaEventDestroy");
}

} // namespace

void measurePower(Report &report) {
  addProduct<Product::E4m3>(report, "e4m3", 32);
  addProduct<Product::S8>(report, "s8", 32);
  addProduct<Product::Bf16>(report, "bf16", 16);
}

} // namespace micro
