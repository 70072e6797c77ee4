//===- Metrics.cpp - latencies and throughput of a workload ---------------===//
#include "Metrics.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace llama {

namespace {

/// The smallest value that at least \p part of all values do not exceed.
double nearestRank(const std::vector<double> &sorted, double part) {
  const double rank = std::ceil(part * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

nlohmann::ordered_json milliseconds(const Percentiles &values) {
  nlohmann::ordered_json json = {{"count", values.count}};
  if (values.count > 0) {
    json["mean"] = values.mean * 1e3;
    json["p50"] = values.p50 * 1e3;
    json["p90"] = values.p90 * 1e3;
    json["p99"] = values.p99 * 1e3;
    json["max"] = values.most * 1e3;
  }
  return json;
}

std::string tableLine(const char *name, const Percentiles &values) {
  char line[160];
  if (values.count == 0)
    std::snprintf(line, sizeof(line), "%-14s %9s\n", name, "-");
  else
    std::snprintf(
        line, sizeof(line), "%-14s %9.2f %9.2f %9.2f %9.2f %9.2f %8lld\n", name,
        values.mean * 1e3, values.p50 * 1e3, values.p90 * 1e3, values.p99 * 1e3,
        values.most * 1e3, static_cast<long long>(values.count));
  return line;
}

/// Tokens a second of the middle half; 0 if they came at once.
double steadyRate(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const size_t first = seconds.size() / 4, last = seconds.size() * 3 / 4;
  if (first == last || seconds[last] == seconds[first])
    return 0;
  return static_cast<double>(last - first) / (seconds[last] - seconds[first]);
}

} // namespace

Percentiles percentilesOf(std::vector<double> values) {
  Percentiles result;
  if (values.empty())
    return result;
  std::sort(values.begin(), values.end());
  double sum = 0;
  for (const double value : values)
    sum += value;
  result.count = static_cast<int64_t>(values.size());
  result.mean = sum / static_cast<double>(values.size());
  result.p50 = nearestRank(values, 0.50);
  result.p90 = nearestRank(values, 0.90);
  result.p99 = nearestRank(values, 0.99);
  result.most = values.back();
  return result;
}

void Metrics::arrived(int64_t request, double seconds, int64_t promptTokens) {
  requests[request].arrival = seconds;
  requests[request].promptTokens = promptTokens;
}

void Metrics::started(int64_t request, double seconds) {
  RequestTimes &times = requests[request];
  if (!times.start)
    times.start = seconds;
}

void Metrics::gotToken(int64_t request, double seconds) {
  requests[request].tokens.push_back(seconds);
}

void Metrics::add(const Metrics &other) {
  const int64_t first = requests.empty() ? 0 : requests.rbegin()->first + 1;
  for (const auto &[request, times] : other.requests)
    requests[first + request] = times;
}

MetricsSummary Metrics::summarize() const {
  MetricsSummary summary;
  std::vector<double> queueing, ttft, tpot, itl, all;
  double first = 0, last = 0;
  for (const auto &[id, times] : requests) {
    if (times.tokens.empty())
      continue;
    first =
        summary.requests == 0 ? times.arrival : std::min(first, times.arrival);
    last = summary.requests == 0 ? times.tokens.back()
                                 : std::max(last, times.tokens.back());
    ++summary.requests;
    summary.promptTokens += times.promptTokens;
    summary.newTokens += static_cast<int64_t>(times.tokens.size());
    all.insert(all.end(), times.tokens.begin(), times.tokens.end());
    if (times.start)
      queueing.push_back(*times.start - times.arrival);
    ttft.push_back(times.tokens.front() - times.arrival);
    for (size_t i = 1; i < times.tokens.size(); ++i)
      itl.push_back(times.tokens[i] - times.tokens[i - 1]);
    if (times.tokens.size() > 1)
      tpot.push_back((times.tokens.back() - times.tokens.front()) /
                     static_cast<double>(times.tokens.size() - 1));
  }
  summary.seconds = last - first;
  if (summary.seconds > 0) {
    summary.newTokensPerSecond =
        static_cast<double>(summary.newTokens) / summary.seconds;
    summary.requestsPerSecond =
        static_cast<double>(summary.requests) / summary.seconds;
  }
  summary.steadyTokensPerSecond = steadyRate(std::move(all));
  summary.queueingSeconds = percentilesOf(std::move(queueing));
  summary.ttftSeconds = percentilesOf(std::move(ttft));
  summary.tpotSeconds = percentilesOf(std::move(tpot));
  summary.itlSeconds = percentilesOf(std::move(itl));
  return summary;
}

std::string MetricsSummary::toJson() const {
  const nlohmann::ordered_json json = {
      {"requests", requests},
      {"prompt_tokens", promptTokens},
      {"new_tokens", newTokens},
      {"seconds", seconds},
      {"new_tokens_per_second", newTokensPerSecond},
      {"steady_tokens_per_second", steadyTokensPerSecond},
      {"requests_per_second", requestsPerSecond},
      {"queueing_ms", milliseconds(queueingSeconds)},
      {"ttft_ms", milliseconds(ttftSeconds)},
      {"tpot_ms", milliseconds(tpotSeconds)},
      {"itl_ms", milliseconds(itlSeconds)}};
  return json.dump(2);
}

std::string MetricsSummary::toTable() const {
  char head[240];
  std::snprintf(
      head, sizeof(head),
      "%lld requests, %lld prompt and %lld new tokens in %.3f s: "
      "%.1f new tokens/s, %.2f requests/s\n"
      "%-14s %9s %9s %9s %9s %9s %8s\n",
      static_cast<long long>(requests), static_cast<long long>(promptTokens),
      static_cast<long long>(newTokens), seconds, newTokensPerSecond,
      requestsPerSecond, "ms", "mean", "p50", "p90", "p99", "max", "count");
  return head + tableLine("queueing", queueingSeconds) +
         tableLine("TTFT", ttftSeconds) + tableLine("TPOT", tpotSeconds) +
         tableLine("ITL", itlSeconds);
}

} // namespace llama
