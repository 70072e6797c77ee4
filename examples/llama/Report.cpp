//===- Report.cpp ---------------------------------------------------------===//
#include "Report.h"

#include "MemoryNeeds.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace llama {

nlohmann::json memoryReport(const Gpu &gpu, Runner &runner) {
  nlohmann::json report;
  for (int i = 0; i < kMemoryUses; ++i) {
    const auto use = static_cast<MemoryUse>(i);
    report[std::string(nameOf(use)) + " bytes"] = gpu.bytesOf(use);
  }
  const kiln::Statistics counts = runner.engine().statistics().orThrow();
  report["kiln arena bytes"] = counts.arena_bytes;
  report["kiln kernel bytes"] = counts.module_bytes;
  report["kiln host bytes"] = counts.host_bytes;
  report["graph bytes"] = runner.graphBytes();
  report["free bytes"] = gpu.freeBytes();
  report["device bytes"] = gpu.totalBytes();
  return report;
}

nlohmann::json waitsReport(Runner &runner, uint64_t &position, double leastMs) {
  constexpr double kNsPerMs = 1e6;
  nlohmann::json report = nlohmann::json::array();
  for (const kiln::Wait &wait : runner.engine().waits(position).orThrow()) {
    const double ms = double(wait.elapsed_ns) / kNsPerMs;
    if (ms >= leastMs)
      report.push_back({{"call", wait.call},
                        {"ms", ms},
                        {"phase", wait.phase},
                        {"reason", wait.reason},
                        {"problem", wait.problem}});
  }
  return report;
}

nlohmann::json countsReport(Runner &runner, const kiln::Statistics &before) {
  const kiln::Statistics now = runner.engine().statistics().orThrow();
  return {
      {"launches", now.launches - before.launches},
      {"dispatch misses", now.dispatch_misses - before.dispatch_misses},
      {"fallback launches", now.fallback_launches - before.fallback_launches},
      {"compiles", now.compiles - before.compiles},
      {"trials", now.trials - before.trials},
      {"waits", now.waits - before.waits}};
}

double readRate(const Gpu &gpu, Runner &runner) {
  constexpr int64_t kColumns = 8192, kRuns = 7;
  const DeviceWeights &weights = runner.modelWeights();
  const int64_t rows = static_cast<int64_t>(weights.bytes()) / (kColumns * 2);
  if (rows == 0)
    return 0;
  const DeviceMemory sums(gpu, static_cast<uint64_t>(rows) * sizeof(float),
                          MemoryUse::Scratch);
  kiln::Reduce sum(KILN_REDUCTION_SUM, KILN_BF16, rows, kColumns);
  sum.x(reinterpret_cast<void *>(weights.address()));
  sum.outputType(KILN_FP32).y(sums.at<void>());
  kiln::EngineOptions options;
  options.mode = KILN_MODE_PREDICT;
  const std::string nvrtc = runner.options().nvrtcPath;
  if (!nvrtc.empty())
    options.nvrtc_path = nvrtc.c_str();
  const kiln::Engine engine = kiln::Engine::create(options).orThrow();
  const Event start(gpu), end(gpu);
  std::vector<double> times;
  for (int i = 0; i < kRuns; ++i) {
    start.record();
    engine.run(sum, gpu.stream()).orThrow();
    end.record();
    end.wait();
    if (i > 0) // the first one compiles
      times.push_back(Event::millisecondsBetween(start, end));
  }
  std::sort(times.begin(), times.end());
  constexpr double kNsPerMs = 1e6;
  return double(rows) * kColumns * 2 / (times[times.size() / 2] * kNsPerMs);
}

double stepBytes(const Runner &runner, int64_t sequences, double keys) {
  const ModelConfig &model = runner.model();
  // A row of the embedding for each sequence; the rest of the weights once.
  const double embedding =
      2.0 * double(model.vocabSize) * double(model.hiddenSize);
  const double read = double(runner.modelWeights().bytes()) -
                      (model.tieEmbeddings ? 0 : embedding);
  const double perToken =
      double(cacheBytes(model, 1)); // keys and values, all layers
  return read + double(sequences) * keys * perToken;
}

} // namespace llama
