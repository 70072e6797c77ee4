//===- Workload.cpp - synthetic requests by seed --------------------------===//
#include "Workload.h"

#include "Error.h"
#include "Hash.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace llama {

namespace {

constexpr double kTurn = 6.28318530717958647692;

void requirePositive(double value, const char *what) {
  if (!(value > 0))
    throw Error("a workload with " + std::to_string(value) + " " + what);
}

void requireBounds(const LengthDistribution &lengths, const char *what) {
  requirePositive(lengths.median, what);
  if (lengths.least < 1 || lengths.most < lengths.least ||
      !(lengths.sigma >= 0 && lengths.sigma <= 10))
    throw Error("a workload with lengths of " + std::to_string(lengths.least) +
                " to " + std::to_string(lengths.most) + " and a sigma of " +
                std::to_string(lengths.sigma) + " of " + what);
}

/// Box and Muller's method; the second number of a pair is dropped.
double normal(Random &random) {
  const double radius = std::sqrt(-2 * std::log(random.unit()));
  return radius * std::cos(kTurn * random.unit());
}

int64_t drawLength(const LengthDistribution &lengths, Random &random) {
  const double length =
      lengths.median * std::exp(lengths.sigma * normal(random));
  // In floating point, since a far tail exceeds an int64.
  return static_cast<int64_t>(std::clamp(std::round(length),
                                         static_cast<double>(lengths.least),
                                         static_cast<double>(lengths.most)));
}

void addTokens(std::vector<int32_t> &tokens, int64_t count, int64_t vocabSize,
               Random &random) {
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(
        static_cast<int32_t>(random.below(static_cast<uint64_t>(vocabSize))));
}

} // namespace

std::vector<WorkloadRequest> makeWorkload(const FixedBatch &batch,
                                          int64_t vocabSize, uint64_t seed) {
  requirePositive(static_cast<double>(vocabSize), "tokens of vocabulary");
  requirePositive(static_cast<double>(batch.sequences), "sequences");
  requirePositive(static_cast<double>(batch.promptTokens), "prompt tokens");
  requirePositive(static_cast<double>(batch.newTokens), "new tokens");
  Random random(seed);
  std::vector<WorkloadRequest> requests;
  for (int64_t i = 0; i < batch.sequences; ++i) {
    WorkloadRequest request;
    addTokens(request.prompt, batch.promptTokens, vocabSize, random);
    request.newTokens = batch.newTokens;
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<WorkloadRequest> makeWorkload(const PoissonLoad &load,
                                          int64_t vocabSize, uint64_t seed) {
  requirePositive(static_cast<double>(vocabSize), "tokens of vocabulary");
  requirePositive(static_cast<double>(load.requests), "requests");
  requirePositive(load.requestsPerSecond, "requests a second");
  requireBounds(load.prompt, "prompt tokens");
  requireBounds(load.newTokens, "new tokens");
  if (load.sharedPrefixTokens < 0)
    throw Error("a workload with " + std::to_string(load.sharedPrefixTokens) +
                " tokens of shared prefix");
  Random random(seed);
  std::vector<int32_t> prefix;
  addTokens(prefix, load.sharedPrefixTokens, vocabSize, random);
  std::vector<WorkloadRequest> requests;
  double now = 0;
  for (int64_t i = 0; i < load.requests; ++i) {
    now -= std::log(random.unit()) / load.requestsPerSecond;
    WorkloadRequest request;
    request.arrivalSeconds = now;
    request.prompt = prefix;
    addTokens(request.prompt, drawLength(load.prompt, random), vocabSize,
              random);
    request.newTokens = drawLength(load.newTokens, random);
    requests.push_back(std::move(request));
  }
  return requests;
}

} // namespace llama
