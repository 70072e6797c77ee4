//===- ServeMetrics.cpp - what a server counts, for monitoring ------------===//
//
// The text follows OpenMetrics 1.0 (github.com/OpenObservability/OpenMetrics):
// families with type, unit and help, base units, counters that end in "_total",
// histograms with cumulative buckets, and one end mark.
//
//===----------------------------------------------------------------------===//
#include "ServeMetrics.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

namespace llama {

namespace {

struct Bound {
  double seconds;
  const char *text; ///< as a float, as OpenMetrics asks for
};
constexpr Bound kBoundList[TimeHistogram::kBounds] = {
    {0.001, "0.001"}, {0.002, "0.002"}, {0.005, "0.005"}, {0.01, "0.01"},
    {0.02, "0.02"},   {0.05, "0.05"},   {0.1, "0.1"},     {0.2, "0.2"},
    {0.5, "0.5"},     {1, "1.0"},       {2, "2.0"},       {5, "5.0"},
    {10, "10.0"},     {30, "30.0"},     {60, "60.0"}};

constexpr const char *kOutcomeNames[kOutcomes] = {
    "stop", "length",      "cancelled", "slow", "refused",
    "full", "unavailable", "failed",    "lost"};

constexpr std::string_view kEndMark = "# EOF\n";

/// Writes families of metrics, whose names begin with "kiln_llama_".
class MetricsWriter {
public:
  void counter(const char *name, const char *help, int64_t value) {
    describe(name, "counter", help);
    sample(std::string(name) + "_total", std::to_string(value));
  }
  void gauge(const char *name, const char *help, int64_t value) {
    describe(name, "gauge", help);
    sample(name, std::to_string(value));
  }
  void outcomes(const std::array<int64_t, kOutcomes> &counts) {
    describe("requests", "counter", "Requests that have ended, by outcome.");
    for (size_t i = 0; i < counts.size(); ++i)
      sample(std::string("requests_total{outcome=\"") + kOutcomeNames[i] +
                 "\"}",
             std::to_string(counts[i]));
  }
  void histogram(const std::string &name, const char *help,
                 const TimeHistogram &values) {
    describe(name, "histogram", help, "seconds");
    int64_t below = 0;
    for (size_t i = 0; i < values.buckets.size(); ++i) {
      const bool isLast = i == TimeHistogram::kBounds;
      below += values.buckets[i];
      sample(name + "_bucket{le=\"" + (isLast ? "+Inf" : kBoundList[i].text) +
                 "\"}",
             std::to_string(below));
    }
    char sum[32];
    std::snprintf(sum, sizeof(sum), "%.6f", values.sum);
    sample(name + "_count", std::to_string(below));
    sample(name + "_sum", sum);
  }

  std::string result;

private:
  void describe(const std::string &name, const char *type, const char *help,
                const char *unit = nullptr) {
    result += "# TYPE kiln_llama_" + name + " " + type + "\n";
    if (unit)
      result += "# UNIT kiln_llama_" + name + " " + unit + "\n";
    result += "# HELP kiln_llama_" + name + " " + help + "\n";
  }
  void sample(const std::string &name, const std::string &value) {
    result += "kiln_llama_" + name + " " + value + "\n";
  }
};

} // namespace

void TimeHistogram::add(double seconds) {
  const auto *const bound = std::lower_bound(
      std::begin(kBoundList), std::end(kBoundList), seconds,
      [](const Bound &bound, double value) { return bound.seconds < value; });
  ++buckets[static_cast<size_t>(bound - std::begin(kBoundList))];
  sum += seconds;
}

void ServeMetrics::ended(Outcome outcome) {
  const std::lock_guard<std::mutex> lock(mutex);
  ++outcomes[static_cast<size_t>(outcome)];
}

void ServeMetrics::gotPrompt(int64_t tokens) {
  const std::lock_guard<std::mutex> lock(mutex);
  promptTokens += tokens;
}

void ServeMetrics::gotFirstToken(double secondsSinceArrival) {
  const std::lock_guard<std::mutex> lock(mutex);
  ++newTokens;
  firstToken.add(secondsSinceArrival);
}

void ServeMetrics::gotNextToken(double secondsSinceLast) {
  const std::lock_guard<std::mutex> lock(mutex);
  ++newTokens;
  nextToken.add(secondsSinceLast);
}

void ServeMetrics::stepFailed() {
  const std::lock_guard<std::mutex> lock(mutex);
  ++failedSteps;
}

void ServeMetrics::refusedConnection() {
  const std::lock_guard<std::mutex> lock(mutex);
  ++refusedConnections;
}

int64_t ServeMetrics::count(Outcome outcome) const {
  const std::lock_guard<std::mutex> lock(mutex);
  return outcomes[static_cast<size_t>(outcome)];
}

std::string ServeMetrics::text(const ServeGauges &gauges,
                               std::string_view others) const {
  MetricsWriter writer;
  const EngineGauges &engine = gauges.engine;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    writer.outcomes(outcomes);
    writer.counter("prompt_tokens", "Tokens of prompts that were taken.",
                   promptTokens);
    writer.counter("new_tokens", "Tokens that were sampled for clients.",
                   newTokens);
    writer.counter("failed_steps", "Steps that failed.", failedSteps);
    writer.counter("refused_connections",
                   "Connections beyond the most that are served.",
                   refusedConnections);
    writer.histogram("time_to_first_token_seconds",
                     "From the arrival of a request to its first token.",
                     firstToken);
    writer.histogram("inter_token_latency_seconds",
                     "Between two tokens of a request.", nextToken);
  }
  writer.counter("steps", "Steps of the engine.", engine.steps);
  writer.counter("preemptions", "Sequences that lost their pages to others.",
                 engine.preemptions);
  writer.counter("computed_tokens", "Tokens of all steps.",
                 engine.computedTokens);
  writer.counter("shared_tokens",
                 "Tokens that were in the cache when their sequence began to "
                 "run, also again after a preemption.",
                 engine.sharedTokens);
  writer.gauge("requests_open", "Requests that were taken and have not ended.",
               gauges.open);
  writer.gauge("requests_running", "Sequences that run.", engine.running);
  writer.gauge("requests_waiting", "Requests that wait to run, also again.",
               std::max<int64_t>(gauges.open - engine.running, 0));
  writer.gauge("cache_pages", "Pages of the KV cache.", engine.pages);
  writer.gauge("cache_pages_in_use", "Pages that sequences use.",
               engine.pagesInUse);
  writer.gauge("connections", "Connections of clients.", gauges.connections);
  std::string result = std::move(writer.result);
  // One end mark for both.
  if (others.size() < kEndMark.size() ||
      others.substr(others.size() - kEndMark.size()) != kEndMark)
    return result.append(kEndMark);
  return result.append(others);
}

} // namespace llama
