//===- ServeMetrics.h - what a server counts, for monitoring --------------===//
#ifndef KILN_EXAMPLES_LLAMA_SERVEMETRICS_H
#define KILN_EXAMPLES_LLAMA_SERVEMETRICS_H

#include "CompletionStream.h"
#include "StepEngine.h"

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace llama {

/// A histogram of times. Buckets are fixed: 1 ms to 60 s.
class TimeHistogram {
public:
  static constexpr size_t kBounds = 15;

  void add(double seconds);

  /// Values of each bucket alone; the last one has those above all bounds.
  std::array<int64_t, kBounds + 1> buckets = {};
  double sum = 0;
};

/// Values that are asked for when the metrics are.
struct ServeGauges {
  EngineGauges engine;
  int64_t open = 0;        ///< requests that were taken and have not ended
  int64_t connections = 0; ///< of clients
};

/// Thread-safe.
class ServeMetrics {
public:
  void ended(Outcome outcome);
  void gotPrompt(int64_t tokens);
  /// Each token counts once: the first one of a request, or a later one with
  /// the time since the one before.
  void gotFirstToken(double secondsSinceArrival);
  void gotNextToken(double secondsSinceLast);
  void stepFailed();
  void refusedConnection();

  int64_t count(Outcome outcome) const;

  /// A text of OpenMetrics 1.0. \p others is a text with other families, such
  /// as Kiln's, which goes before the end mark; or empty.
  std::string text(const ServeGauges &gauges, std::string_view others) const;

  static constexpr const char *kContentType =
      "application/openmetrics-text; version=1.0.0; charset=utf-8";

private:
  mutable std::mutex mutex;
  std::array<int64_t, kOutcomes> outcomes = {};
  int64_t promptTokens = 0, newTokens = 0;
  int64_t failedSteps = 0, refusedConnections = 0;
  TimeHistogram firstToken, nextToken;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_SERVEMETRICS_H
