//===- Sequence.h - the state of one sequence of the scheduler ------------===//
#ifndef KILN_EXAMPLES_LLAMA_SEQUENCE_H
#define KILN_EXAMPLES_LLAMA_SEQUENCE_H

#include "Scheduler.h"

namespace llama {

struct Scheduler::Sequence {
  SequenceId id = 0;
  std::vector<int32_t> tokens; ///< The prompt, then the new tokens.
  int64_t maxNewTokens = 0;
  SamplingParameters sampling;
  int64_t newTokens = 0;
  int64_t computed = 0;  ///< Tokens whose keys and values are in the cache.
  int64_t scheduled = 0; ///< Tokens of the planned step.
  std::vector<PageId> pages;
  int64_t publishedPages = 0;       ///< The first of them, which others find.
  ContentId published = kNoContent; ///< The content up to the last of these.
  bool leaving = false;             ///< Goes at the commit.

  int64_t length() const { return static_cast<int64_t>(tokens.size()); }
  int64_t remaining() const { return length() - computed - scheduled; }
  int64_t pageCount() const { return static_cast<int64_t>(pages.size()); }
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_SEQUENCE_H
