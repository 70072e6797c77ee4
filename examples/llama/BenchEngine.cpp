//===- BenchEngine.cpp ----------------------------------------------------===//
#include "BenchEngine.h"

#include "Report.h"
#include "WeightChoice.h"

namespace llama {

/// Waits of Kiln's beyond this are stalls.
static constexpr double kStallMs = 5;

BenchEngine::BenchEngine(const BenchSetup &setup, int64_t device,
                         const Progress &progress)
    : gpu(device), runner(gpu, setup.model, setup.source, setup.room, progress),
      server(gpu, runner, setup.sharesPrefixes, setup.ignoresEnds) {}

void BenchEngine::serve(const std::vector<WorkloadRequest> &load,
                        Bench::Clock::time_point start) {
  waitsReport(runner, waits, 0); // skips the waits of preparing
  const kiln::Statistics before = runner.engine().statistics().orThrow();
  Bench bench(server, load, start);
  bench.serve();
  metrics = bench.times();
  reportOn(bench, before);
}

void BenchEngine::reportOn(const Bench &bench, const kiln::Statistics &before) {
  reported["device"] = gpu.name();
  reported["weights"] =
      nameOf(runner.modelWeights().layer(0).gateUp.format.type);
  if (const std::string by = runner.allReduce(); !by.empty())
    reported["allreduce"] = by;
  reported["prepare_s"] = runner.prepareSeconds();
  reported["memory"] = memoryReport(gpu, runner);
  reported["counts"] = countsReport(runner, before);
  reported["stalls"] = waitsReport(runner, waits, kStallMs);
  reported["roofline"] =
      rooflineReport(bench.roofline(), deviceRates(gpu, runner));
  const SchedulerStatistics &steps = server.schedule().statistics();
  reported["steps"] = steps.steps;
  reported["preemptions"] = steps.preemptions;
  reported["shared_tokens"] = steps.sharedTokens;
}

} // namespace llama
