// The real texts of the real templates through the real NVRTC, for every
// architecture that Kiln supports: a sample of configs that prune() accepts.
#include "KernelSrc/RealCompiler.h"

#include "Device/Catalog.h"
#include "Kernel/Space.h"
#include "Support/Error.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <thread>

using namespace kiln;
using namespace kiln::testing;

namespace {

struct Sample {
  std::string device, problem, config;
  Plan plan;
  /// The kernel lives on loads in flight, for which a spill would wait.
  bool mayNotSpill = false;
};

Problem parseGemm(llvm::StringRef text) {
  return llvm::cantFail(gemm().parseProblem(text));
}

void compileAll(std::vector<Sample> &samples) {
  std::vector<std::thread> threads;
  std::vector<std::string> failures(samples.size());
  std::atomic<size_t> next = 0;
  for (unsigned t = 0; t < std::max(2u, std::thread::hardware_concurrency());
       ++t)
    threads.emplace_back([&] {
      for (size_t i; (i = next++) < samples.size();) {
        auto artifact = compiler().compile(samples[i].plan.kernels[0]);
        if (!artifact)
          failures[i] = llvm::toString(artifact.takeError());
        else if (artifact->hasSerialisationAdvisory())
          failures[i] = artifact->advisories[0].text;
        else if (samples[i].mayNotSpill && artifact->hasSpills())
          failures[i] =
              fmt::format("spills {} bytes", artifact->usage.spillLoadBytes);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  for (size_t i = 0; i < samples.size(); ++i) {
    CAPTURE(samples[i].device);
    CAPTURE(samples[i].problem);
    CAPTURE(samples[i].config);
    CHECK(failures[i] == "");
  }
}

} // namespace

TEST_CASE("a sample of every template compiles for every architecture") {
  if (!hasNvrtc())
    return;
  // A device of each architecture, by the name of its catalog entry.
  const char *devices[] = {"a100-sxm4-80gb", "a10",      "rtx-4090",
                           "h200-sxm",       "b200-sxm", "rtx-5090"};
  const char *problems[] = {
      "gemm m=512 n=512 k=512 dtype=bf16 layout=NT pointwise=bias,gelu_tanh",
      "gemm m=33 n=77 k=131 dtype=fp16 layout=TN out=fp32 beta=1",
      "gemm m=64 n=64 k=64 dtype=bf16 layout=TT pointwise=residual,silu",
      "gemm m=64 n=100 k=4100 dtype=fp16 layout=NN pointwise=gelu_erf,relu",
      "gemm m=100 n=100 k=100 dtype=fp32 compute=tf32 layout=NT align=4",
      "gemm m=100 n=100 k=100 dtype=fp32 compute=tf32 layout=TN",
      "gemm m=100 n=101 k=102 dtype=fp32 layout=NT pointwise=bias",
      "gemm m=64 n=512 k=512 dtype=bf16 layout=NT pointwise=swiglu",
      "gemm m=64 n=512 k=512 dtype=bf16 layout=NT "
      "pointwise=bias,swiglu_clamped",
      "gemm m=33 n=78 k=131 dtype=fp16 layout=NT out=fp32 "
      "pointwise=bias,swiglu,residual",
      "gemm m=33 n=78 k=132 dtype=fp32 compute=tf32 layout=NN "
      "pointwise=residual,swiglu,bias",
      "gemm m=33 n=96 k=132 dtype=fp32 layout=TN pointwise=swiglu,relu",
      "gemm m=1 n=4096 k=4096 dtype=bf16 layout=NT pointwise=bias,residual",
      "gemm m=1000 n=7 k=1536 dtype=fp16 layout=NT out=fp32 beta=1",
      "gemm m=3 n=64 k=6144 dtype=fp16 layout=NT pointwise=silu",
      "gemm m=20 n=4096 k=4096 dtype=bf16 layout=NT pointwise=gelu_erf",
      "gemm m=333 n=40 k=4096 dtype=bf16 layout=NT batch=2",
      "gemm m=128 n=128 k=128 dtype=fp32 layout=NN"};
  std::mt19937 random(7);
  std::vector<Sample> samples;
  for (const char *deviceName : devices) {
    DeviceModel device = llvm::cantFail(findDevice(deviceName));
    for (const char *text : problems) {
      Problem problem = parseGemm(text);
      Space space = llvm::cantFail(exploreSpace(gemm(), problem, device));
      std::map<std::string, std::vector<const Candidate *>> byTemplate;
      for (const Candidate &candidate : space.ranked)
        byTemplate[candidate.tmpl->name().str()].push_back(&candidate);
      for (auto &[name, candidates] : byTemplate) {
        // The naive kernel has one config, so two problems show it.
        if (name == "naive" && random() % 4)
          continue;
        const Candidate &pick = *candidates[random() % candidates.size()];
        samples.push_back({deviceName, text, pick.config.text(),
                           pick.tmpl->plan(problem, pick.config, device),
                           name == "gemv" || name == "skinny"});
      }
    }
  }
  compileAll(samples);
}

// The widths of a warp's tile give a run of two accesses an odd share of a row,
// or a part of one: each case has a config here.
TEST_CASE("runs that are joined fit every warp's tile") {
  if (!hasNvrtc())
    return;
  DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
  std::vector<Sample> samples;
  for (const char *ldd : {"256", "260", "258", "257"})
    for (const char *config : {"mma.bm64.bn16.bk64.st3.wm4.wn1.mb2",
                               "mma.bm128.bn192.bk64.st3.wm2.wn4.mb1",
                               "mma.bm256.bn96.bk64.st3.wm4.wn2.mb1",
                               "simt.bm64.bn64.bk16.tm8.tn4.mb4"}) {
      std::string text = std::string("gemm m=64 n=512 k=512 dtype=bf16 "
                                     "layout=NT pointwise=bias,swiglu,residual "
                                     "ldd=") +
                         ldd;
      CAPTURE(config);
      Problem problem = parseGemm(text);
      auto named = llvm::cantFail(gemm().parseConfig(config));
      REQUIRE(!named.tmpl->prune(problem, named.config, device));
      samples.push_back({"h200-sxm", text, config,
                         named.tmpl->plan(problem, named.config, device)});
    }
  compileAll(samples);
}

TEST_CASE("the reference compiles for every type") {
  if (!hasNvrtc())
    return;
  DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
  for (const char *text :
       {"gemm m=8 n=8 k=8 dtype=bf16 layout=NT pointwise=bias,gelu_erf",
        "gemm m=8 n=8 k=8 dtype=bf16 pointwise=residual,swiglu,bias",
        "gemm m=8 n=8 k=8 dtype=fp32 compute=tf32 layout=TT beta=1"}) {
    auto artifact = compiler().compile(
        gemm().reference(parseGemm(text), device)->translationUnit());
    CHECK_MESSAGE(bool(artifact), text);
    if (!artifact)
      MESSAGE(llvm::toString(artifact.takeError()));
  }
}

TEST_CASE("a config that host and kernel see differently does not compile") {
  if (!hasNvrtc())
    return;
  DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
  Problem problem = parseGemm("gemm m=8 n=8 k=8 dtype=bf16 layout=NT");
  auto named = llvm::cantFail(
      gemm().parseConfig("mma.bm128.bn128.bk32.st3.wm2.wn2.mb1"));
  checkRefused(named.tmpl->plan(problem, named.config, device).kernels[0],
               ".stages = 3", ".stages = 4", "disagree");
}
