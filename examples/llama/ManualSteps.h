//===- ManualSteps.h - steps without a scheduler --------------------------===//
//
// For comparisons and races, which say themselves what runs: sequence i has the
// pages from 1 + i * (pages of a sequence) on.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_MANUALSTEPS_H
#define KILN_EXAMPLES_LLAMA_MANUALSTEPS_H

#include "Scheduler.h"

#include <cstdint>
#include <vector>

namespace llama {

/// Owns the tokens and pages of the steps that it makes; a step is valid until
/// the next one is made.
class ManualSteps {
public:
  /// Sequences have room for \p positions; 0: each step says its own.
  explicit ManualSteps(int64_t pageTokens, int64_t positions = 0)
      : pageTokens(pageTokens), positions(positions) {}

  /// Tokens [first, first + count) of \p list, as a prefill or a decode of
  /// sequence \p index.
  Step chunkOf(const std::vector<int32_t> &list, int64_t first, int64_t count,
               bool isDecode, int64_t index = 0);
  /// All of \p lists, each a sequence.
  Step prefillOf(const std::vector<std::vector<int32_t>> &lists);
  /// The next \p count tokens of \p sequences sequences behind \p cached ones.
  Step prefill(int64_t sequences, int64_t cached, int64_t count,
               int32_t vocabulary);
  /// One token of each of \p sequences sequences at \p position: pending ones,
  /// or drawn.
  Step decode(int64_t sequences, int64_t position, bool isPending,
              int32_t vocabulary);

private:
  void begin(int64_t tokenCount, int64_t sequences, int64_t length);
  ScheduledSequence part(int64_t index, int64_t first, int64_t count);

  int64_t pageTokens, positions;
  int64_t pagesOfSequence = 0;
  std::vector<int32_t> tokens;
  std::vector<PageId> pages;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_MANUALSTEPS_H
