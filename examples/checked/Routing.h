//===- Routing.h - which experts tokens go to -----------------------------===//
//
// The arrays that a grouped GEMM of Kiln reads, made on the host. An engine has
// a kernel of its own for that, so that nothing waits for the host.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_ROUTING_H
#define KILN_EXAMPLES_ROUTING_H

#include "Tools.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

/// Choice token * topK + j is the j-th best expert of a token. Rows of products
/// are choices, sorted by expert.
struct Routing {
  const int64_t experts, topK;
  Array<int32_t> ends;           ///< row behind the last one of each expert
  Array<int32_t> index;          ///< choice of each row
  Array<float> weights;          ///< of each choice; a token's sum is 1
  std::vector<int64_t> expertOf; ///< of each choice

  Routing(int64_t experts, int64_t topK, int64_t mostTokens)
      : experts(experts), topK(topK), ends(static_cast<size_t>(experts)),
        index(static_cast<size_t>(mostTokens * topK)),
        weights(static_cast<size_t>(mostTokens * topK)) {}

  /// Puts the routing of \p tokens tokens in place, by their probabilities
  /// [tokens, experts].
  void choose(const std::vector<float> &probabilities, int64_t tokens) {
    expertOf.clear();
    for (int64_t token = 0; token < tokens; ++token)
      chooseBest(&probabilities[static_cast<size_t>(token * experts)]);
    auto last = index.host.begin() + tokens * topK;
    std::iota(index.host.begin(), last, 0);
    std::stable_sort(index.host.begin(), last, [&](int32_t a, int32_t b) {
      return expert(a) < expert(b);
    });
    std::fill(ends.host.begin(), ends.host.end(), 0);
    for (int64_t expert : expertOf)
      ++ends[expert];
    std::partial_sum(ends.host.begin(), ends.host.end(), ends.host.begin());
    ends.upload();
    index.upload();
    weights.upload();
  }
  int64_t expert(int64_t choice) const {
    return expertOf[static_cast<size_t>(choice)];
  }

private:
  void chooseBest(const float *probabilities) {
    std::vector<int64_t> best(static_cast<size_t>(experts));
    std::iota(best.begin(), best.end(), 0);
    std::partial_sort(best.begin(), best.begin() + topK, best.end(),
                      [&](int64_t a, int64_t b) {
                        return probabilities[a] > probabilities[b];
                      });
    best.resize(static_cast<size_t>(topK));
    float sum = 0;
    for (int64_t expert : best)
      sum += probabilities[expert];
    for (int64_t expert : best) {
      weights.host[expertOf.size()] = probabilities[expert] / sum;
      expertOf.push_back(expert);
    }
  }
};

#endif // KILN_EXAMPLES_ROUTING_H
