// Rows that blocks all over the GPU share, on a real GPU: right, and not kept
// from it by another grid of the kind that wants the same SMs.
#include "Families/Families.h"
#include "Trial/DependentCase.h"

#include <llvm/ADT/STLExtras.h>

#include <doctest/doctest.h>

using namespace kiln;
using namespace kiln::fake;

namespace {

struct SpreadCase {
  const char *family, *problem, *config;
};

constexpr SpreadCase kSpreadCases[] = {
    {"layernorm", "rows=1 cols=98520 weight=1 bias=1 dtype=bf16",
     "resident.t256.rt256.v8.n1.r1.c1.mb1.h1.g1.k49"},
    {"softmax", "rows=8 cols=151936 dtype=bf16",
     "resident.t512.rt512.v8.n3.r1.c1.mb1.h1.g1.k16"},
    {"softmax", "rows=1 cols=1000001 dtype=bf16 mask=1 align=2",
     "resident.t512.rt512.v8.n2.r1.c1.mb1.o2.g1.k132"},
    {"rmsnorm", "rows=2 cols=89856 weight=1 dtype=fp32",
     "resident.t256.rt256.v4.n2.r1.c1.mb1.h1.g1.k66"},
    {"rmsnorm",
     "rows=3 cols=100003 weight=1 bias=1 residual=1 dtype=bf16 out=fp8_e4m3",
     "resident.t256.rt256.v8.n2.r1.c1.mb1.o1.g1.k44"},
    {"rowquant", "rows=5 cols=200000 dtype=bf16",
     "resident.t256.rt256.v8.n4.r1.c1.mb1.g1.k26"},
    // Read again, one after the other and several at once.
    {"softmax", "rows=1 cols=17000000 dtype=bf16",
     "spread.t1024.v8.i4.s3.h1.k132"},
    {"layernorm",
     "rows=3 cols=4000001 weight=1 bias=1 residual=1 dtype=bf16 out=int8",
     "spread.t512.v8.i4.s3.o1.h1.k132"},
    {"rowquant", "rows=5 cols=3000001 dtype=bf16 align=2",
     "spread.t1024.v8.i2.s3.o2.h1.k66.r2"},
};

/// Some GPUs have fewer SMs than a case takes.
bool mayRun(const GpuTrials &gpu, const SpreadCase &given) {
  const KernelFamily &family = **gpu.registry.get(given.family);
  auto config = must(family.parseConfig(given.config));
  return !config.tmpl->prune(must(family.parseProblem(given.problem)),
                             config.config, gpu.device);
}

} // namespace

TEST_SUITE("gpu") {

  TEST_CASE("rows of blocks all over the GPU are right") {
    GpuTrials gpu(makeBuiltinRegistry());
    for (const SpreadCase &given : kSpreadCases) {
      CAPTURE(std::string(given.problem));
      if (!mayRun(gpu, given))
        continue;
      const KernelFamily &family = **gpu.registry.get(given.family);
      for (TrialData data : {TrialData::Usual, TrialData::Outliers}) {
        TrialRequest request = gpu.request(
            family, must(family.parseProblem(given.problem)), {given.config});
        request.options.measure = false;
        request.options.data = data;
        TrialResult result = must(gpu.runner->run(request)).front();
        CAPTURE(result.message);
        CHECK(result.validated);
      }
    }
  }

  TEST_CASE("two streams of rows that want all SMs end, and right") {
    GpuTrials gpu(makeBuiltinRegistry());
    for (const SpreadCase &given : kSpreadCases) {
      CAPTURE(std::string(given.problem));
      if (!mayRun(gpu, given))
        continue;
      const KernelFamily &family = **gpu.registry.get(given.family);
      DependentCase first(gpu, family, given.problem, given.config),
          second(gpu, family, given.problem, given.config);
      DependentCase *both[] = {&first, &second};
      std::vector<uint8_t> expected[2];
      for (auto [launched, outputs] : llvm::zip_equal(both, expected)) {
        must(launched->launch(false));
        outputs = launched->outputs();
        launched->clearOutputs();
      }
      constexpr int kRounds = 2000;
      for (int i = 0; i < kRounds; ++i)
        for (DependentCase *launched : both)
          must(launched->launch(/*isDependent=*/i % 2 != 0));
      for (auto [launched, outputs] : llvm::zip_equal(both, expected)) {
        CHECK(launched->outputs() == outputs);
        std::vector<uint8_t> workspace(launched->memory.bytes(), 1);
        must(copyToHost(*gpu.driver, workspace.data(),
                        launched->memory.address(), workspace.size()));
        CHECK(workspace == std::vector<uint8_t>(workspace.size()));
      }
    }
  }

} // TEST_SUITE
