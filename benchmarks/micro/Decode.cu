//===- micro/Decode.cu - int4 weights decoded beside the products ---------===//
//
// wgmma of bf16 with A from registers, whose elements are decoded from 4 bits
// each while products are in flight: weights in the order k64r16
// (common/PackedWeights.h), a lane's 16 bytes for 64 of k from shared memory.
// Four fragments alternate, so that up to three products run while the next
// fragment is made. Forms, with their instructions for eight elements:
//   none    the fragment is there
//   offset  128 + q: a shift, and a mask and an or in one LOP3: 7
//   exact   q - 8: a subtraction for each two: 11
//   scaled  times the group's scale: 15
// A LOP3 has room for one constant: if both are in the source, the assembler
// makes two LOP3. So they are passed as arguments, as if they were kept in
// registers. "literals" is the offset form with constants in the source: 11.
//
//===----------------------------------------------------------------------===//
#include "Instructions.cuh"
#include "Micro.h"

namespace micro {
namespace {

enum class Form { None, Literals, Offset, Exact, Scaled };

/// Values that the compiler must not know.
struct Constants {
  unsigned mask = 0x000f000f, base = 0x43004300; ///< 128 in every half
  unsigned scale = 0x3c003c00;                   ///< 2^-7
};

constexpr int kSteps = 4;                   // of 16 k in a lane's 16 bytes
constexpr int kBlocks = 4;                  // of 64 k, which alternate
constexpr int kUnitBytes = 512;             // of a warp's 16 rows
constexpr int kBlockBytes = 4 * kUnitBytes; // of a warpgroup's 64 rows

__device__ unsigned fmaBf16(unsigned a, unsigned b, unsigned c) {
  unsigned d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

/// (a & b) | c
__device__ unsigned andOr(unsigned a, unsigned b, unsigned c) {
  unsigned d;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

/// The fragment of one step from its word.
template <Form kForm>
__device__ void decode(unsigned (&fragment)[4], unsigned word,
                       const Constants &constants) {
  constexpr unsigned kOne = 0x3f803f80, kLess136 = 0xc308c308;
  constexpr unsigned kMinusZero = 0x80008000;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    unsigned pair = kForm == Form::Literals
                        ? (word >> 4 * i & Constants().mask) | Constants().base
                        : andOr(word >> 4 * i, constants.mask, constants.base);
    if constexpr (kForm == Form::Exact || kForm == Form::Scaled)
      pair = fmaBf16(pair, kOne, kLess136);
    if constexpr (kForm == Form::Scaled)
      pair = fmaBf16(pair, constants.scale, kMinusZero);
    fragment[i] = pair;
  }
}

__device__ void loadWords(unsigned (&words)[4], unsigned address) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}

template <int kN, Form kForm>
__global__ void __launch_bounds__(256, 1)
    decodeBeside(int rounds, Constants given, Span *spans, unsigned *sink) {
  extern __shared__ unsigned char memory[];
  unsigned char *tile = atomsOf(memory);
  unsigned char *weights = tile + kN * kRowBytes;
  int words = (kN * kRowBytes + blockDim.x / 128 * kBlocks * kBlockBytes) / 4;
  for (int i = threadIdx.x; i < words; i += blockDim.x)
    reinterpret_cast<unsigned *>(tile)[i] = 0x38383838 ^ i * 0x01010101;
  fenceProxyAsync();
  __syncthreads();

  unsigned long long columns = descriptorOf(sharedAddress(tile));
  // A warp has its unit of every block, with 16 bytes a lane in it.
  unsigned own = sharedAddress(weights) +
                 threadIdx.x / 128 * kBlocks * kBlockBytes +
                 threadIdx.x % 128 * 16;
  Constants constants = given;
  asm volatile("" : "+r"(constants.mask), "+r"(constants.base));
  unsigned next[kSteps], fragments[kSteps][4], sums[kN / 2] = {};
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
    loadWords(fragments[step], own + step * kBlockBytes);
  loadWords(next, own);
  long long begin = clockNow();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    unsigned packed[kSteps] = {next[0], next[1], next[2], next[3]};
    if constexpr (kForm != Form::None)
      loadWords(next, own + (round + 1) % kBlocks * kBlockBytes);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      // The product that read this fragment has ended.
      wgmmaWait<kSteps - 1>();
      if constexpr (kForm != Form::None) {
        decode<kForm>(fragments[step], packed[step], constants);
        pin(fragments[step]);
      }
      wgmmaFence();
      wgmma<kN>(sums, fragments[step], columns + stepOffset(step), 1);
      wgmmaCommit();
    }
  }
  wgmmaWait<0>();
  pin(sums);
  long long end = clockNow();
  if (threadIdx.x % 32 == 0)
    spans[threadIdx.x / 32] = {begin, end};
  unsigned all = next[0];
#pragma unroll
  for (int i = 0; i < kN / 2; ++i)
    all ^= sums[i];
  sink[threadIdx.x] = all;
}

/// Clocks of a step of 16 k for all warpgroups together.
template <int kN, Form kForm> double clocksOfStep(int warpgroups) {
  Buffer<Span> spans(8);
  Buffer<unsigned> sink(256);
  constexpr int kRounds = 128;
  int bytes = kN * kRowBytes + warpgroups * kBlocks * kBlockBytes + kAtomBytes;
  return clocksOfRound(kRounds,
                       [&](int rounds) {
                         launch(decodeBeside<kN, kForm>,
                                {1, 128 * warpgroups, bytes}, rounds,
                                Constants(), spans.data(), sink.data());
                         return clocksOf(spans.values());
                       }) /
         kSteps;
}

template <int kN> void addWidth(Report &report) {
  for (int warpgroups : {1, 2})
    report.add("decode/x" + std::to_string(warpgroups) + "/n" +
                   std::to_string(kN),
               {{"n", kN},
                {"warpgroups", warpgroups},
                {"none", clocksOfStep<kN, Form::None>(warpgroups)},
                {"literals", clocksOfStep<kN, Form::Literals>(warpgroups)},
                {"offset", clocksOfStep<kN, Form::Offset>(warpgroups)},
                {"exact", clocksOfStep<kN, Form::Exact>(warpgroups)},
                {"scaled", clocksOfStep<kN, Form::Scaled>(warpgroups)}});
}

} // namespace

void measureDecode(Report &report) {
  addWidth<16>(report);
  addWidth<32>(report);
  addWidth<64>(report);
  addWidth<96>(report);
  addWidth<128>(report);
  addWidth<192>(report);
  addWidth<256>(report);
}

} // namespace micro
