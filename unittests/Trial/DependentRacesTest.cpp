// Chains of launches that begin before the one ahead has ended, with delays
// where each may be overtaken; every result is compared, exactly. On a real
// GPU. (That it matters which operands are constant, the emulator's tests
// show.)
#include "Trial/DependentCase.h"

#include "Driver/Graph.h"
#include "Driver/Launcher.h"
#include "Families/Families.h"
#include "Kernel/Sources.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace kiln;
using namespace kiln::fake;

namespace {

//===----------------------------------------------------------------------===//
// Work before and behind
//===----------------------------------------------------------------------===//

struct NeighbourParams {
  const unsigned *from;
  unsigned *to, *wrong;
  unsigned long long words;
  unsigned mostNs; ///< that a block is late
  unsigned seed;
};

/// Both let the next kernel begin at once, and are late themselves. One brings
/// an operand, one compares a result and takes it away.
constexpr llvm::StringLiteral kNeighbours = R"(
#include "common/Dependent.cuh"
struct NeighbourParams {
  const unsigned *from;
  unsigned *to, *wrong;
  unsigned long long words;
  unsigned mostNs, seed;
};
inline void beLate(const NeighbourParams &params) {
  kiln::allowSuccessor();
  kiln::awaitPredecessor();
  unsigned random = (params.seed + blockIdx.x) * 2654435761u;
  random ^= random >> 15;
  random *= 2246822519u;
  unsigned long long wait = (random >> 8) % (params.mostNs + 1), begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - begin < wait);
}
extern "C" __global__ void
kilnEntry(const __grid_constant__ NeighbourParams params) {
  beLate(params);
  unsigned long long step = gridDim.x * 256ull;
  for (unsigned long long i = blockIdx.x * 256ull + threadIdx.x;
       i < params.words; i += step)
    if (!params.wrong) {
      params.to[i] = params.from ? params.from[i] : 0x7fc07fc0u;
    } else {
      if (params.to[i] != params.from[i])
        atomicAdd(params.wrong, 1u);
      params.to[i] = ~0u;
    }
}
)";

class Neighbours {
public:
  explicit Neighbours(GpuTrials &gpu) : driver(*gpu.driver) {
    UnitParts parts;
    parts.name = "kiln_test_neighbours";
    parts.source = kNeighbours.str();
    parts.headers = kernelSources();
    parts.arch = "sm_90";
    parts.maySpill = true;
    auto artifact = must(gpu.artifacts->get(TranslationUnit(parts)));
    module =
        std::make_unique<Module>(must(Module::load(driver, artifact->cubin)));
    function = must(module->function("kilnEntry"));
  }

  llvm::Error launch(const NeighbourParams &params, CudaStream stream) {
    LaunchSpec spec;
    KernelStep &step = spec.addKernel(params);
    step.grid.x = 8;
    step.block.x = 256;
    step.dependentLaunch = true;
    return kiln::launch(driver, spec, function, stream);
  }

private:
  const Driver &driver;
  std::unique_ptr<Module> module;
  CudaFunction function = nullptr;
};

//===----------------------------------------------------------------------===//
// A chain
//===----------------------------------------------------------------------===//

struct RaceCase {
  std::string family, problem, config;
};

/// The templates, plans of several steps and workspaces that stay zero.
const RaceCase kCases[] = {
    {"gemm", "m=1 n=1024 k=1000 dtype=bf16 layout=NT",
     "gemv.r2.u4.w4.wk4.v1.mb4"},
    {"gemm", "m=8 n=1024 k=2048 dtype=bf16 layout=NT pointwise=bias",
     "skinny.r16.v8.k64.st4.w4.mb2"},
    {"gemm", "m=8 n=512 k=4096 dtype=bf16 layout=NT",
     "skinny.r16.v8.k64.st4.w4.mb2.sp1.sk4"},
    {"gemm", "m=60 n=520 k=1000 dtype=bf16 layout=NT",
     "mma.bm64.bn64.bk32.st4.wm2.wn2.mb2"},
    {"gemm", "m=64 n=512 k=2048 dtype=bf16 layout=NT",
     "sm90.bm64.bn64.bk64.st8.wg1.sw1.cm1.cn1.hi1"},
    {"gemm", "m=100 n=512 k=512 dtype=bf16 layout=NT pointwise=relu",
     "sm90.bm128.bn128.bk64.st4.wg2.cm1.cn1"},
    {"gemm", "m=64 n=512 k=4096 dtype=bf16 layout=NT",
     "sm90.bm64.bn64.bk128.st6.wg1.sw1.cm1.cn1.sk2.hi1"},
    {"gemm", "m=64 n=512 k=1001 dtype=bf16 layout=NT",
     "sm90.bm64.bn64.bk64.st8.wg1.sw1.cm1.cn1"},
    {"gemm", "m=100 n=136 k=264 dtype=fp32 layout=NT", ""},
    {"rmsnorm", "rows=64 cols=4096 dtype=bf16", ""},
    {"softmax", "rows=3 cols=90001 dtype=bf16",
     "resident.t256.rt256.v8.n2.r1.c1.mb1.o1.g1.k40"},
    {"elementwise", "op=silu,mul rows=64 cols=4096 dtype=bf16", ""},
    {"transpose2d", "rows=700 cols=520 dtype=bf16", ""},
    {"gather", "rows=700 cols=520 xrows=2000 dtype=bf16", ""},
    {"attention", "batch=2 sq=1 sk=3000 heads=8 kvheads=2 d=128 dtype=bf16",
     ""},
    {"attention",
     "batch=1 sq=300 sk=300 heads=4 kvheads=2 d=128 dtype=bf16 "
     "mask=causal",
     ""},
};

