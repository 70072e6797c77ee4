//===- Metrics.h - latencies and throughput of a workload -----------------===//
//
// Defined as serving benchmarks do:
//
//   queueing  start of a request's first step - its arrival
//   TTFT      time to first token: first token on the host - arrival
//   TPOT      time per output token of a request: (last - first) / (n - 1)
//   ITL       inter-token latency: each gap between tokens of a request
//
// TPOT is an average of each request, so a stall in the middle of one shows in
// the p99 of ITL and not in TPOT. Percentiles are taken from all values,
// sorted, by the nearest rank: each is a value that was seen.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_METRICS_H
#define KILN_EXAMPLES_LLAMA_METRICS_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace llama {

struct Percentiles {
  int64_t count = 0; ///< 0: the others mean nothing.
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, most = 0;
};

/// The values may be in any order.
Percentiles percentilesOf(std::vector<double> values);

struct MetricsSummary {
  int64_t requests = 0;     ///< Requests with one token at least.
  int64_t promptTokens = 0; ///< The prompts of these requests.
  int64_t newTokens = 0;
  double seconds = 0; ///< From the first arrival to the last token.
  double newTokensPerSecond = 0;
  /// The same while the middle half of the tokens came: without the start, and
  /// the end when the last requests are alone.
  double steadyTokensPerSecond = 0;
  double requestsPerSecond = 0;
  Percentiles queueingSeconds, ttftSeconds, tpotSeconds, itlSeconds;

  /// One object; times in milliseconds, as the members' names say.
  std::string toJson() const;
  /// A few lines for a terminal, times in milliseconds.
  std::string toTable() const;
};

/// Collects times in seconds of one clock. Not thread-safe.
class Metrics {
public:
  void arrived(int64_t request, double seconds, int64_t promptTokens);
  /// Its first step begins; later calls for the same request count nothing.
  void started(int64_t request, double seconds);
  /// A new token is on the host. In the order of time.
  void gotToken(int64_t request, double seconds);

  /// Adds all requests of \p other, under other numbers.
  void add(const Metrics &other);

  MetricsSummary summarize() const;

private:
  struct RequestTimes {
    double arrival = 0;
    std::optional<double> start;
    int64_t promptTokens = 0;
    std::vector<double> tokens;
  };
  std::map<int64_t, RequestTimes> requests;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_METRICS_H
