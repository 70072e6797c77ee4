// The walls in the order of the limits: registers with their parts, shared
// memory stage by stage, latency against stages, warps and bytes in flight,
// reuse, waves.
#include "Families/FamilyTesting.h"
#include "Kernel/Derivation.h"
#include "Kernel/Space.h"
#include "Model/Rates.h"

#include <doctest/doctest.h>

#include <utility>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// The derivation of a problem's first choice.
class Explained {
public:
  Explained(llvm::StringRef text, llvm::StringRef deviceName) {
    const KernelFamily *family = registry().find(text.split(' ').first);
    REQUIRE(family);
    const DeviceModel model = device(deviceName);
    const Problem problem = parse(*family, text);
    steps = llvm::cantFail(exploreSpace(*family, problem, model))
                .ranked.front()
                .derive(problem, model);
  }

  double value(llvm::StringRef name) const { return find(name).value(); }
  llvm::StringRef note(llvm::StringRef name) const {
    return find(name).words.note;
  }
  llvm::StringRef verdict(llvm::StringRef name) const {
    return find(name).words.verdict;
  }
  std::string formula(llvm::StringRef name) const {
    return steps.formulaText(steps.numberOf(find(name).figure));
  }
  bool has(llvm::StringRef name) const { return steps.find(name) != nullptr; }

private:
  const DerivationStep &find(llvm::StringRef name) const {
    CAPTURE(name.str());
    const DerivationStep *step = steps.find(name);
    REQUIRE(step);
    return *step;
  }
  Derivation steps;
};

const Explained &square() {
  static const Explained steps("gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT",
                               "h200-sxm");
  return steps;
}

const Explained &ampere() {
  static const Explained steps("gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT",
                               "a100-sxm4-40gb");
  return steps;
}

} // namespace

TEST_CASE("the register wall has accumulators, fragments and the rest") {
  const std::string line = ampere().formula("registers");
  for (const char *part : {"accumulators 128", "fragments of A",
                           "fragments of B", "addresses and rest"})
    CHECK(llvm::StringRef(line).contains(part));
  CHECK(ampere().verdict("registers").contains("registers of a thread"));
}

TEST_CASE("shared memory is told stage by stage, and what else it could have") {
  CHECK(square().note("shared memory").contains("1 stage: 83088 B, 2 stages"));
  CHECK(square().verdict("shared memory").contains("232448 B"));
  // Accumulators there would take the room of stages.
  CHECK(square().value("accumulators in shared memory") == 128 * 256 * 4);
  CHECK(square()
            .verdict("accumulators in shared memory")
            .contains("as much as 2.7 stages"));
}

TEST_CASE("one to four stages are compared with the latency") {
  const llvm::StringRef note = square().note("S_min");
  for (const char *stages : {"1: ", "2: ", "3: ", "4: 0 ns"})
    CHECK(note.contains(stages));
  CHECK(llvm::StringRef(square().formula("S_min"))
            .contains("latency of a busy DRAM 720 ns"));
}

TEST_CASE("a tile below the problem's ridge is not bound by DRAM, where L2 "
          "serves what is asked for again") {
  CHECK(square().value("intensity of the tile") < 182);
  CHECK(square()
            .note("share that L2 misses")
            .contains("each byte of A 16 times and of B 32 times"));
  CHECK(square().note("share that L2 misses").contains("is not bound by DRAM"));
  // Where DRAM is the limit it says no such thing.
  const Explained streamed("gemm m=2147483647 n=33 k=4096 dtype=bf16 layout=NT",
                           "b300-sxm");
  CHECK(streamed.has("share that L2 misses"));
  CHECK_FALSE(
      streamed.note("share that L2 misses").contains("is not bound by DRAM"));
}

TEST_CASE("the bytes from L2 have a formula") {
  CHECK(llvm::StringRef(square().formula("bytes from L2"))
            .contains("times asked 16"));
  CHECK(square().value("bytes from DRAM") <= square().value("bytes from L2"));
}

