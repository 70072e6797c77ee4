// The texts of kernels over rows through the real NVRTC, for every architecture
// that Kiln serves.
#include "Compile/Compiler.h"
#include "Device/Catalog.h"
#include "Families/Families.h"
#include "Kernel/Space.h"
#include "Support/Environment.h"
#include "Support/Error.h"

#include <doctest/doctest.h>

using namespace kiln;

TEST_CASE("the reference over rows compiles for every architecture") {
  Compiler compiler(NvrtcSearch::fromEnvironment(
      Environment::fromProcess(), {KILN_SOURCE_DIR "/build/cuda"}));
  if (auto nvrtc = compiler.nvrtc(); !nvrtc) {
    MESSAGE("skipped: ", summarize(nvrtc.takeError()).message);
    return;
  }
  Registry registry = makeBuiltinRegistry();
  auto compile = [&](llvm::StringRef deviceName, llvm::StringRef text) {
    CAPTURE(deviceName.str());
    CAPTURE(text.str());
    DeviceModel device = llvm::cantFail(findDevice(deviceName));
    auto named = llvm::cantFail(registry.parseProblem(text));
    auto artifact = compiler.compile(
        named.family->reference(named.problem, device)->translationUnit());
    CHECK(bool(artifact));
    if (!artifact)
      MESSAGE(llvm::toString(artifact.takeError()));
  };
  for (llvm::StringRef device : {"t4", "a100-sxm4-80gb", "a10", "rtx-4090",
                                 "h200-sxm", "b200-sxm", "rtx-5090"}) {
    compile(device, "layernorm rows=8 cols=8 dtype=fp16 out=fp8_e4m3 weight=1 "
                    "bias=1 residual=1");
    compile(device, "softmax rows=8 cols=8 dtype=fp32 mask=1");
  }
  for (llvm::StringRef text :
       {"rmsnorm rows=8 cols=8 dtype=bf16 weight=1",
        "softmax rows=8 cols=8 dtype=bf16 out=fp32 mask=2",
        "rowquant rows=8 cols=100000 dtype=bf16 op=quant_int8_per_row",
        "reduce op=sum rows=8 cols=8 dtype=fp32",
        "reduce op=max rows=8 cols=8 dtype=bf16",
        "reduce op=mean rows=8 cols=8 axis=all dtype=fp16",
        "reduce op=sumsq rows=8 cols=8 dtype=bf16 out=fp32"})
    compile("h200-sxm", text);
}

/// The first choice and the best of each other template and class that comes
/// early: few, because a compilation takes a tenth of a second.
static std::vector<const Candidate *> sampleOf(const Space &space) {
  constexpr size_t kMost = 3;
  std::vector<const Candidate *> sample;
  for (const Candidate &candidate : space.ranked) {
    bool isNew = true;
    for (const Candidate *known : sample)
      isNew &= known->tmpl != candidate.tmpl ||
               known->candidateClass.key != candidate.candidateClass.key;
    if (isNew && sample.size() < kMost)
      sample.push_back(&candidate);
  }
  return sample;
}

TEST_CASE("kernels over rows compile for every architecture") {
  Compiler compiler(NvrtcSearch::fromEnvironment(
      Environment::fromProcess(), {KILN_SOURCE_DIR "/build/cuda"}));
  if (auto nvrtc = compiler.nvrtc(); !nvrtc) {
    MESSAGE("skipped: ", summarize(nvrtc.takeError()).message);
    return;
  }
  Registry registry = makeBuiltinRegistry();
  for (llvm::StringRef deviceName :
       {"t4", "a100-sxm4-80gb", "rtx-4090", "h200-sxm", "b200-sxm"}) {
    DeviceModel device = llvm::cantFail(findDevice(deviceName));
    for (llvm::StringRef text :
         {"rmsnorm rows=4096 cols=4096 dtype=fp16 weight=1 residual=1",
          "layernorm rows=512 cols=32768 dtype=fp16 weight=1 bias=1",
          "rmsnorm rows=64 cols=1000 dtype=fp32 out=fp8_e4m3 weight=1",
          "softmax rows=64 cols=131072 dtype=fp16",
          "rowquant rows=4096 cols=128 dtype=fp16 op=quant_int8_per_row",
          "reduce op=max rows=1 cols=1000001 dtype=fp32"}) {
      auto named = llvm::cantFail(registry.parseProblem(text));
      Space space =
          llvm::cantFail(exploreSpace(*named.family, named.problem, device));
      for (const Candidate *candidate : sampleOf(space)) {
        INFO(deviceName.str(), ": ", text.str(), " | ",
             candidate->config.text());
        Plan plan =
            candidate->tmpl->plan(named.problem, candidate->config, device);
        for (const TranslationUnit &unit : plan.kernels) {
          auto artifact = compiler.compile(unit);
          CHECK(bool(artifact));
          if (!artifact)
            MESSAGE(llvm::toString(artifact.takeError()));
        }
      }
    }
  }
}
