//===- BenchCommand.cpp - a synthetic workload ----------------------------===//
#include "Bench.h"
#include "Commands.h"
#include "Error.h"
#include "Report.h"
#include "WeightChoice.h"
#include "Workload.h"

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace llama {

namespace {

/// Waits of Kiln's beyond this are stalls.
constexpr double kStallMs = 5;

std::vector<WorkloadRequest> workloadOf(Options &options,
                                        const ModelConfig &model) {
  const auto seed = static_cast<uint64_t>(options.number("workload-seed", 1));
  const double rate = options.real("rate", 0);
  if (rate <= 0) {
    FixedBatch batch;
    batch.sequences = options.number("sequences", 1);
    batch.promptTokens = options.number("prompt", 1024);
    batch.newTokens = options.number("new", 128);
    return makeWorkload(batch, model.vocabSize, seed);
  }
  PoissonLoad load;
  load.requestsPerSecond = rate;
  load.requests = options.number("requests", load.requests);
  load.prompt.median = double(options.number("prompt", 256));
  load.prompt.most = options.number("most-prompt", 2000);
  load.newTokens.median = double(options.number("new", 64));
  load.newTokens.most = options.number("most-new", 500);
  load.sharedPrefixTokens = options.number("shared-prefix", 0);
  return makeWorkload(load, model.vocabSize, seed);
}

void print(const nlohmann::json &report, const MetricsSummary &summary) {
  std::printf("%s\n%s", report["device"].get<std::string>().c_str(),
              summary.toTable().c_str());
  std::printf("%s", rooflineText(report["roofline"]).c_str());
  for (const char *part : {"memory", "counts", "stalls"})
    std::printf("%s: %s\n", part, report[part].dump(2).c_str());
  std::printf("prepared in %.1f s\n", report["prepare_s"].get<double>());
}

} // namespace

int benchCommand(Options &options) {
  ChosenModel chosen = chooseModel(options);
  RunnerOptions room = runnerOptions(options);
  const std::vector<WorkloadRequest> load = workloadOf(options, chosen.config);
  const std::string jsonPath = options.text("json");
  const bool sharesPrefixes = !options.flag("no-shared-prefixes");
  const bool hasEnds = options.flag("ends");
  options.requireNoOthers();

  const Gpu gpu;
  Runner runner(gpu, chosen.config, chosen.source, room, progressBar());
  Server server(gpu, runner, sharesPrefixes, !hasEnds);
  uint64_t position = 0;
  waitsReport(runner, position, 0); // skips the waits of preparing
  const kiln::Statistics before = runner.engine().statistics().orThrow();
  Bench bench(server, load);
  const MetricsSummary summary = bench.serve();

  nlohmann::json report;
  report["device"] = gpu.name();
  report["model"] = options.text("model", "llama-3-8b");
  report["weights"] = nameOf(runner.modelWeights().layer(0).gateUp.format.type);
  report["prepare_s"] = runner.prepareSeconds();
  report["metrics"] = nlohmann::json::parse(summary.toJson());
  report["memory"] = memoryReport(gpu, runner);
  report["counts"] = countsReport(runner, before);
  report["stalls"] = waitsReport(runner, position, kStallMs);
  report["roofline"] =
      rooflineReport(bench.roofline(), deviceRates(gpu, runner));
  const SchedulerStatistics &steps = server.schedule().statistics();
  report["steps"] = steps.steps;
  report["preemptions"] = steps.preemptions;
  report["shared_tokens"] = steps.sharedTokens;
  print(report, summary);
  if (!jsonPath.empty()) {
    std::ofstream file(jsonPath);
    file << report.dump(2) << "\n";
    if (!file.flush())
      throw Error(jsonPath + " cannot be written");
  }
  return report["stalls"].empty() ? 0 : 1;
}

} // namespace llama