/// The best config of the case's space, where it names none.
std::string configOf(GpuTrials &gpu, const RaceCase &race) {
  if (!race.config.empty())
    return race.config;
  const KernelFamily &family = **gpu.registry.get(race.family);
  return must(exploreSpace(family, must(family.parseProblem(race.problem)),
                           gpu.device))
      .ranked.front()
      .config.text();
}

/// One problem whose first operand is replaced before each launch.
class Race {
public:
  Race(GpuTrials &gpu, Neighbours &neighbours, const RaceCase &race)
      : neighbours(neighbours), launched(gpu, **gpu.registry.get(race.family),
                                         race.problem, configOf(gpu, race)) {
    const OperandSpec &input = launched.buffers->table().operands.front();
    inputBytes = static_cast<uint64_t>(input.bytes()) / 4 * 4;
    outputBytes =
        static_cast<uint64_t>(
            launched.buffers->specOf(launched.buffers->outputs().front())
                .bytes()) /
        4 * 4;
    wrong = must(DeviceMemory::allocate(launched.driver, 4));
    check(fillAsync(launched.driver, wrong.address(), 0, 4, stream()));
    for (int i = 0; i < 2; ++i)
      keep(i);
  }

  /// Enqueues \p rounds rounds of four launches each.
  void enqueue(int rounds, CudaStream on) {
    constexpr unsigned kMostNs = 4000;
    for (int i = 0; i < rounds; ++i) {
      NeighbourParams params = {};
      params.mostNs = kMostNs;
      params.seed = ++seed;
      params.to = at(inputAddress());
      params.words = inputBytes / 4;
      check(neighbours.launch(params, on));
      params.from = at(inputs[i % 2].address());
      check(neighbours.launch(params, on));
      check(launched.plan->launch(launched.arguments(true),
                                  launched.workspace(), on));
      params.from = at(outputs[i % 2].address());
      params.to = at(outputAddress());
      params.words = outputBytes / 4;
      params.wrong = at(wrong.address());
      check(neighbours.launch(params, on));
    }
  }

  unsigned wrongWords() {
    check(launched.stream.synchronize());
    unsigned count = 0;
    check(copyToHost(launched.driver, &count, wrong.address(), 4));
    return count;
  }
  CudaStream stream() { return launched.stream.handle(); }

private:
  static unsigned *at(DeviceAddress address) {
    return reinterpret_cast<unsigned *>(address);
  }
  static void check(llvm::Error error) {
    if (error)
      FAIL(summarize(std::move(error)).message);
  }
  DeviceAddress inputAddress() const {
    return launched.arguments(false).operands[0].address;
  }
  DeviceAddress outputAddress() const {
    return launched.buffers->addressOf(launched.buffers->outputs().front());
  }

  /// Keeps input number \p i, the first one turned round, and what an ordered
  /// launch makes of it.
  void keep(int i) {
    const Driver &driver = launched.driver;
    std::vector<uint32_t> words(inputBytes / 4);
    check(launched.stream.synchronize());
    check(copyToHost(driver, words.data(), inputAddress(), inputBytes));
    std::reverse(words.begin(), words.end());
    check(copyToDevice(driver, inputAddress(), words.data(), inputBytes));
    // The copy may return before the device has all of it; after a read back it
    // has.
    check(copyToHost(driver, words.data(), inputAddress(), inputBytes));
    check(launched.launch(false));
    check(launched.stream.synchronize());
    for (auto [kept, from, bytes] :
         {std::tuple(&inputs[i], inputAddress(), inputBytes),
          std::tuple(&outputs[i], outputAddress(), outputBytes)}) {
      *kept = must(DeviceMemory::allocate(driver, bytes));
      check(copyOnDevice(driver, kept->address(), from, bytes, stream()));
    }
    check(launched.stream.synchronize());
  }

  Neighbours &neighbours;
  DependentCase launched;
  uint64_t inputBytes = 0, outputBytes = 0;
  DeviceMemory inputs[2], outputs[2], wrong;
  unsigned seed = 0;
};

} // namespace

TEST_SUITE("gpu") {

  TEST_CASE("a hundred thousand launches wait for what is late ahead") {
    GpuTrials gpu(makeBuiltinRegistry());
    if (gpu.device.ccMajor < 9)
      return;
    // As for a small GPU: products that leave SMs idle do not read ahead.
    gpu.device.smCount = 4;
    Neighbours neighbours(gpu);
    constexpr int kRounds = 3600, kInGraph = 36, kReplays = 100;
    int launches = 0;
    for (const RaceCase &given : kCases) {
      CAPTURE(given.problem);
      CAPTURE(given.config);
      Race race(gpu, neighbours, given);
      race.enqueue(kRounds, race.stream());
      CHECK(race.wrongWords() == 0);
      must(Graph::beginCapture(*gpu.driver, race.stream()));
      race.enqueue(kInGraph, race.stream());
      Graph graph = must(Graph::endCapture(*gpu.driver, race.stream()));
      for (int i = 0; i < kReplays; ++i)
        must(graph.launch(race.stream()));
      CHECK(race.wrongWords() == 0);
      launches += kRounds + kInGraph * kReplays;
    }
    CHECK(launches >= 100000);
  }

} // TEST_SUITE
