//===- Report.cpp ---------------------------------------------------------===//
#include "Report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace llama {

nlohmann::json memoryReport(const Gpu &gpu, Runner &runner) {
  nlohmann::json report;
  uint64_t known = 0;
  auto add = [&](const std::string &use, uint64_t bytes) {
    report[use + " bytes"] = bytes;
    known += bytes;
  };
  for (int i = 0; i < kMemoryUses; ++i) {
    const auto use = static_cast<MemoryUse>(i);
    add(nameOf(use), gpu.bytesOf(use));
  }
  const kiln::Statistics counts = runner.engine().statistics().orThrow();
  add("workspace", counts.arena_bytes);
  add("kernel", counts.module_bytes);
  add("graph", runner.graphBytes());
  const uint64_t device = gpu.totalBytes(), left = gpu.freeBytes();
  report["other bytes"] = device - std::min(device, left + known);
  report["free bytes"] = left;
  report["device bytes"] = device;
  report["host bytes of kiln"] = counts.host_bytes;
  return report;
}

nlohmann::json waitsReport(Runner &runner, uint64_t &position, double leastMs) {
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

namespace {

/// The median milliseconds of a call.
template <class Call>
double medianMs(const Gpu &gpu, const kiln::Engine &engine, const Call &call) {
  constexpr int kRuns = 7;
  const Event start(gpu), end(gpu);
  std::vector<double> times;
  for (int i = 0; i < kRuns; ++i) {
    start.record();
    engine.run(call, gpu.stream()).orThrow();
    end.record();
    end.wait();
    if (i > 0) // the first one compiles
      times.push_back(Event::millisecondsBetween(start, end));
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// Bytes a nanosecond of a sum over the weights.
double readRate(const Gpu &gpu, const DeviceWeights &weights,
                const kiln::Engine &engine) {
  constexpr int64_t kColumns = 8192;
  const int64_t rows = static_cast<int64_t>(weights.bytes()) / (kColumns * 2);
  const uint64_t sumBytes = static_cast<uint64_t>(rows) * sizeof(float);
  if (rows == 0 || sumBytes > gpu.freeBytes())
    return 0;
  const DeviceMemory sums(gpu, sumBytes, MemoryUse::Scratch);
  kiln::Reduce sum(KILN_REDUCTION_SUM, KILN_BF16, rows, kColumns);
  sum.x(reinterpret_cast<void *>(weights.address()));
  sum.outputType(KILN_FP32).y(sums.at<void>());
  return double(rows) * kColumns * 2 / (medianMs(gpu, engine, sum) * kNsPerMs);
}

/// Operations a nanosecond of a square product of weights, in the type in which
/// the layers multiply.
double productRate(const Gpu &gpu, const DeviceWeights &weights,
                   const kiln::Engine &engine) {
  constexpr uint64_t kMost = 4096, kLeast = 256;
  uint64_t side = kMost;
  while (side >= kLeast &&
         2 * side * side > std::min(weights.bytes(), gpu.freeBytes()))
    side /= 2;
  if (side < kLeast)
    return 0;
  const DeviceMemory result(gpu, 2 * side * side, MemoryUse::Scratch);
  const auto size = static_cast<int64_t>(side);
  auto *matrix = reinterpret_cast<void *>(weights.address());
  const bool isE4m3 = readsQuantized(weights.layer(0).gateUp);
  kiln::Gemm product(isE4m3 ? KILN_E4M3 : KILN_BF16, size, size, size);
  product.layout(KILN_LAYOUT_NT).a(matrix).weights(matrix);
  product.d(result.at<void>());
  return 2.0 * double(side * side * side) /
         (medianMs(gpu, engine, product) * kNsPerMs);
}

nlohmann::json totalsReport(const StepTotals &totals) {
  nlohmann::json report = {{"steps", totals.steps}};
  if (totals.ms <= 0)
    return report;
  report["ms"] = totals.ms;
  report["bytes_per_step"] = totals.bytes / double(totals.steps);
  report["flops_per_step"] = totals.flops / double(totals.steps);
  report["gb_per_s"] = totals.bytesPerNs();
  report["tflops"] = totals.flopsPerNs() / 1e3;
  report["share"] = totals.share();
  return report;
}

} // namespace

DeviceRates deviceRates(const Gpu &gpu, Runner &runner) {
  kiln::EngineOptions options;
  options.mode = KILN_MODE_PREDICT;
  const std::string nvrtc = runner.options().nvrtcPath;
  if (!nvrtc.empty())
    options.nvrtc_path = nvrtc.c_str();
  const std::string cache = runner.options().cacheDir;
  if (!cache.empty())
    options.cache_dir = cache.c_str();
  const kiln::Engine engine = kiln::Engine::create(options).orThrow();
  const DeviceWeights &weights = runner.modelWeights();
  return {readRate(gpu, weights, engine), productRate(gpu, weights, engine)};
}

nlohmann::json rooflineReport(const Roofline &roofline,
                              const DeviceRates &rates) {
  return {{"read_gb_per_s", rates.bytesPerNs},
          {"product_tflops", rates.flopsPerNs / 1e3},
          {"decode", totalsReport(roofline.totals(true, rates))},
          {"prefill", totalsReport(roofline.totals(false, rates))}};
}

std::string rooflineText(const nlohmann::json &report) {
  constexpr double kGiga = 1e9, kTera = 1e12;
  std::string text;
  auto say = [&](const char *kind, const char *steps) {
    const nlohmann::json &totals = report.at(kind);
    if (!totals.contains("ms"))
      return;
    char line[400];
    std::snprintf(
        line, sizeof(line),
        "%s: %lld steps of %.2f ms, %.3f GB and %.3f TFLOP each: %.0f GB/s, "
        "%.1f TFLOP/s, %.1f %% of the roofline\n",
        steps, static_cast<long long>(totals["steps"].get<int64_t>()),
        totals["ms"].get<double>() / totals["steps"].get<double>(),
        totals["bytes_per_step"].get<double>() / kGiga,
        totals["flops_per_step"].get<double>() / kTera,
        totals["gb_per_s"].get<double>(), totals["tflops"].get<double>(),
        100 * totals["share"].get<double>());
    text += line;
  };
  say("decode", "decoding");
  say("prefill", "with prefills");
  char line[200];
  std::snprintf(line, sizeof(line),
                "roofline, measured in this run: a sum reads %.0f GB/s, a "
                "product computes %.1f TFLOP/s\n",
                report.at("read_gb_per_s").get<double>(),
                report.at("product_tflops").get<double>());
  return text + line;
}

} // namespace llama
