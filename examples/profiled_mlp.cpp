//===- profiled_mlp.cpp - steps and layers that a profile tells apart -----===//
//
// An MLP of many layers, x = x + silu(norm(x) U) D, with a range around each
// step and each layer. Profilers show the ranges, and `kiln profile --by layer`
// sums kernels up by them. At the end: the calls that waited, and why.
//
//===----------------------------------------------------------------------===//
#include "Sample.h"

#include <memory>

namespace {

constexpr int64_t kTokens = 64, kWidth = 1024, kInner = 4096;
constexpr int kLayers = 4, kSteps = 6;

struct Layer {
  explicit Layer(const Gpu &gpu)
      : norm(gpu, kWidth), up(gpu, kInner * kWidth),
        down(gpu, kWidth * kInner) {}
  Buffer<Bf16> norm, up, down;
};

} // namespace

int main() {
  return runSample("profiled_mlp", [](const Gpu &gpu) {
    const Buffer<Bf16> x(gpu, kTokens * kWidth), y(gpu, kTokens * kWidth);
    const Buffer<Bf16> inner(gpu, kTokens * kInner);
    std::vector<std::unique_ptr<Layer>> layers;
    for (int i = 0; i < kLayers; ++i)
      layers.push_back(std::make_unique<Layer>(gpu));

    kiln::Engine engine = kiln::Engine::create().orThrow();
    for (int step = 0; step < kSteps; ++step) {
      const kiln::ProfileRange inStep(engine, KILN_PROFILE_STEP,
                                      ("step " + std::to_string(step)).c_str());
      for (int i = 0; i < kLayers; ++i) {
        const Layer &layer = *layers[static_cast<size_t>(i)];
        const kiln::ProfileRange inLayer(
            engine, KILN_PROFILE_LAYER, ("layer " + std::to_string(i)).c_str());
        engine
            .run(kiln::RmsNorm(KILN_BF16, kTokens, kWidth)
                     .x(x.data())
                     .weight(layer.norm.data())
                     .epsilon(1e-6)
                     .y(y.data()),
                 gpu.stream())
            .orThrow();
        engine
            .run(kiln::Gemm(KILN_BF16, kTokens, kInner, kWidth)
                     .layout(KILN_LAYOUT_NT)
                     .a(y.data())
                     .weights(layer.up.data())
                     .d(inner.data())
                     .silu(),
                 gpu.stream())
            .orThrow();
        engine
            .run(kiln::Gemm(KILN_BF16, kTokens, kWidth, kInner)
                     .layout(KILN_LAYOUT_NT)
                     .a(inner.data())
                     .weights(layer.down.data())
                     .c(1.0, x.data())
                     .d(x.data()),
                 gpu.stream())
            .orThrow();
      }
    }
    gpu.synchronize();

    uint64_t position = 0;
    for (const kiln::Wait &wait : engine.waits(position).orThrow())
      std::printf("%s waited %.0f ms, %.0f of it: %s (%s)\n  %s\n", wait.call,
                  double(wait.elapsed_ns) * 1e-6, double(wait.phase_ns) * 1e-6,
                  wait.phase, wait.reason, wait.problem);
    std::printf("%d steps of %d layers\n", kSteps, kLayers);
  });
}
