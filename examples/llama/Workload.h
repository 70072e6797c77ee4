//===- Workload.h - synthetic requests by seed ----------------------------===//
//
// Requests for benchmarks: equal on every run with the same seed, whatever the
// engine does. Logarithm and cosine are those of the machine's library, so the
// arrival times of two machines may differ in their last bits.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_WORKLOAD_H
#define KILN_EXAMPLES_LLAMA_WORKLOAD_H

#include <cstdint>
#include <vector>

namespace llama {

struct WorkloadRequest {
  double arrivalSeconds = 0; ///< After the start of the workload.
  std::vector<int32_t> prompt;
  int64_t newTokens = 0;
};

/// Sequences of equal length that all arrive at the start.
struct FixedBatch {
  int64_t sequences = 1;
  int64_t promptTokens = 128;
  int64_t newTokens = 128;
};

/// Lognormal lengths: exp(normal(ln median, sigma)), rounded, within bounds.
struct LengthDistribution {
  double median = 256;
  double sigma = 1; ///< 0: always the median.
  int64_t least = 1, most = 4096;
};

/// Independent clients: gaps between arrivals are exponential.
struct PoissonLoad {
  int64_t requests = 100;
  double requestsPerSecond = 4;
  LengthDistribution prompt, newTokens;
  /// Every prompt begins with these tokens, a system prompt, beside its length.
  int64_t sharedPrefixTokens = 0;
};

/// Token ids are uniform in [0, \p vocabSize). Throws Error for sizes that are
/// not positive.
std::vector<WorkloadRequest> makeWorkload(const FixedBatch &batch,
                                          int64_t vocabSize, uint64_t seed);

/// By arrival. Throws Error for sizes that are not positive and for bounds that
/// contradict each other.
std::vector<WorkloadRequest> makeWorkload(const PoissonLoad &load,
                                          int64_t vocabSize, uint64_t seed);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_WORKLOAD_H
