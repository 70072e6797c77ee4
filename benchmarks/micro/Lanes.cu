//===- micro/Lanes.cu - lanes of plain instructions an SM does a clock ----===//
//
// Sixteen warps run one instruction on eight independent values each. Then
// eight more warps run mma.sync beside them for the same time: both share the
// resources, such as issue, that they lose compared with each alone.
//
//===----------------------------------------------------------------------===//
#include "Instructions.cuh"
#include "Micro.h"

#include <type_traits>

namespace micro {
namespace {

constexpr int kValues = 8, kUnroll = 32;
constexpr int kWarps = 16, kMmaWarps = 8;

/// An instruction, as a function of a value and two constants. The assembler
/// must not be able to merge two in a row into one.
#define MICRO_INSTRUCTION(Name, text)                                          \
  struct Name {                                                                \
    static __device__ void run(unsigned &x, unsigned a, unsigned b) {          \
      asm volatile(text : "+r"(x) : "r"(a), "r"(b));                           \
    }                                                                          \
  };

MICRO_INSTRUCTION(Lop3, "lop3.b32 %0, %0, %1, %2, 0x6a;") // (x & a) ^ b
MICRO_INSTRUCTION(Prmt, "prmt.b32 %0, %0, %1, %2;")
MICRO_INSTRUCTION(Shf, "shf.l.wrap.b32 %0, %0, %1, %2;")
MICRO_INSTRUCTION(Iadd3, "{\n.reg .u32 t;\nadd.u32 t, %1, %2;\n"
                         "sub.u32 %0, t, %0;\n}") // one: a + b is hoisted
MICRO_INSTRUCTION(Imad, "mad.lo.u32 %0, %0, %1, %2;")
MICRO_INSTRUCTION(Hfma2, "fma.rn.f16x2 %0, %0, %1, %2;")
MICRO_INSTRUCTION(Hfma2Bf16, "fma.rn.bf16x2 %0, %0, %1, %2;")
MICRO_INSTRUCTION(Ffma, "{\n.reg .f32 x, a, b;\nmov.b32 x, %0;\n"
                        "mov.b32 a, %1;\nmov.b32 b, %2;\n"
                        "fma.rn.f32 x, x, a, b;\nmov.b32 %0, x;\n}")
MICRO_INSTRUCTION(Fadd, "{\n.reg .f32 x, a;\nmov.b32 x, %0;\n"
                        "mov.b32 a, %1;\nadd.rn.f32 x, x, a;\n"
                        "mov.b32 %0, x;\n}")
MICRO_INSTRUCTION(I2f, "{\n.reg .f32 x;\ncvt.rn.f32.s32 x, %0;\n"
                       "mov.b32 %0, x;\n}")
MICRO_INSTRUCTION(E4m3ToHalf, "{\n.reg .b16 low, high;\n"
                              "mov.b32 {low, high}, %0;\n"
                              "cvt.rn.f16x2.e4m3x2 %0, low;\n}")
MICRO_INSTRUCTION(ToBf16, "{\n.reg .f32 x, a;\nmov.b32 x, %0;\n"
                          "mov.b32 a, %1;\ncvt.rn.bf16x2.f32 %0, x, a;\n}")
/// No instruction, for mma.sync alone.
struct None {};

/// Warps below kWarps run the instruction \p rounds * kUnroll times on each
/// value. If \p hasMma, the others run mma.sync until those are done, or
/// \p mmaRounds times if there is no other instruction. \p products counts
/// their products.
template <class Instruction>
__global__ void __launch_bounds__(32 * (kWarps + kMmaWarps), 1)
    lanes(int rounds, bool hasMma, int mmaRounds, unsigned a, unsigned b,
          Span *spans, unsigned *products, unsigned *sink) {
  constexpr bool kIsAlone = std::is_same_v<Instruction, None>;
  __shared__ volatile unsigned done;
  int warp = threadIdx.x / 32;
  if (threadIdx.x == 0)
    done = 0;
  __syncthreads();
  unsigned all = 0;
  if (warp < kWarps) {
    unsigned values[kValues];
#pragma unroll
    for (int i = 0; i < kValues; ++i)
      values[i] = a + threadIdx.x * kValues + i;
    long long begin = clockNow();
    if constexpr (!kIsAlone)
#pragma unroll 1
      for (int round = 0; round < rounds; ++round)
#pragma unroll
        for (int i = 0; i < kUnroll * kValues; ++i)
          Instruction::run(values[i % kValues], a, b);
    pin(values);
    long long end = clockNow();
    if (threadIdx.x % 32 == 0) {
      if constexpr (!kIsAlone)
        spans[warp] = {begin, end};
      atomicAdd(const_cast<unsigned *>(&done), 1);
    }
#pragma unroll
    for (int i = 0; i < kValues; ++i)
      all ^= values[i];
  } else if (hasMma) {
    constexpr int kChains = 4, kProducts = 32;
    float sums[kChains][4] = {};
    unsigned rows[4] = {a, b, a, b}, columns[2] = {a, b};
    unsigned count = 0;
    long long begin = clockNow();
#pragma unroll 1
    while (kIsAlone ? count < unsigned(mmaRounds) : done < kWarps) {
#pragma unroll
      for (int i = 0; i < kProducts; ++i)
        mma(sums[i % kChains], rows, columns);
      ++count;
    }
    long long end = clockNow();
    if (threadIdx.x % 32 == 0) {
      atomicAdd(products, count * kProducts);
      if constexpr (kIsAlone)
        spans[warp] = {begin, end};
    }
#pragma unroll
    for (int i = 0; i < kChains; ++i)
      all ^= __float_as_uint(sums[i][0] + sums[i][1] + sums[i][2] + sums[i][3]);
  }
  sink[threadIdx.x] = all;
}

struct Rates {
  double lanes, products; ///< per clock
};

template <class Instruction> Rates ratesOf(bool hasMma) {
  constexpr int kRounds = 64, kMmaRounds = 256;
  // 1.0 twice in fp16, and a shift or selection of moderate size.
  constexpr unsigned kA = 0x3c003c00, kB = 0x00003c15;
  Buffer<unsigned> sink(32 * (kWarps + kMmaWarps));
  std::vector<double> lanesOf, productsOf;
  for (int i = 0; i < kRepeats + 1; ++i) {
    Buffer<Span> spans(kWarps + kMmaWarps);
    Buffer<unsigned> products(1);
    launch(lanes<Instruction>, {1, 32 * (kWarps + kMmaWarps), 0}, kRounds,
           hasMma, kMmaRounds, kA, kB, spans.data(), products.data(),
           sink.data());
    double clocks = clocksOf(spans.values());
    if (i == 0)
      continue;
    lanesOf.push_back(32.0 * kWarps * kRounds * kUnroll * kValues / clocks);
    productsOf.push_back(products.values()[0] / clocks);
  }
  return {median(lanesOf), median(productsOf)};
}

/// The rates of an instruction alone and beside mma.sync, whose own rate is
/// \p mmaAlone.
template <class Instruction>
void addInstruction(Report &report, const char *name, double mmaAlone) {
  Rates alone = ratesOf<Instruction>(false),
        beside = ratesOf<Instruction>(true);
  report.add(std::string("lanes/") + name,
             {{"lanes", alone.lanes},
              {"lanes_beside_mma", beside.lanes},
              {"share_of_mma", beside.products / mmaAlone}});
}

} // namespace

void measureLanes(Report &report) {
  double mma = ratesOf<None>(true).products;
  report.add("mma/m16n8k16_bf16",
             {{"clocks", 1 / mma}, {"flop_a_clock", mma * 2 * 16 * 8 * 16}});
  addInstruction<Lop3>(report, "lop3", mma);
  addInstruction<Prmt>(report, "prmt", mma);
  addInstruction<Shf>(report, "shf", mma);
  addInstruction<Iadd3>(report, "iadd3", mma);
  addInstruction<Imad>(report, "imad", mma);
  addInstruction<Hfma2>(report, "hfma2", mma);
  addInstruction<Hfma2Bf16>(report, "hfma2_bf16", mma);
  addInstruction<Ffma>(report, "ffma", mma);
  addInstruction<Fadd>(report, "fadd", mma);
  addInstruction<I2f>(report, "i2f", mma);
  addInstruction<E4m3ToHalf>(report, "f16x2_of_e4m3x2", mma);
  addInstruction<ToBf16>(report, "bf16x2_of_f32", mma);
}

} // namespace micro
