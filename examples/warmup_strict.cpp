//===- warmup_strict.cpp - compile ahead of time, then never again --------===//
//
// A first engine fills the cache for all token counts of a layer: as a build
// job does, for a named GPU, on a machine that needs none. A second engine is
// that of production: strict, it compiles and measures nothing.
//
//===----------------------------------------------------------------------===//
#include "Sample.h"

int main() {
  return runSample("warmup_strict", [](const Gpu &gpu) {
    constexpr int64_t mostTokens = 512, n = 1024, k = 1024;
    auto layer = [](int64_t m) {
      return kiln::Gemm(KILN_BF16, m, n, k).layout(KILN_LAYOUT_NT);
    };
    kiln::Problem problem(layer(1));
    problem.range("m", 1, mostTokens);
    { // The same on the command line: kiln warmup --range m=1..512 ...
      kiln::EngineOptions options;
      options.device_model = "h200-sxm";
      kiln::Engine builder = kiln::Engine::create(options).orThrow();
      kiln::PrepareOptions compile;
      compile.flags = KILN_PREPARE_COMPILE_ONLY;
      builder.prepare({problem}, compile).orThrow();
    }
    kiln::EngineOptions options;
    options.mode = KILN_MODE_STRICT;
    kiln::Engine engine = kiln::Engine::create(options).orThrow();
    const Buffer<Bf16> a(gpu, mostTokens * k), w(gpu, n * k);
    const Buffer<Bf16> d(gpu, mostTokens * n);
    for (int64_t m : {1, 7, 77, 500}) {
      kiln::Gemm call = layer(m).a(a.data()).weights(w.data()).d(d.data());
      const kiln::Status status = engine.run(call, gpu.stream());
      // On another GPU than that of the warm-up the message has the key.
      if (status.code() == KILN_MISSING)
        std::printf("not warmed up: %s\n", status.message().c_str());
      else
        status.orThrow();
    }
    const kiln::Statistics statistics = engine.statistics().orThrow();
    std::printf("%llu launches, %llu compilations\n",
                (unsigned long long)statistics.launches,
                (unsigned long long)statistics.compiles);
  });
}
