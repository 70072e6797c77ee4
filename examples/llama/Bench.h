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
  Bench(Server &server, const std::vector<WorkloadRequest> &load);

  /// Serves all requests. Throws what the server throws; DeviceLost then says
  /// which requests were lost.
  MetricsSummary serve();

  const Roofline &roofline() const { return seen; }

private:
  using Clock = std::chrono::steady_clock;

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
