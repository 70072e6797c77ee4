//===- SchedulerTracesTest.cpp - random lives of a scheduler --------------===//
//
// Each trace draws a pool, limits, requests, end tokens and clients that leave,
// and runs until no sequence is left. The cache is played by an array that
// holds, for each slot, a hash of all tokens up to the one stored there. So a
// page that is shared wrongly, written twice or lost shows as a wrong hash at
// the first step that reads it.
//
//===----------------------------------------------------------------------===//
#include "llama/Error.h"
#include "llama/Hash.h"
#include "llama/Scheduler.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <set>
#include <stdexcept>
#include <string>

using namespace llama;

namespace {

void expect(bool holds, const char *what) {
  if (!holds)
    throw std::runtime_error(what);
}

/// Sums over traces, which show that they reach what they are for.
struct Seen {
  int64_t steps = 0, preemptions = 0, sharedTokens = 0, restarts = 0;
  int64_t refused = 0, left = 0, leftInFlight = 0, completed = 0;
  int64_t abandoned = 0;
};

class Trace {
public:
  Trace(uint64_t seed, Seen &seen)
      : random(seed), seen(seen), pageTokens(random.between(1, 4)),
        limits(drawLimits()),
        scheduler(limits, random.between(12, 40) / pageTokens + 1, pageTokens),
        cache(static_cast<size_t>((scheduler.pool().capacity() + 1) *
                                  pageTokens)),
        toSubmit(random.between(1, 8)), stepOfSlot(cache.size()),
        partOfPage(cache.size()) {}

  void run() {
    int64_t tokensEver = 0;
    while (toSubmit > 0 || !scheduler.idle()) {
      while (toSubmit > 0 && (scheduler.idle() || random.below(3) == 0))
        tokensEver += submit();
      if (!scheduler.idle() && random.below(40) == 0)
        leave(seen.left);
      const bool idle = scheduler.idle();
      const Step step = scheduler.plan();
      expect(step.empty() == idle, "a step is empty and there is work");
      scheduler.check();
      if (random.below(40) == 0) {
        abandon(step);
        continue;
      }
      deliver(step);
      runStep(step);
      if (!step.empty() && random.below(40) == 0)
        leave(seen.leftInFlight);
      commit(step);
      scheduler.check();
      expect(steps <= tokensEver, "more steps than tokens");
    }
    expect(known.empty(), "a sequence is forgotten");
    expect(scheduler.pool().available() == scheduler.pool().capacity(),
           "a page is lost");
    expect(restarts <= scheduler.statistics().preemptions,
           "tokens are computed again without a preemption");
    seen.steps += steps;
    seen.restarts += restarts;
    seen.preemptions += scheduler.statistics().preemptions;
    seen.sharedTokens += scheduler.statistics().sharedTokens;
  }

private:
  struct Known {
    std::vector<int32_t> tokens;
    int64_t promptTokens = 0, maxNewTokens = 0, computed = 0;
    bool left = false;
  };

  SchedulerLimits drawLimits() {
    SchedulerLimits drawn;
    drawn.maxSequences = random.between(1, 4);
    drawn.tokenBudget = drawn.maxSequences + random.between(0, 8);
    drawn.maxPositions = random.between(14, 40);
    drawn.sharePrefixes = random.below(4) != 0;
    return drawn;
  }

  /// Two token ids, so that prompts have beginnings in common.
  int32_t drawToken() { return static_cast<int32_t>(random.below(8) == 0); }

  /// Returns the most tokens that the request can have.
  int64_t submit() {
    --toSubmit;
    Request request;
    request.maxNewTokens = random.between(1, 12);
    for (int64_t i = random.between(1, 14); i > 0; --i)
      request.prompt.push_back(drawToken());
    Known sequence;
    sequence.tokens = request.prompt;
    sequence.promptTokens = static_cast<int64_t>(request.prompt.size());
    sequence.maxNewTokens = request.maxNewTokens;
    const int64_t tokens = sequence.promptTokens + request.maxNewTokens;
    const bool fits = tokens <= limits.maxPositions &&
                      (tokens - 1 + pageTokens - 1) / pageTokens <=
                          scheduler.pool().capacity();
    try {
      const SequenceId id = scheduler.submit(std::move(request));
      expect(fits, "a request is accepted that cannot fit");
      known[id] = std::move(sequence);
      return tokens;
    } catch (const Error &) {
      expect(!fits, "a request is refused that fits");
      ++seen.refused;
      return 0;
    }
  }

