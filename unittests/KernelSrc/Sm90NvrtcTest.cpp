// The wgmma kernels through the real NVRTC: for each kind of signature the
// first kernels of its space compile without spills, and without making ptxas
// serialise wgmma or ignore setmaxnreg.
#include "KernelSrc/RealCompiler.h"

#include "Device/Catalog.h"
#include "Kernel/Sources.h"
#include "Kernel/Space.h"
#include "Support/Error.h"
#include "Support/Format.h"

#include <doctest/doctest.h>

#include <atomic>
#include <set>
#include <thread>

using namespace kiln;
using namespace kiln::testing;

namespace {

struct Sm90Sample {
  std::string problem, config;
  TranslationUnit unit;
  std::string failure;
};

std::string failureOf(const TranslationUnit &unit) {
  auto artifact = compiler().compile(unit);
  if (!artifact)
    return llvm::toString(artifact.takeError());
  if (artifact->arch != "sm_90a")
    return artifact->arch;
  return artifact->rejection(/*maySpill=*/false);
}

/// The best sm90 candidate of each of the first \p count classes of a space;
/// candidates that differ only in run-time knobs are one kernel.
void addFirstChoices(llvm::StringRef text, size_t count,
                     std::vector<Sm90Sample> &samples) {
  CAPTURE(text.str());
  DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
  Problem problem = llvm::cantFail(gemm().parseProblem(text));
  Space space = llvm::cantFail(exploreSpace(gemm(), problem, device));
  std::set<std::string> sources;
  for (const Candidate &candidate : space.ranked) {
    if (candidate.tmpl->name() != "sm90" || sources.size() == count)
      continue;
    Plan plan = candidate.tmpl->plan(problem, candidate.config, device);
    if (sources.insert(plan.kernels[0].source()).second)
      samples.push_back(
          {text.str(), candidate.config.text(), plan.kernels[0], ""});
  }
  CHECK(sources.size() == count);
}

/// A config by its text, which the pruner has to accept.
void addConfig(llvm::StringRef text, llvm::StringRef config,
               std::vector<Sm90Sample> &samples) {
  DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
  Problem problem = llvm::cantFail(gemm().parseProblem(text));
  auto named = llvm::cantFail(gemm().parseConfig(config));
  if (auto rejection = named.tmpl->prune(problem, named.config, device))
    FAIL_CHECK(config.str(), ": ", rejection->text());
  else
    samples.push_back(
        {text.str(), config.str(),
         named.tmpl->plan(problem, named.config, device).kernels[0], ""});
}

void compileSm90(std::vector<Sm90Sample> &samples) {
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i; (i = next++) < samples.size();)
      samples[i].failure = failureOf(samples[i].unit);
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(2u, std::thread::hardware_concurrency());
       ++t)
    threads.emplace_back(work);
  for (std::thread &thread : threads)
    thread.join();
  for (const Sm90Sample &sample : samples) {
    CAPTURE(sample.problem);
    CAPTURE(sample.config);
    CHECK(sample.failure == "");
  }
}

/// A kernel of one instruction, for several types, that keeps all sums.
TranslationUnit wgmmaUnit(int width) {
  UnitParts unit;
  unit.name = "kiln_wgmma_width";
  unit.arch = "sm_90a";
  unit.headers = kernelSources();
  unit.source = fmt::format(R"(
#include "common/PtxSm90.cuh"
#include "common/WgmmaTf32.cuh"
using namespace kiln;
extern "C" __global__ void __launch_bounds__(128, 1)
kilnEntry(float *out, unsigned long long a, unsigned long long b) {{
  constexpr int kWidth = {};
  static_assert(ptx::hasWgmma(kWidth), "the width is not known");
  float sums[kWidth / 2];
  ptx::wgmmaFence();
  ptx::wgmma<DType::BF16, kWidth, 0, 1>(sums, a, b, 0);
  ptx::wgmma<DType::FP16, kWidth, 1, 0>(sums, b, a, 1);
  ptx::wgmma<DType::FP32, kWidth, 0, 0>(sums, a, b, 1);
  unsigned fragment[4] = {{1, 2, 3, 4}};
  ptx::wgmmaTf32Registers<kWidth>(sums, fragment, b, 1);
  ptx::wgmmaCommit();
  ptx::wgmmaWait<0>();
  for (int i = 0; i < kWidth / 2; ++i)
    out[i * 128 + threadIdx.x] = sums[i];
}}
)",
                            width);
  return TranslationUnit(std::move(unit));
}

} // namespace

TEST_CASE("NVRTC's alternate build compiles kernels to the same code") {
  if (!hasNvrtc())
    return;
  auto primary = llvm::cantFail(compiler().nvrtc());
  auto alternate = primary->loadAlternate();
  if (!alternate) {
    MESSAGE("skipped: ", summarize(alternate.takeError()).message);
    return;
  }
  CHECK((*alternate)->path() != primary->path());
  std::vector<Sm90Sample> samples;
  addFirstChoices("gemm m=256 n=256 k=16384 dtype=bf16 layout=NT", 1, samples);
  addFirstChoices("gemm m=4096 n=4096 k=4096 dtype=fp16 layout=TN "
                  "pointwise=bias,gelu_erf",
                  2, samples);
  for (const Sm90Sample &sample : samples) {
    CAPTURE(sample.config);
    const TranslationUnit &unit = sample.unit;
    auto compile = [&](const Nvrtc &nvrtc) {
      NvrtcOutcome outcome =
          nvrtc.compile(unit.name(), unit.source(), unit.headers(),
                        compileOptions(unit, nvrtc));
      REQUIRE(outcome.result == 0);
      return outcome.cubin;
    };
    CHECK((compile(*primary) == compile(**alternate)));
  }
}

