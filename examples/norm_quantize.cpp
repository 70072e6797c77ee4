//===- norm_quantize.cpp - residual add, RMSNorm and fp8 in one pass ------===//
//
// h = x + h; y = rmsnorm(h) * weight, rounded to e4m3 with a scale for each
// token; then the GEMM that reads y and its per-token scales.
//
//===----------------------------------------------------------------------===//
#include "Sample.h"

int main() {
  return runSample("norm_quantize", [](const Gpu &gpu) {
    constexpr int64_t tokens = 64, width = 2048, n = 1024;
    const Buffer<Bf16> x(gpu, tokens * width), h(gpu, tokens * width);
    const Buffer<Bf16> weight(gpu, width), d(gpu, tokens * n);
    const Buffer<E4m3> y(gpu, tokens * width), w(gpu, n * width);
    const Buffer<float> perToken(gpu, tokens), perChannel(gpu, n);

    kiln::Engine engine = kiln::Engine::create().orThrow();
    engine
        .run(kiln::RmsNorm(KILN_BF16, tokens, width)
                 .x(x.data())
                 .residual(h.data(), h.data())
                 .weight(weight.data())
                 .epsilon(1e-6)
                 .y(y.data())
                 .quantized(KILN_E4M3, perToken.data()),
             gpu.stream())
        .orThrow();
    engine
        .run(kiln::Gemm(KILN_E4M3, tokens, n, width)
                 .layout(KILN_LAYOUT_NT)
                 .a(y.data())
                 .scaleA(perToken.data(), KILN_GRANULARITY_ROW)
                 .weights(w.data())
                 .scaleB(perChannel.data(), KILN_GRANULARITY_ROW)
                 .d(d.data())
                 .dependent(), // may begin before the norm has ended (PDL)
             gpu.stream())
        .orThrow();
    std::printf("%lld tokens normalised, quantised and multiplied\n",
                (long long)tokens);
  });
}
