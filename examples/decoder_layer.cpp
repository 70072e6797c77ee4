//===- decoder_layer.cpp - decoding, from prepare to the replay of graphs -===//
//
// The program that docs/engine.md walks through. The problems of a step
// (Decoder.h) are prepared over ranges, a step runs once launch by launch, then
// graphs that feed themselves are captured and replayed by an engine that
// compiles and measures nothing.
//
//   example-decoder_layer                       measure, then serve
//   example-decoder_layer --budget-ms 5000      the same with less time
//   example-decoder_layer --warm-up h200-sxm    fill the cache, without a GPU
//   example-decoder_layer --serve               serve from the cache
//
//===----------------------------------------------------------------------===//
#include "Decoder.h"

#include <cstdlib>
#include <map>
#include <memory>

namespace {

kiln::Engine makeEngine(kiln_mode mode) {
  kiln::EngineOptions options;
  options.mode = mode;
  options.log_level = KILN_LOG_WARNING;
  options.log = [](void *, kiln_log_level, const char *message) {
    std::fprintf(stderr, "kiln: %s\n", message);
  };
  return kiln::Engine::create(options).orThrow();
}

/// Chooses, compiles and loads all kernels, and makes the stream's arena.
void prepare(const kiln::Engine &engine, const Decoder &decoder,
             kiln_stream stream, int64_t budgetMs) {
  kiln::PrepareOptions options;
  options.streams = &stream;
  options.stream_count = 1;
  options.budget_ms = budgetMs; // for all problems together
  options.progress = [](void *, const kiln_progress *now) -> int32_t {
    std::fprintf(stderr, "\r%llu of %llu problems, %llu trials ",
                 (unsigned long long)now->problems_done,
                 (unsigned long long)now->problems_total,
                 (unsigned long long)now->trials_done);
    return 0; // another value cancels
  };
  engine.prepare(decoder.problems(), options).orThrow();
  std::fprintf(stderr, "\n");
}

/// A captured step, which is replayed on the stream of its capture.
class Graph {
public:
  template <class Enqueue>
  Graph(const Gpu &gpu, const Enqueue &enqueue) : gpu(gpu) {
    Gpu::check(gpu.cuda.streamBeginCapture(gpu.stream(), kCaptureGlobal));
    CudaGraph graph = nullptr;
    try {
      enqueue();
    } catch (...) { // a launch that fails does not end the capture
      gpu.cuda.streamEndCapture(gpu.stream(), &graph);
      gpu.cuda.graphDestroy(graph);
      throw;
    }
    Gpu::check(gpu.cuda.streamEndCapture(gpu.stream(), &graph));
    const int made = gpu.cuda.graphInstantiate(&replay, graph, 0);
    gpu.cuda.graphDestroy(graph);
    Gpu::check(made);
  }
  Graph(const Graph &) = delete;
  Graph &operator=(const Graph &) = delete;
  ~Graph() { gpu.cuda.graphExecDestroy(replay); }

