//===- Scheduler.h - which tokens run in the next step --------------------===//
//
// A state machine without clock and GPU. The engine repeats: submit() what has
// arrived, plan() a step, run it, commit() its sampled tokens, or abandon() it
// if it failed. To keep the GPU busy it may commit a step that still runs, plan
// the next one, and deliver() the tokens when they are there: places of tokens
// do not depend on them.
//
// The rules, in the order of a step:
//
//   1 Each running sequence that has computed all of its tokens but the last
//     decodes that one, oldest first. Where no page is left for it, the
//     youngest running sequence is preempted: it loses its pages, waits in
//     front of all others, and later computes its tokens again.
//   2 The sequence whose prompt is under way computes as much of the rest as
//     budget and pages allow. There is at most one: the youngest.
//   3 Waiting sequences are admitted, first come first served, while the pages
//     of their first chunk are available beside one page for each running
//     sequence, which will soon need it. Full pages that another sequence has
//     computed are shared instead. At least the last token is computed, since
//     its logits are needed.
//
// Nothing starves: the oldest sequence is never preempted by another, and each
// step computes a token of it. It always fits, because submit() refuses a
// request that the empty pool could not hold. So a step is empty only if no
// sequence is left, and there are at most as many steps as tokens.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_SCHEDULER_H
#define KILN_EXAMPLES_LLAMA_SCHEDULER_H

#include "PagePool.h"
#include "RequestRules.h"
#include "StepEngine.h"
#include "View.h"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

namespace llama {

struct SchedulerLimits {
  int64_t tokenBudget = 2048;    ///< Tokens a step; maxSequences at least.
  int64_t maxSequences = 256;    ///< Sequences that run at once.
  int64_t maxPositions = 8192;   ///< Prompt and new tokens of a sequence.
  int64_t vocabSize = INT32_MAX; ///< Token ids are below it.
  bool sharePrefixes = true;
};

/// The part of a step that belongs to one sequence. The views are valid until
/// commit().
struct ScheduledSequence {
  SequenceId id = 0;
  View<int32_t> tokens;      ///< The tokens to run.
  int64_t firstPosition = 0; ///< Position of the first of them.
  /// Its row of the page table: the pages of positions 0 to the last that runs.
  View<PageId> pages;
  int64_t pageTokens = 0;
  /// The last token's logits are sampled; else more of the prompt follows.
  bool samples = false;
  SamplingParameters sampling;
  /// Its new tokens so far: the counter of its random numbers.
  int64_t newTokens = 0;

  /// The place in the cache of tokens[index], in tokens.
  int64_t slot(int64_t index) const {
    const int64_t position = firstPosition + index;
    return pages[position / pageTokens] * pageTokens + position % pageTokens;
  }
  /// Keys that the last token attends to, itself included.
  int64_t length() const { return firstPosition + tokens.size(); }
};

/// Decodes, one token each, and prefills are apart: an engine pads the decodes
/// to a captured batch size and runs the prefills packed.
struct Step {
  std::vector<ScheduledSequence> decodes;  ///< Oldest first; all sample.
  std::vector<ScheduledSequence> prefills; ///< Oldest first.
  int64_t tokens = 0;                      ///< The sum over its sequences.
  int64_t sampled = 0;                     ///< Sequences that sample.

  /// The sequences that sample, in the order of their tokens.
  std::vector<SequenceId> samplers() const;
  bool empty() const { return tokens == 0; }
};

struct SchedulerStatistics {
  int64_t steps = 0, preemptions = 0;
  int64_t computedTokens = 0; ///< Tokens of all steps.
  int64_t sharedTokens = 0;   ///< Prompt tokens that were not computed.
};

/// Not thread-safe.
class Scheduler {
public:
  /// Throws Error for limits that contradict each other.
  Scheduler(SchedulerLimits limits, int64_t pages, int64_t pageTokens);
  ~Scheduler();

  /// Adds a request. Throws RefusedRequest if it could never run.
  SequenceId submit(Request request);

  /// The next step; empty if no sequence is left. Each step is committed or
  /// abandoned before the next is planned.
  Step plan();

  /// Ends a step that has run. \p tokens has the sampled tokens: a token for
  /// each decode, then for each prefill that samples, in their order. Returns
  /// the sequences that have all of their new tokens; they are gone from the
  /// scheduler.
  std::vector<SequenceId> commit(const Step &step, View<int32_t> tokens);

  /// The same for a step whose tokens are not known yet: they are kPending in
  /// the next step, until deliver() puts them in their places.
  std::vector<SequenceId> commit(const Step &step);
  static constexpr int32_t kPending = -1;

  /// Takes a planned step back that did not run, or not to its end: its tokens
  /// are computed again. Its views are not valid any more. Sequences that left
  /// meanwhile go.
  void abandon(const Step &step);

  /// The tokens of a step that was committed without; before the next commit.
  /// Tokens of sequences that are gone are dropped.
  void deliver(const std::vector<SequenceId> &sampled, View<int32_t> tokens);

  /// Removes a sequence: it sampled an end token, or its client has left. While
  /// it is part of a planned step, it goes at the end of that, and its sampled
  /// token is to be dropped. Returns false if there is no such sequence.
  bool finish(SequenceId id);

  /// The limits that submit() checks.
  RequestRoom room() const;

  bool idle() const { return sequences.empty(); }
  int64_t runningCount() const { return static_cast<int64_t>(running.size()); }
  int64_t waitingCount() const { return static_cast<int64_t>(waiting.size()); }
  const PagePool &pool() const { return pages; }
  const SchedulerStatistics &statistics() const { return counts; }

  /// Throws std::logic_error if the state contradicts itself. For tests.
  void check() const;

private:
  struct Sequence;

  void planDecodes(Step &step);
  void planPrefill(Step &step);
  void planAdmissions(Step &step);
  bool admit(Sequence &sequence, Step &step);
  void schedule(Sequence &sequence, int64_t count, Step &step);
  bool reserveDecode(Sequence &sequence);
  void preemptYoungest();
  void growTo(Sequence &sequence, int64_t pageCount);
  void shrinkTo(Sequence &sequence, int64_t pageCount);
  int64_t sharePrefix(Sequence &sequence);
  void releasePages(Sequence &sequence);
  void publishFullPages(Sequence &sequence);
  void advance(const ScheduledSequence &part,
               std::vector<SequenceId> &finished);
  void remove(SequenceId id);
  int64_t pagesFor(int64_t tokens) const;

  SchedulerLimits limits;
  PagePool pages;
  std::map<SequenceId, std::unique_ptr<Sequence>> sequences;
  std::vector<Sequence *> running; ///< Oldest first.
  std::deque<Sequence *> waiting;  ///< Oldest first; all younger than running.
  SequenceId nextId = 1;
  bool planned = false; ///< A step is planned, and has not ended.
  SchedulerStatistics counts;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_SCHEDULER_H
