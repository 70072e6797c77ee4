//===- fp8_gemm.cpp - fp8 GEMM with the scales that checkpoints have ------===//
//
// D[m, n] = A[m, k] W[n, k]^T in e4m3 with fp32 sums and a bf16 result: with
// per-token and per-channel scales (compressed-tensors, torchao), and with
// block scales of 1 x 128 and 128 x 128 (DeepSeek-V3, Qwen3).
//
//===----------------------------------------------------------------------===//
#include "Sample.h"

int main() {
  return runSample("fp8_gemm", [](const Gpu &gpu) {
    constexpr int64_t m = 128, n = 1024, k = 2048, block = 128;
    const Buffer<E4m3> a(gpu, m * k), w(gpu, n * k);
    const Buffer<Bf16> d(gpu, m * n);
    const Buffer<float> perToken(gpu, m), perChannel(gpu, n);
    const Buffer<float> blocksA(gpu, m * (k / block));
    const Buffer<float> blocksW(gpu, (n / block) * (k / block));

    kiln::Engine engine = kiln::Engine::create().orThrow();
    const kiln::Gemm plain = kiln::Gemm(KILN_E4M3, m, n, k)
                                 .layout(KILN_LAYOUT_NT)
                                 .a(a.data())
                                 .weights(w.data())
                                 .d(d.data());

    kiln::Gemm rows = plain;
    rows.scaleA(perToken.data(), KILN_GRANULARITY_ROW)
        .scaleB(perChannel.data(), KILN_GRANULARITY_ROW);
    engine.run(rows, gpu.stream()).orThrow();

    kiln::Gemm blocks = plain;
    blocks.blockScaleA(blocksA.data(), 1, block)
        .blockScaleB(blocksW.data(), block, block);
    engine.run(blocks, gpu.stream()).orThrow();

    // The kernel that serves the problem, with its predicted or measured time.
    const kiln::Plan plan = engine.plan(blocks, gpu.stream()).orThrow();
    std::printf("%s\n", plan.describe().c_str());
  });
}