  void launch() const {
    Gpu::check(gpu.cuda.graphLaunch(replay, gpu.stream()));
  }

private:
  const Gpu &gpu;
  CudaGraphExec replay = nullptr;
};

template <class T>
void upload(const Gpu &gpu, T *to, const std::vector<T> &values) {
  Gpu::check(gpu.cuda.memcpyHtoD(reinterpret_cast<CudaAddress>(to),
                                 values.data(), values.size() * sizeof(T)));
}

/// Sequences whose prompts are in the cache, padded to \p bucket: a row that no
/// sequence has reads and writes the padding page.
void startSequences(const Gpu &gpu, const Memory &memory,
                    const std::vector<int32_t> &prompts, int64_t bucket) {
  const auto rows = static_cast<size_t>(bucket);
  std::vector<int32_t> tokens(rows, 0), positions(rows, 0), lengths(rows, 1);
  std::vector<int32_t> pages(rows * kColumns, kPaddingPage);
  int32_t nextPage = kPaddingPage + 1;
  for (size_t row = 0; row < prompts.size(); ++row) {
    positions[row] = prompts[row];
    lengths[row] = prompts[row] + 1; // counts the token of this step
    for (size_t column = 0; column < kColumns; ++column)
      pages[row * kColumns + column] = nextPage++;
  }
  upload(gpu, memory.tokens, tokens);
  upload(gpu, memory.positions, positions);
  upload(gpu, memory.lengths, lengths);
  upload(gpu, memory.pageTable, pages);
}

/// The first start: measures kernels and leaves them in the cache.
void measure(const Gpu &gpu, const Memory &memory, int64_t budgetMs) {
  const Decoder decoder(memory);
  const kiln::Engine engine = makeEngine(KILN_MODE_TUNE);
  prepare(engine, decoder, gpu.stream(), budgetMs);
  startSequences(gpu, memory, {5, 300, 17}, 3);
  decoder.step(engine, 3, gpu.stream());
  gpu.synchronize();
}

/// Production: an engine that compiles and measures nothing.
void serve(const Gpu &gpu, const Memory &memory) {
  const Decoder decoder(memory);
  const kiln::Engine engine = makeEngine(KILN_MODE_STRICT);
  prepare(engine, decoder, gpu.stream(), 0);

  std::map<int64_t, std::unique_ptr<Graph>> graphs;
  for (int64_t bucket : {1, 4, 16})
    graphs[bucket] = std::make_unique<Graph>(
        gpu, [&] { decoder.step(engine, bucket, gpu.stream()); });

  const std::vector<int32_t> prompts{5, 300, 17};
  const auto &[bucket, graph] =
      *graphs.lower_bound(static_cast<int64_t>(prompts.size()));
  startSequences(gpu, memory, prompts, bucket);
  constexpr int kSteps = 8;
  for (int i = 0; i < kSteps; ++i) {
    const kiln::ProfileRange range(engine, KILN_PROFILE_STEP, "decode");
    graph->launch(); // the tokens of one step are the input of the next
  }
  gpu.synchronize();

  uint64_t position = 0;
  for (const kiln::Wait &wait : engine.waits(position).orThrow())
    std::printf("%s waited %.1f ms, %.1f of it: %s (%s)\n", wait.call,
                double(wait.elapsed_ns) * 1e-6, double(wait.phase_ns) * 1e-6,
                wait.phase, wait.reason);
  const kiln::Statistics counts = engine.statistics().orThrow();
  std::printf("%.1f MiB of kernels, %.1f MiB of workspace\n",
              double(counts.module_bytes) / (1 << 20),
              double(counts.arena_bytes) / (1 << 20));
  std::printf("%d steps of %zu sequences: %llu compilations, %llu trials\n",
              kSteps, prompts.size(), (unsigned long long)counts.compiles,
              (unsigned long long)counts.trials);
}

/// On a build machine: no GPU, no driver and no memory of a device is needed.
void warmUp(const char *device) {
  kiln::EngineOptions options;
  options.device_model = device;
  const kiln::Engine engine = kiln::Engine::create(options).orThrow();
  kiln::PrepareOptions compile;
  compile.flags = KILN_PREPARE_COMPILE_ONLY;
  engine.prepare(Decoder(Memory{}).problems(), compile).orThrow();
  std::printf("%llu kernels compiled for %s\n",
              (unsigned long long)engine.statistics().orThrow().compiles,
              device);
}

} // namespace

int main(int argc, char **argv) {
  const std::string option = argc > 1 ? argv[1] : "";
  const char *value = argc > 2 ? argv[2] : "";
  if (option == "--warm-up") {
    try {
      warmUp(value);
      return 0;
    } catch (const std::exception &error) {
      std::fprintf(stderr, "decoder_layer: %s\n", error.what());
      return 1;
    }
  }
  return runSample("decoder_layer", [&](const Gpu &gpu) {
    DeviceArrays arrays(gpu);
    const Memory memory = makeMemory(gpu, arrays);
    if (option != "--serve")
      measure(gpu, memory, option == "--budget-ms" ? std::atoll(value) : 60000);
    serve(gpu, memory);
  });
}
