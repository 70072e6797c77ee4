//===- Bench.h - a workload that is served --------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_BENCH_H
#define KILN_EXAMPLES_LLAMA_BENCH_H

#include "Metrics.h"
#include "RequestLedger.h"
#include "Roofline.h"
#include "Server.h"
#include "Workload.h"

#include <chrono>
#include <vector>

namespace llama {

/// Serves requests, each at its time, and sums up what is seen of them. Borrows
/// both; not thread-safe.
class Bench {
public:
  using Clock = std::chrono::steady_clock;

  /// Times count from \p start.
  Bench(Server &server, const std::vector<WorkloadRequest> &load,
        Clock::time_point start = Clock::now());

  /// Serves all requests. Throws what the server throws; DeviceLost then says
  /// which requests were lost.
  MetricsSummary serve();
  const Metrics &times() const { return metrics; }

  const Roofline &roofline() const { return seen; }

private:
  double now() const;
  void began(const Step &step);
  void submit(const WorkloadRequest &from);
  void advance();

  Server &server;
  const std::vector<WorkloadRequest> &load;
  Clock::time_point start;
  size_t next = 0; ///< request to submit
  Metrics metrics;
  RequestLedger ledger;
  Roofline seen;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_BENCH_H
