#include "llama/Metrics.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace llama;

TEST_CASE("percentiles are values that were seen") {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i)
    values.push_back(i);
  const Percentiles hundred = percentilesOf(values);
  CHECK(hundred.count == 100);
  CHECK(hundred.mean == 50.5);
  CHECK(hundred.p50 == 50);
  CHECK(hundred.p90 == 90);
  CHECK(hundred.p99 == 99);
  CHECK(hundred.most == 100);
  const Percentiles one = percentilesOf({3});
  CHECK(one.p50 == 3);
  CHECK(one.p99 == 3);
  CHECK(percentilesOf({}).count == 0);
}

TEST_CASE("latencies of requests, and the throughput of all") {
  Metrics metrics;
  metrics.arrived(1, 10, 100);
  metrics.started(1, 10.5);
  metrics.started(1, 10.6); // Its second step.
  metrics.gotToken(1, 11);
  metrics.gotToken(1, 11.1);
  metrics.gotToken(1, 11.4);
  metrics.arrived(2, 11, 50);
  metrics.started(2, 11);
  metrics.gotToken(2, 12);
  metrics.arrived(3, 11, 70); // Never served.

  const MetricsSummary summary = metrics.summarize();
  CHECK(summary.requests == 2);
  CHECK(summary.promptTokens == 150);
  CHECK(summary.newTokens == 4);
  CHECK(summary.seconds == 2);
  CHECK(summary.newTokensPerSecond == 2);
  CHECK(summary.steadyTokensPerSecond == doctest::Approx(2 / 0.9));
  CHECK(summary.requestsPerSecond == 1);
  CHECK(summary.queueingSeconds.most == 0.5);
  CHECK(summary.ttftSeconds.count == 2);
  CHECK(summary.ttftSeconds.mean == 1);
  CHECK(summary.tpotSeconds.count == 1); // One token has no time per token.
  CHECK(summary.tpotSeconds.p50 == doctest::Approx(0.2));
  CHECK(summary.itlSeconds.count == 2);
  CHECK(summary.itlSeconds.p50 == doctest::Approx(0.1));
  CHECK(summary.itlSeconds.p99 == doctest::Approx(0.3));

  const auto json = nlohmann::json::parse(summary.toJson());
  CHECK(json.at("new_tokens_per_second") == 2);
  CHECK(json.at("itl_ms").at("p99").get<double>() == doctest::Approx(300));
  const std::string table = summary.toTable();
  CHECK(table.find("2.0 new tokens/s") != std::string::npos);
  CHECK(table.find("ITL               200.00    100.00    300.00") !=
        std::string::npos);
}

TEST_CASE("a workload without tokens has a summary") {
  const MetricsSummary summary = Metrics().summarize();
  CHECK(summary.requests == 0);
  CHECK(nlohmann::json::parse(summary.toJson()).at("ttft_ms").at("count") == 0);
  CHECK(summary.toTable().find("TTFT") != std::string::npos);
}
