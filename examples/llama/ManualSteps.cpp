//===- ManualSteps.cpp ----------------------------------------------------===//
#include "ManualSteps.h"

#include "Hash.h"

#include <algorithm>
#include <numeric>

namespace llama {

void ManualSteps::begin(int64_t tokenCount, int64_t sequences, int64_t length) {
  tokens.clear();
  tokens.reserve(static_cast<size_t>(tokenCount));
  const int64_t room = std::max(positions, length);
  pagesOfSequence = (room + pageTokens - 1) / pageTokens;
  pages.resize(static_cast<size_t>(sequences * pagesOfSequence));
  std::iota(pages.begin(), pages.end(), kPaddingPage + 1);
}

/// The sequence of the last \p count tokens.
ScheduledSequence ManualSteps::part(int64_t index, int64_t first,
                                    int64_t count) {
  ScheduledSequence result;
  result.id = index + 1;
  result.tokens = {tokens.data() + tokens.size() - count, count};
  result.firstPosition = first;
  result.pages = {pages.data() + index * pagesOfSequence, pagesOfSequence};
  result.pageTokens = pageTokens;
  result.samples = true;
  return result;
}

static void add(Step &step, ScheduledSequence part, bool isDecode) {
  step.tokens += part.tokens.size();
  ++step.sampled;
  (isDecode ? step.decodes : step.prefills).push_back(part);
}

Step ManualSteps::chunkOf(const std::vector<int32_t> &list, int64_t first,
                          int64_t count, bool isDecode, int64_t index) {
  begin(count, index + 1, static_cast<int64_t>(list.size()));
  tokens.insert(tokens.end(), list.begin() + first,
                list.begin() + first + count);
  Step step;
  add(step, part(index, first, count), isDecode);
  return step;
}

Step ManualSteps::prefillOf(const std::vector<std::vector<int32_t>> &lists) {
  int64_t all = 0, longest = 0;
  for (const auto &list : lists) {
    all += static_cast<int64_t>(list.size());
    longest = std::max(longest, static_cast<int64_t>(list.size()));
  }
  begin(all, static_cast<int64_t>(lists.size()), longest);
  Step step;
  for (size_t i = 0; i < lists.size(); ++i) {
    tokens.insert(tokens.end(), lists[i].begin(), lists[i].end());
    add(step,
        part(static_cast<int64_t>(i), 0, static_cast<int64_t>(lists[i].size())),
        false);
  }
  return step;
}

static int32_t drawn(int64_t sequence, int64_t position, int32_t vocabulary) {
  const auto key =
      static_cast<uint64_t>(sequence) << 32 | static_cast<uint64_t>(position);
  return static_cast<int32_t>(mix64(key) % static_cast<uint64_t>(vocabulary));
}

Step ManualSteps::prefill(int64_t sequences, int64_t cached, int64_t count,
                          int32_t vocabulary) {
  begin(sequences * count, sequences, cached + count);
  Step step;
  for (int64_t i = 0; i < sequences; ++i) {
    for (int64_t at = cached; at < cached + count; ++at)
      tokens.push_back(drawn(i, at, vocabulary));
    add(step, part(i, cached, count), false);
  }
  return step;
}

Step ManualSteps::decode(int64_t sequences, int64_t position, bool isPending,
                         int32_t vocabulary) {
  begin(sequences, sequences, position + 1);
  Step step;
  for (int64_t i = 0; i < sequences; ++i) {
    tokens.push_back(isPending ? Scheduler::kPending
                               : drawn(i, position, vocabulary));
    add(step, part(i, position, 1), true);
  }
  return step;
}

} // namespace llama
