//===- Routing.h - which experts tokens go to -----------------------------===//
//
// The arrays that kiln_route writes and that grouped products and the sum of
// choices read, and the same choices and sort on the host.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_ROUTING_H
#define KILN_EXAMPLES_ROUTING_H

#include "Tools.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

/// Choice token * topK + j is the j-th best expert of a token. Rows of products
/// are the choices of local experts, sorted by expert.
struct Routing {
  const int64_t experts, topK;
  const int64_t first, local; ///< the experts that have rows
  const int64_t align;        ///< of a group's first row
  Array<int32_t> ends;        ///< row behind the last one of each local expert
  Array<int32_t> index;       ///< choice of each row
  Array<int32_t> chosen;      ///< expert of each choice
  Array<float> weights;       ///< of each choice

  /// The rows of a local expert, of all that fetch() found.
  struct Group {
    int64_t expert, begin, end;
  };
  std::vector<Group> groups;

  Routing(int64_t experts, int64_t topK, int64_t first, int64_t local,
          int64_t align, int64_t mostTokens)
      : experts(experts), topK(topK), first(first), local(local), align(align),
        ends(static_cast<size_t>(local)),
        index(static_cast<size_t>(rows(mostTokens))),
        chosen(static_cast<size_t>(mostTokens * topK)),
        weights(static_cast<size_t>(mostTokens * topK)) {}

  /// m of the products: rows of groups, and gaps between them.
  int64_t rows(int64_t tokens) const {
    return tokens * topK + local * (align - 1);
  }
  bool isLocal(int64_t choice) const {
    return chosen[choice] >= first && chosen[choice] < first + local;
  }

  kiln::Route of(const Array<float> &logits, int64_t tokens) const {
    return kiln::Route(KILN_FP32, tokens, experts, topK)
        .logits(logits.data())
        .renormalize()
        .localExperts(first, local)
        .align(align)
        .rows(index.data(), ends.data(), weights.data())
        .chosen(chosen.data());
  }

  void poison() {
    for (Array<int32_t> *each : {&ends, &index, &chosen})
      each->poison();
    weights.poison();
  }
  void fetch() {
    for (Array<int32_t> *each : {&ends, &index, &chosen})
      each->fetch();
    weights.fetch();
    groups.clear();
    int64_t begin = 0;
    for (int64_t group = 0; group < local; ++group) {
      groups.push_back({first + group, begin, ends[group]});
      begin = (ends[group] + align - 1) / align * align;
    }
  }

  /// Compares what was fetched with a host's choices by \p logits, and with its
  /// sort of them. Integers are exact.
  void compare(const Array<float> &logits, int64_t tokens, Count &count) const {
    for (int64_t token = 0; token < tokens; ++token)
      compareToken(&logits.host[static_cast<size_t>(token * experts)],
                   token * topK, count);
    int64_t rowsOfGroups = 0;
    for (const Group &group : groups) {
      int64_t row = group.begin;
      for (int64_t choice = 0; choice < tokens * topK; ++choice)
        if (chosen[choice] == group.expert) {
          addExact(row < group.end && index[row] == choice, count);
          ++row;
        }
      addExact(row == group.end, count);
      rowsOfGroups += group.end - group.begin;
    }
    int64_t localChoices = 0;
    for (int64_t choice = 0; choice < tokens * topK; ++choice)
      localChoices += isLocal(choice);
    addExact(rowsOfGroups == localChoices, count);
  }

private:
  static void addExact(bool isRight, Count &count) {
    count.wrong += !isRight;
    ++count.all;
  }

  void compareToken(const float *logits, int64_t firstChoice,
                    Count &count) const {
    std::vector<int64_t> best(static_cast<size_t>(experts));
    std::iota(best.begin(), best.end(), 0);
    std::stable_sort(best.begin(), best.end(), [&](int64_t a, int64_t b) {
      return logits[a] > logits[b];
    });
    best.resize(static_cast<size_t>(topK));
    double sum = 0;
    for (int64_t expert : best)
      sum += std::exp(double(logits[expert]));
    for (int64_t j = 0; j < topK; ++j) {
      const int64_t choice = firstChoice + j, expert = best[size_t(j)];
      addExact(chosen[choice] == expert, count);
      count.add(weights[choice],
                isLocal(choice) ? std::exp(double(logits[expert])) / sum : 0);
    }
  }
};

#endif // KILN_EXAMPLES_ROUTING_H