  /// The client of a random sequence leaves.
  void leave(int64_t &count) {
    auto which = known.begin();
    std::advance(which, random.below(known.size()));
    const bool planned = scheduled.count(which->first) > 0;
    expect(scheduler.finish(which->first) == !which->second.left,
           "finish() is wrong about a sequence");
    which->second.left = true;
    if (!planned)
      known.erase(which);
    ++count;
  }

  /// The step fails; meanwhile a client may leave.
  void abandon(const Step &step) {
    if (!step.empty() && random.below(4) == 0)
      leave(seen.left);
    scheduler.abandon(step);
    scheduler.check();
    deliver({});
    ++seen.abandoned;
  }

  void runStep(const Step &step) {
    if (step.empty())
      return;
    expect(step.tokens <= limits.tokenBudget, "a step exceeds the budget");
    int64_t tokens = 0, sampled = 0;
    ++steps;
    for (const auto *list : {&step.decodes, &step.prefills}) {
      SequenceId last = 0;
      for (const ScheduledSequence &part : *list) {
        expect(part.id > last, "parts are not oldest first");
        last = part.id;
        expect(scheduled.insert(part.id).second, "a sequence runs twice");
        tokens += part.tokens.size();
        sampled += part.samples;
        runPart(part);
      }
    }
    for (const ScheduledSequence &part : step.decodes)
      expect(part.tokens.size() == 1 && part.samples, "is not a decode");
    expect(tokens == step.tokens && sampled == step.sampled,
           "a step counts wrongly");
    expect(static_cast<int64_t>(scheduled.size()) <= limits.maxSequences,
           "too many sequences run");
    // The oldest is always part of it: nothing starves.
    expect(known.empty() || scheduled.count(known.begin()->first) == 1,
           "the oldest sequence does not run");
  }

  void runPart(const ScheduledSequence &part) {
    Known &sequence = known.at(part.id);
    const int64_t end = part.length();
    expect(part.tokens.size() > 0, "a part is empty");
    expect(end <= static_cast<int64_t>(sequence.tokens.size()),
           "a part ends behind its tokens");
    expect(part.samples ==
               (end == static_cast<int64_t>(sequence.tokens.size())),
           "samples in the middle, or not at the end");
    expect(part.newTokens == static_cast<int64_t>(sequence.tokens.size()) -
                                 sequence.promptTokens,
           "counts new tokens wrongly");
    checkStart(part, sequence);
    expect(part.pages.size() == (end + pageTokens - 1) / pageTokens,
           "the row of the page table has another length");
    ++parts;
    for (const PageId page : part.pages) {
      expect(page > kPaddingPage && page <= scheduler.pool().capacity(),
             "a page does not exist");
      int64_t &seenBy = partOfPage[static_cast<size_t>(page)];
      expect(seenBy != parts, "a page is twice in a row");
      seenBy = parts;
    }

    // Everything in front is in the cache, computed or shared.
    uint64_t hash = 0;
    for (int64_t position = 0; position < end; ++position) {
      const PageId page = part.pages[position / pageTokens];
      const int64_t slot = page * pageTokens + position % pageTokens;
      hash = mix64(hash + kGolden +
                   static_cast<uint64_t>(
                       sequence.tokens[static_cast<size_t>(position)]));
      uint64_t &cached = cache[static_cast<size_t>(slot)];
      if (position < part.firstPosition) {
        expect(cached == hash, "the cache holds other tokens");
        continue;
      }
      const int64_t index = position - part.firstPosition;
      expect(part.slot(index) == slot, "a slot is wrong");
      expect(part.tokens[index] ==
                 sequence.tokens[static_cast<size_t>(position)],
             "another token runs");
      expect(scheduler.pool().users(page) == 1, "a shared page is written");
      int64_t &writtenIn = stepOfSlot[static_cast<size_t>(slot)];
      expect(writtenIn != steps, "a slot is written twice");
      writtenIn = steps;
      cached = hash;
    }
    sequence.computed = end;
  }