TEST_CASE("the first choices of every kind of signature compile clean") {
  if (!hasNvrtc())
    return;
  std::vector<Sm90Sample> samples;
  for (const char *text :
       {// Layouts, with tiles of all sizes.
        "gemm m=8192 n=8192 k=8192 dtype=bf16 layout=NT",
        "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NN",
        "gemm m=4096 n=4096 k=4096 dtype=fp16 layout=TN",
        "gemm m=2048 n=2048 k=2048 dtype=bf16 layout=TT",
        // Few rows: swapped sides, splits, hints.
        "gemm m=64 n=4096 k=14336 dtype=bf16 layout=NT",
        "gemm m=24 n=2112 k=7168 dtype=fp16 layout=NN",
        "gemm m=128 n=7168 k=2048 dtype=bf16 layout=NT",
        // Epilogues.
        "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT "
        "pointwise=bias,gelu_erf",
        "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT pointwise=residual",
        "gemm m=2048 n=4096 k=4096 dtype=fp16 layout=NT beta=1 "
        "pointwise=bias,residual,silu",
        "gemm m=64 n=4096 k=4096 dtype=bf16 layout=NT "
        "pointwise=bias,gelu_tanh,residual",
        "gemm m=4096 n=8192 k=4096 dtype=bf16 layout=NT pointwise=swiglu",
        "gemm m=4096 n=8192 k=4096 dtype=bf16 layout=NT "
        "pointwise=bias,swiglu_clamped",
        "gemm m=2048 n=4096 k=4096 dtype=bf16 layout=NT out=fp32 "
        "pointwise=bias,swiglu,residual",
        "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT out=fp32",
        "gemm m=512 n=512 k=8192 dtype=fp16 layout=TT out=fp32 beta=1",
        // A D that no tensor map can describe.
        "gemm m=1000 n=7777 k=2664 dtype=bf16 layout=NT",
        "gemm m=333 n=1001 k=4096 dtype=fp16 layout=NN "
        "pointwise=bias,residual",
        "gemm m=60 n=1001 k=4096 dtype=bf16 layout=NT out=fp32 ldd=1001 "
        "beta=1 pointwise=bias",
        // tf32, along k and with rows from registers.
        "gemm m=4096 n=4096 k=4096 dtype=fp32 compute=tf32 layout=NT "
        "pointwise=bias,gelu_tanh",
        "gemm m=100 n=4096 k=4096 dtype=fp32 compute=tf32 layout=NN",
        "gemm m=2048 n=2048 k=2048 dtype=fp32 compute=tf32 layout=TT beta=1",
        "gemm m=1000 n=777 k=2000 dtype=fp32 compute=tf32 layout=TN"})
    addFirstChoices(text, 5, samples);
  compileSm90(samples);
}

