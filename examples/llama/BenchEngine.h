//===- BenchEngine.h - an engine that a bench measures --------------------===//
#ifndef KILN_EXAMPLES_LLAMA_BENCHENGINE_H
#define KILN_EXAMPLES_LLAMA_BENCHENGINE_H

#include "Bench.h"
#include "Gpu.h"
#include "Metrics.h"
#include "Runner.h"
#include "Server.h"
#include "Workload.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

namespace llama {

/// The things that all engines of a bench have in common.
struct BenchSetup {
  ModelConfig model;
  WeightSource source;
  RunnerOptions room;
  bool sharesPrefixes = true, ignoresEnds = true;
};

/// Belongs to one thread, the one that made it.
class BenchEngine {
public:
  /// Loads and prepares.
  BenchEngine(const BenchSetup &setup, int64_t device,
              const Progress &progress);
  BenchEngine(const BenchEngine &) = delete;
  BenchEngine &operator=(const BenchEngine &) = delete;

  /// See Runner.
  bool follow() { return runner.follow(); }

  /// Serves \p load, with times from \p start on, once.
  void serve(const std::vector<WorkloadRequest> &load,
             Bench::Clock::time_point start);
  const Metrics &times() const { return metrics; }
  /// Device, memory, counts, stalls, roofline and steps, behind serve().
  const nlohmann::json &report() const { return reported; }

private:
  void reportOn(const Bench &bench, const kiln::Statistics &before);

  const Gpu gpu;
  Runner runner;
  Server server;
  uint64_t waits = 0; ///< the position behind those of preparing
  Metrics metrics;
  nlohmann::json reported;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_BENCHENGINE_H