  /// A part goes on where the last ended, or starts: behind shared pages, the
  /// first time or after a preemption.
  void checkStart(const ScheduledSequence &part, const Known &sequence) {
    if (part.firstPosition == sequence.computed)
      return;
    expect(part.firstPosition % pageTokens == 0, "starts inside a page");
    expect(part.firstPosition == 0 || limits.sharePrefixes,
           "tokens are left out");
    if (sequence.computed > 0)
      ++restarts;
  }

  void commit(const Step &step) {
    std::vector<int32_t> sampled;
    std::vector<SequenceId> complete, ended;
    for (const auto *list : {&step.decodes, &step.prefills})
      for (const ScheduledSequence &part : *list) {
        Known &sequence = known.at(part.id);
        if (part.samples) {
          sampled.push_back(drawToken());
          sequence.tokens.push_back(sampled.back());
        }
        const bool all = static_cast<int64_t>(sequence.tokens.size()) ==
                         sequence.promptTokens + sequence.maxNewTokens;
        if (sequence.left)
          known.erase(part.id);
        else if (part.samples && all)
          complete.push_back(part.id);
        else if (part.samples && random.below(40) == 0)
          ended.push_back(part.id);
      }
    scheduled.clear();
    // The engine may learn the tokens only after it has planned the next step.
    const bool isLate = random.below(2) == 0;
    lateIds = isLate ? step.samplers() : std::vector<SequenceId>();
    lateTokens = sampled;
    lateEnds = ended;
    expect((isLate ? scheduler.commit(step)
                   : scheduler.commit(step, sampled)) == complete,
           "other sequences are complete");
    for (const SequenceId id : complete)
      known.erase(id);
    seen.completed += static_cast<int64_t>(complete.size());
    if (!isLate)
      end({});
  }

  /// The tokens of the last step arrive, where they were late. \p step is
  /// planned.
  void deliver(const Step &step) {
    if (!lateIds.empty())
      scheduler.deliver(lateIds, lateTokens);
    lateIds.clear();
    end(step);
  }

  /// The sequences that sampled an end token leave.
  void end(const Step &step) {
    for (const SequenceId id : lateEnds) {
      const auto found = known.find(id);
      if (found == known.end() || found->second.left)
        continue; // its client has left before
      expect(scheduler.finish(id), "a sequence is gone early");
      found->second.left = true;
      if (!isPartOf(step, id))
        known.erase(found);
    }
    lateEnds.clear();
  }

  static bool isPartOf(const Step &step, SequenceId id) {
    for (const auto *list : {&step.decodes, &step.prefills})
      for (const ScheduledSequence &part : *list)
        if (part.id == id)
          return true;
    return false;
  }

  Random random;
  Seen &seen;
  int64_t pageTokens;
  SchedulerLimits limits;
  Scheduler scheduler;
  std::vector<uint64_t> cache; ///< By slot.
  int64_t toSubmit;
  std::map<SequenceId, Known> known;
  std::set<SequenceId> scheduled;
  /// The last step that wrote a slot, and the last part that had a page.
  std::vector<int64_t> stepOfSlot, partOfPage;
  int64_t steps = 0, parts = 0;
  int64_t restarts = 0;
  /// The last step, whose tokens may arrive late.
  std::vector<SequenceId> lateIds, lateEnds;
  std::vector<int32_t> lateTokens;
};

} // namespace

TEST_CASE("traces: every token is computed once, in its place") {
  // Another number of traces, for longer runs.
  const char *variable = std::getenv("LLAMA_TRACES");
  const uint64_t traces =
      variable ? std::strtoull(variable, nullptr, 10) : 100000;
  Seen seen;
  for (uint64_t seed = 0; seed < traces; ++seed) {
    try {
      Trace(seed, seen).run();
    } catch (const std::exception &error) {
      FAIL("trace " << seed << ": " << std::string(error.what()));
    }
  }
  MESSAGE(traces << " traces, " << seen.steps << " steps, " << seen.completed
                 << " completed, " << seen.preemptions << " preempted, "
                 << seen.restarts << " restarted, " << seen.sharedTokens
                 << " tokens shared, " << seen.refused << " refused, "
                 << seen.left << " left, " << seen.leftInFlight
                 << " left in flight, " << seen.abandoned << " abandoned");
  if (traces < 1000)
    return;
  for (const int64_t count :
       {seen.completed, seen.preemptions, seen.restarts, seen.sharedTokens,
        seen.refused, seen.left, seen.leftInFlight, seen.abandoned})
    CHECK(count > static_cast<int64_t>(traces / 100));
}
