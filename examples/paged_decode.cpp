//===- paged_decode.cpp - a decoding step over a paged KV cache -----------===//
//
// One query a sequence, grouped-query attention, keys and values in pages of
// 16 tokens. Lengths and the page table are device memory: the step is captured
// once and replayed while both change.
//
//===----------------------------------------------------------------------===//
#include "Sample.h"

int main() {
  return runSample("paged_decode", [](const Gpu &gpu) {
    constexpr int64_t batch = 4, heads = 32, kvHeads = 8, dim = 128;
    constexpr int64_t pageSize = 16, longest = 1024;
    constexpr int64_t columns = longest / pageSize, pages = batch * columns;
    std::vector<int32_t> used{17, 300, 1024, 5}, pageOf(batch * columns);
    for (size_t i = 0; i < pageOf.size(); ++i)
      pageOf[i] = static_cast<int32_t>(i);
    const Buffer<int32_t> lengths(gpu, used), table(gpu, pageOf);
    // Pools of [page][token][head][element].
    const Buffer<Bf16> keys(gpu, pages * pageSize * kvHeads * dim);
    const Buffer<Bf16> values(gpu, pages * pageSize * kvHeads * dim);
    const Buffer<Bf16> q(gpu, batch * heads * dim), o(gpu, batch * heads * dim);

    kiln::Attention step(KILN_BF16, batch, 1, longest, heads, dim);
    step.kvHeads(kvHeads).q(q.data()).o(o.data());
    step.k(keys.data()).v(values.data()).keyLengths(lengths.data());
    step.pages(table.data(), pageSize, pages, columns).keysHint(512);

    // Everything that a capture needs is made ahead: kernels and workspace.
    kiln::Engine engine = kiln::Engine::create().orThrow();
    const kiln_stream stream = gpu.stream();
    kiln::PrepareOptions options;
    options.streams = &stream;
    options.stream_count = 1;
    engine.prepare({step}, options).orThrow();

    CudaGraph graph = nullptr;
    CudaGraphExec replay = nullptr;
    Gpu::check(gpu.cuda.streamBeginCapture(stream, kCaptureGlobal));
    engine.run(step, stream).orThrow();
    Gpu::check(gpu.cuda.streamEndCapture(stream, &graph));
    Gpu::check(gpu.cuda.graphInstantiate(&replay, graph, 0));
    for (int token = 0; token < 3; ++token)
      Gpu::check(gpu.cuda.graphLaunch(replay, stream));
    gpu.synchronize();
    gpu.cuda.graphExecDestroy(replay);
    gpu.cuda.graphDestroy(graph);
    std::printf("3 steps of %lld sequences\n", (long long)batch);
  });
}