TEST_CASE("warps times the work of one are held against the latency") {
  for (const char *name : {"a100-sxm4-40gb", "t4"}) {
    const Explained steps("gemm m=1024 n=4096 k=4096 dtype=fp16 layout=NT",
                          name);
    CHECK(steps.note("work of all warps").contains("warps x T >= L"));
    CHECK(steps.verdict("work of all warps").contains("of latency"));
  }
}

TEST_CASE("blocks of an SM say which wall limits them") {
  CHECK(ampere().value("blocks of an SM") == 2);
  CHECK(ampere().verdict("blocks of an SM").contains("limited by registers"));
}

TEST_CASE("fewer than four blocks to a place make a further wave dear") {
  CHECK(square().verdict("share of a further wave").contains("below 4"));
  const Explained long_("gemm m=65536 n=4096 k=4096 dtype=bf16 layout=NT",
                        "a100-sxm4-40gb");
  CHECK(long_.verdict("share of a further wave").contains("at least 4"));
}

TEST_CASE("memory-bound kernels have capacity, Little's law and both ridges") {
  const Explained norm("rmsnorm rows=8192 cols=8192 dtype=bf16 weight=1",
                       "h200-sxm");
  // The cost of reading the rows twice.
  CHECK(norm.note("reading again").contains("DRAM for 1 %"));
  CHECK(norm.verdict("reading again").contains("rows stay on the chip"));
  CHECK(norm.value("elements of a thread") == 64);
  CHECK(norm.verdict("registers").contains("twice the elements would take"));
  CHECK(llvm::StringRef(norm.formula("loads of a warp at once"))
            .contains("vectors of a thread 8"));
  CHECK(norm.note("bytes to have in flight").contains("Little's law"));
  CHECK(norm.verdict("bytes to have in flight").contains("enough"));
  CHECK(norm.value("intensity") < norm.value("ridge"));
}

TEST_CASE("packed weights pay for decoding, in clocks of their own") {
  const Explained packed("gemm m=8 n=4096 k=4096 dtype=bf16 layout=NT b=int4 "
                         "order_b=k64r16 scale_b=1x128",
                         "a100-sxm4-40gb");
  CHECK(llvm::StringRef(packed.formula("instructions of a step"))
            .contains("decoding"));
  CHECK(packed.verdict("bytes to have in flight").contains("enough"));
}

TEST_CASE("no kernel is chosen whose unit the device has not") {
  struct Case {
    const char *problem, *device;
  };
  for (const Case &one :
       {Case{"gemm m=1024 n=1024 k=1024 dtype=bf16 layout=NT", "h200-sxm"},
        Case{"gemm m=8 n=4096 k=4096 dtype=bf16 layout=NT b=int4 "
             "order_b=k64r16 scale_b=1x128",
             "h200-sxm"},
        Case{"attention batch=32 sq=1 sk=4096 heads=16 kvheads=4 d=256 "
             "dtype=bf16",
             "a10"},
        Case{"attention batch=4 sq=4096 sk=4096 heads=16 d=128 dtype=bf16",
             "h200-sxm"}}) {
    CAPTURE(one.problem);
    const KernelFamily &family =
        *registry().find(llvm::StringRef(one.problem).split(' ').first);
    DeviceModel model = device(one.device);
    model.tensorBf16FlopsPerClock = model.mmaSyncBf16FlopsPerClock = 0;
    auto space = exploreSpace(family, parse(family, one.problem), model);
    if (!space) { // packed weights have no other kernel
      llvm::consumeError(space.takeError());
      continue;
    }
    for (const Candidate &candidate : space->ranked)
      CHECK(candidate.tmpl->isGeneric());
  }
}

TEST_CASE("the pins cap what long streams reach, never the rate of a sum") {
  DeviceModel model = device("h100-sxm");
  CHECK(longStreamRate<double>(model, 1.062) == model.dramPeakBytesPerNs());
  model.dramGBs = 2 * model.dramPeakBytesPerNs();
  CHECK(longStreamRate<double>(model, 1.062) == model.dramGBs);
}
