//===- moe_fp8.cpp - the experts of an MoE layer, grouped GEMM in fp8 -----===//
//
// From a router's logits to the sum of the chosen experts: the choice, one
// grouped GEMM for all experts (gate and up projection with SwiGLU and an fp8
// result with its block scales), the down projection, and the sum of each
// token's choices. How many rows an expert gets is device memory, so a CUDA
// graph serves every routing.
//
//===----------------------------------------------------------------------===//
#include "Sample.h"

int main() {
  return runSample("moe_fp8", [](const Gpu &gpu) {
    constexpr int64_t tokens = 64, topK = 2, experts = 8, width = 1024;
    constexpr int64_t hidden = 512, block = 128, rows = tokens * topK;
    const Buffer<float> logits(gpu, tokens * experts), weights(gpu, rows);
    // index[r] = token * topK + j, sorted by expert; groupEnds[e] = how many of
    // them experts 0 to e have.
    const Buffer<int32_t> index(gpu, rows), groupEnds(gpu, experts);
    const Buffer<E4m3> x(gpu, tokens * width), act(gpu, rows * hidden);
    const Buffer<float> xScales(gpu, tokens * width / block);
    const Buffer<float> actScales(gpu, rows * hidden / block);
    const Buffer<E4m3> gateUp(gpu, experts * 2 * hidden * width);
    const Buffer<E4m3> down(gpu, experts * width * hidden);
    constexpr int64_t scalesUp = 2 * hidden / block * (width / block);
    constexpr int64_t scalesDown = width / block * (hidden / block);
    const Buffer<float> gateUpScales(gpu, experts * scalesUp);
    const Buffer<float> downScales(gpu, experts * scalesDown);
    const Buffer<Bf16> perChoice(gpu, rows * width); // [tokens, topK, width]
    const Buffer<Bf16> out(gpu, tokens * width);

    kiln::Engine engine = kiln::Engine::create().orThrow();
    kiln::Route route(KILN_FP32, tokens, experts, topK);
    route.logits(logits.data()).renormalize();
    route.rows(index.data(), groupEnds.data(), weights.data());
    engine.run(route, gpu.stream()).orThrow();

    kiln::Gemm up(KILN_E4M3, rows, 2 * hidden, width);
    up.layout(KILN_LAYOUT_NT).batch(experts).groupsByEnds(groupEnds.data());
    up.a(x.data()).blockScaleA(xScales.data(), 1, block);
    up.gatherRows(index.data(), topK);
    up.weights(gateUp.data(), 0, 2 * hidden * width);
    up.blockScaleB(gateUpScales.data(), block, block, 0, 0, scalesUp);
    up.swiGlu().d(act.data()).blockQuantizeD(actScales.data());
    engine.run(up, gpu.stream()).orThrow();

    kiln::Gemm toToken(KILN_E4M3, rows, width, hidden);
    toToken.layout(KILN_LAYOUT_NT).batch(experts);
    toToken.groupsByEnds(groupEnds.data()).scatterRows(index.data());
    toToken.rowWeights(weights.data()).d(perChoice.data());
    toToken.a(act.data()).blockScaleA(actScales.data(), 1, block);
    toToken.weights(down.data(), 0, width * hidden);
    toToken.blockScaleB(downScales.data(), block, block, 0, 0, scalesDown);
    engine.run(toToken, gpu.stream()).orThrow();

    kiln::Combine sum(KILN_BF16, tokens, width, topK);
    engine.run(sum.x(perChoice.data()).y(out.data()), gpu.stream()).orThrow();
    std::printf("MoE in fp8: %lld rows to 8 experts\n", (long long)rows);
  });
}