TEST_CASE("every way to share out a tile compiles clean at its limits") {
  if (!hasNvrtc())
    return;
  struct Form {
    llvm::StringRef epilogue, config;
  };
  std::vector<Sm90Sample> samples;
  for (const Form &form : {
           // As many sums as registers allow: one, two, three consumers,
           // turns, shared columns; both orders of the sides.
           Form{"", "bm256.bn96.bk64.st3.wg1"},
           Form{"", "bm128.bn192.bk64.st3.wg1.sw1"},
           Form{"", "bm256.bn184.bk64.st3.wg2"},
           Form{"", "bm192.bn256.bk64.st3.wg2.sw1"},
           Form{"", "bm192.bn128.bk64.st3.wg2.pp1"},
           Form{"", "bm128.bn192.bk64.st3.wg2.pp1.sw1"},
           Form{"", "bm192.bn200.bk64.st3.wg3"},
           Form{"", "bm200.bn192.bk64.st3.wg3.sw1"},
           Form{"", "bm384.bn128.bk64.st2.wg2.cs1"},
           Form{"", "bm144.bn320.bk64.st3.wg2.sw1.cs1"},
           Form{"", "bm192.bn192.bk64.st3.wg3.cs1"},
           // Less staging, and odd pieces.
           Form{"", "bm200.bn192.bk64.st4.wg3.sw1.sg2"},
           Form{"", "bm152.bn128.bk64.st6.wg2.pp1.sw1.sg1"},
           Form{"out=fp32", "bm128.bn152.bk64.st4.wg2.sg2"},
           Form{"out=fp32 pointwise=bias", "bm152.bn128.bk64.st4.wg2.sw1"},
           Form{"pointwise=bias,gelu_tanh", "bm200.bn128.bk64.st4.wg2.sw1"},
           Form{"pointwise=gelu_erf", "bm120.bn256.bk64.st3.wg2.sw1"},
           Form{"pointwise=gelu_erf", "bm128.bn96.bk64.st4.wg2.pp1"},
           Form{"pointwise=residual", "bm104.bn128.bk64.st4.wg2.sw1"},
           Form{"pointwise=residual", "bm160.bn256.bk64.st3.wg2.sw1"},
           Form{"beta=1", "bm88.bn192.bk64.st3.wg3.sw1"},
           Form{"ldd=4097", "bm152.bn128.bk64.st4.wg2.sw1.sg1"},
           Form{"ldd=4097 pointwise=bias", "bm128.bn152.bk64.st4.wg2.sg2"},
       }) {
    std::string text = fmt::format(
        "gemm m=1024 n=2048 k=4096 dtype=bf16 layout=NT {}", form.epilogue);
    addConfig(text, fmt::format("sm90.{}.cm1.cn1", form.config), samples);
  }
  // Rows of tf32 from registers, without and with exchanged sides.
  for (const Form &form : {
           Form{"", "bm128.bn160.bk32.st4.wg2.pp1"},
           Form{"", "bm256.bn160.bk32.st3.wg2.sg1"},
           Form{"", "bm256.bn64.bk64.st2.wg1"},
           Form{"", "bm192.bn192.bk32.st4.wg3.sg1"},
           Form{"pointwise=bias,gelu_tanh", "bm128.bn128.bk32.st4.wg2.pp1"},
           Form{"beta=1", "bm128.bn112.bk32.st3.wg2.pp1"},
       })
    addConfig("gemm m=2048 n=4096 k=4096 dtype=fp32 compute=tf32 layout=TT " +
                  form.epilogue.str(),
              fmt::format("sm90.{}.cm1.cn1", form.config), samples);
  for (const Form &form : {
           Form{"", "bm128.bn128.bk32.st4.wg2.pp1.sw1.sg1"},
           Form{"", "bm144.bn128.bk32.st4.wg2.sw1.sg1"},
           Form{"", "bm128.bn256.bk32.st3.wg2.sw1.sg1"},
           Form{"pointwise=silu", "bm112.bn256.bk32.st3.wg2.sw1.sg1"},
           Form{"pointwise=residual", "bm88.bn192.bk32.st2.wg3.sw1"},
       })
    addConfig("gemm m=2048 n=4096 k=4096 dtype=fp32 compute=tf32 layout=NN " +
                  form.epilogue.str(),
              fmt::format("sm90.{}.cm1.cn1", form.config), samples);
  compileSm90(samples);
}

TEST_CASE("the kernels that copy operands compile clean") {
  if (!hasNvrtc())
    return;
  DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
  auto check = [&](llvm::StringRef text, llvm::StringRef config,
                   size_t kernels) {
    Problem problem = llvm::cantFail(gemm().parseProblem(text));
    auto named = llvm::cantFail(gemm().parseConfig(config));
    REQUIRE(!named.tmpl->prune(problem, named.config, device));
    Plan plan = named.tmpl->plan(problem, named.config, device);
    REQUIRE(plan.kernels.size() == kernels);
    for (size_t i = 1; i < kernels; ++i) {
      auto artifact = compiler().compile(plan.kernels[i]);
      REQUIRE(bool(artifact));
      CHECK(artifact->rejection(false) == "");
    }
  };
  check("gemm m=512 n=512 k=511 dtype=bf16 layout=NT",
        "sm90.bm128.bn128.bk64.st4.wg2.pp0.sw0.cm1.cn1", 2);
  check("gemm m=512 n=512 k=511 dtype=fp32 compute=tf32 layout=NN",
        "sm90.bm128.bn128.bk32.st4.wg2.pp0.sw0.cm1.cn1", 3);
}

TEST_CASE("wgmma compiles in each of its widths") {
  if (!hasNvrtc())
    return;
  for (int width = 8; width <= 256; width += 8) {
    CAPTURE(width);
    auto artifact = compiler().compile(wgmmaUnit(width));
    if (!artifact) {
      FAIL_CHECK(llvm::toString(artifact.takeError()));
      continue;
    }
    // Without its own instruction a width would leave no sums to keep.
    CHECK(artifact->usage.registersPerThread >= width / 2);
    CHECK(artifact->rejection(false) == "");
  }
  auto artifact = compiler().compile(wgmmaUnit(44));
  REQUIRE(!artifact);
  CHECK(llvm::toString(artifact.takeError()).find("width is not known") !=
        std::string::npos);
}

TEST_CASE("a config that does not fit its signature does not compile") {
  if (!hasNvrtc())
    return;
  DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
  Problem problem = llvm::cantFail(
      gemm().parseProblem("gemm m=512 n=512 k=512 dtype=bf16 layout=NT"));
  auto named = llvm::cantFail(
      gemm().parseConfig("sm90.bm128.bn128.bk64.st4.wg2.pp0.sw0.cm1.cn1"));
  checkRefused(named.tmpl->plan(problem, named.config, device).kernels[0],
               ".blockN = 128", ".blockN = 100", "does not fit");
}
