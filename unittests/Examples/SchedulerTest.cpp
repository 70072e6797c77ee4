#include "llama/Scheduler.h"

#include "llama/Error.h"

#include <doctest/doctest.h>
#include <limits>
#include <stdexcept>

using namespace llama;

namespace {

Request requestOf(std::vector<int32_t> prompt, int64_t maxNewTokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.maxNewTokens = maxNewTokens;
  return request;
}

std::vector<int32_t> numbers(int32_t first, int32_t count) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < count; ++i)
    tokens.push_back(first + i);
  return tokens;
}

SchedulerLimits limitsOf(int64_t tokenBudget, int64_t maxSequences) {
  SchedulerLimits limits;
  limits.tokenBudget = tokenBudget;
  limits.maxSequences = maxSequences;
  return limits;
}

/// Commits a step of which every sampled token is \p token.
std::vector<SequenceId> commitAll(Scheduler &scheduler, const Step &step,
                                  int32_t token = 7) {
  return scheduler.commit(
      step, std::vector<int32_t>(static_cast<size_t>(step.sampled), token));
}

} // namespace

TEST_CASE("a prompt is computed in chunks, then decoded") {
  Scheduler scheduler(limitsOf(6, 2), 20, 4);
  const SequenceId id = scheduler.submit(requestOf(numbers(10, 8), 3));

  Step step = scheduler.plan();
  REQUIRE(step.prefills.size() == 1);
  CHECK(step.decodes.empty());
  CHECK(step.prefills[0].id == id);
  CHECK(step.prefills[0].tokens.size() == 6);
  CHECK(step.prefills[0].tokens[5] == 15);
  CHECK(step.prefills[0].pages.size() == 2);
  CHECK(!step.prefills[0].samples);
  CHECK(commitAll(scheduler, step).empty());

  step = scheduler.plan();
  REQUIRE(step.prefills.size() == 1);
  CHECK(step.prefills[0].firstPosition == 6);
  CHECK(step.prefills[0].tokens.size() == 2);
  CHECK(step.prefills[0].samples);
  CHECK(step.prefills[0].slot(1) == step.prefills[0].pages[1] * 4 + 3);
  CHECK(commitAll(scheduler, step, 42).empty());

  step = scheduler.plan();
  REQUIRE(step.decodes.size() == 1);
  CHECK(step.decodes[0].tokens[0] == 42);
  CHECK(step.decodes[0].firstPosition == 8);
  CHECK(step.decodes[0].length() == 9);
  CHECK(step.decodes[0].newTokens == 1);
  CHECK(step.decodes[0].pages.size() == 3);
  CHECK(commitAll(scheduler, step).empty());

  step = scheduler.plan();
  CHECK(commitAll(scheduler, step) == std::vector<SequenceId>{id});
  CHECK(scheduler.idle());
  CHECK(scheduler.plan().empty());
  CHECK(scheduler.pool().available() == 19);
}

TEST_CASE("decodes go before the next prompt, and share a step with it") {
  Scheduler scheduler(limitsOf(5, 4), 40, 4);
  const SequenceId first = scheduler.submit(requestOf(numbers(0, 3), 8));
  const SequenceId second = scheduler.submit(requestOf(numbers(50, 9), 8));

  Step step = scheduler.plan(); // All of the first and a chunk of the second.
  REQUIRE(step.prefills.size() == 2);
  CHECK(step.prefills[1].tokens.size() == 2);
  CHECK(step.sampled == 1);
  commitAll(scheduler, step);

  step = scheduler.plan();
  REQUIRE(step.decodes.size() == 1);
  REQUIRE(step.prefills.size() == 1);
  CHECK(step.decodes[0].id == first);
  CHECK(step.prefills[0].id == second);
  CHECK(step.prefills[0].firstPosition == 2);
  CHECK(step.tokens == 5);
  commitAll(scheduler, step);
}

TEST_CASE("the youngest is preempted, and waits in front of the others") {
  // Three pages of two tokens: two sequences fit until both need a third.
  SchedulerLimits limits = limitsOf(8, 4);
  limits.sharePrefixes = false;
  Scheduler scheduler(limits, 4, 2);
  const SequenceId old = scheduler.submit(requestOf({1}, 4));
  commitAll(scheduler, scheduler.plan());
  const SequenceId young = scheduler.submit(requestOf({2}, 4));
  const SequenceId third = scheduler.submit(requestOf({3}, 4));
  commitAll(scheduler, scheduler.plan());
  CHECK(scheduler.runningCount() == 2);
  CHECK(scheduler.waitingCount() == 1);

  // Position 2 of the old one takes the last page; the young one needs it next.
  Step step = scheduler.plan();
  CHECK(step.decodes.size() == 2);
  commitAll(scheduler, step);
  step = scheduler.plan();
  REQUIRE(step.decodes.size() == 1);
  CHECK(step.decodes[0].id == old);
  CHECK(scheduler.statistics().preemptions == 1);
  CHECK(commitAll(scheduler, step) == std::vector<SequenceId>{old});

  // It computes again the prompt and the tokens that it had sampled.
  step = scheduler.plan();
  REQUIRE(step.prefills.size() == 1);
  CHECK(step.prefills[0].id == young);
  CHECK(step.prefills[0].tokens.size() == 3);
  CHECK(step.prefills[0].firstPosition == 0);
  CHECK(step.prefills[0].newTokens == 2);
  commitAll(scheduler, step);
  while (!scheduler.idle())
    commitAll(scheduler, scheduler.plan());
  CHECK(third > young);
  CHECK(scheduler.pool().available() == 3);
}

TEST_CASE("full pages of a known prompt are shared") {
  Scheduler scheduler(limitsOf(64, 4), 20, 4);
  scheduler.submit(requestOf(numbers(0, 10), 1));
  commitAll(scheduler, scheduler.plan());
  CHECK(scheduler.idle());

  // Ten equal tokens: two pages of four are shared.
  scheduler.submit(requestOf(numbers(0, 10), 1));
  Step step = scheduler.plan();
  REQUIRE(step.prefills.size() == 1);
  CHECK(step.prefills[0].firstPosition == 8);
  CHECK(scheduler.statistics().sharedTokens == 8);
  commitAll(scheduler, step);

  // Eight tokens: the last has to be computed for its logits, so one page.
  scheduler.submit(requestOf(numbers(0, 8), 1));
  step = scheduler.plan();
  CHECK(step.prefills[0].firstPosition == 4);
  commitAll(scheduler, step);

  // Nine tokens: all except the last are shared, which leaves a decode.
  scheduler.submit(requestOf(numbers(0, 9), 1));
  step = scheduler.plan();
  REQUIRE(step.decodes.size() == 1);
  CHECK(step.decodes[0].firstPosition == 8);
  commitAll(scheduler, step);
}

TEST_CASE("a client that leaves during a step goes at its commit") {
  Scheduler scheduler(limitsOf(8, 4), 20, 4);
  const SequenceId id = scheduler.submit(requestOf(numbers(0, 5), 4));
  const Step step = scheduler.plan();
  CHECK(scheduler.finish(id));
  CHECK(!scheduler.finish(id));
  CHECK(!scheduler.idle());
  CHECK(commitAll(scheduler, step).empty());
  CHECK(scheduler.idle());
  CHECK(scheduler.pool().available() == 19);

  const SequenceId waiting = scheduler.submit(requestOf({1}, 1));
  CHECK(scheduler.finish(waiting));
  CHECK(scheduler.idle());
  CHECK(!scheduler.finish(99));
}

TEST_CASE("a step that is abandoned is planned again") {
  Scheduler scheduler(limitsOf(16, 4), 20, 4);
  scheduler.submit(requestOf(numbers(0, 5), 4));
  commitAll(scheduler, scheduler.plan());
  const SequenceId second = scheduler.submit(requestOf(numbers(50, 4), 4));
  const SequenceId third = scheduler.submit(requestOf(numbers(60, 6), 4));
  const SequenceId left = scheduler.submit(requestOf(numbers(70, 4), 4));

  // A decode, two whole prompts, and one whose client leaves.
  Step step = scheduler.plan();
  CHECK(step.decodes.size() == 1);
  CHECK(step.prefills.size() == 3);
  CHECK(scheduler.finish(left));
  scheduler.abandon(step);
  scheduler.check();
  CHECK(scheduler.runningCount() + scheduler.waitingCount() == 3);
  CHECK_THROWS_AS(scheduler.abandon(step), std::logic_error);

  step = scheduler.plan();
  CHECK(step.decodes.size() == 1);
  REQUIRE(step.prefills.size() == 2);
  CHECK(step.prefills[0].id == second);
  CHECK(step.prefills[1].id == third);
  for (const ScheduledSequence &part : step.prefills)
    CHECK(part.firstPosition == 0);
  while (!scheduler.idle()) {
    commitAll(scheduler, step);
    step = scheduler.plan();
  }
  CHECK(scheduler.pool().available() == 19);
}

TEST_CASE("requests that can never run are refused with the reason") {
  SchedulerLimits limits = limitsOf(8, 4);
  limits.maxPositions = 16;
  limits.vocabSize = 100;
  Scheduler scheduler(limits, 4, 4);
  const auto refuse = [&](const Request &request, const char *reason) {
    CHECK_THROWS_WITH_AS(scheduler.submit(request), doctest::Contains(reason),
                         Error);
  };
  refuse(requestOf({}, 1), "empty prompt");
  refuse(requestOf({1}, 0), "0 new tokens");
  refuse(requestOf({1}, std::numeric_limits<int64_t>::max()),
         "exceeds 16 positions");
  refuse(requestOf(numbers(0, 17), 1), "exceeds 16 positions");
  refuse(requestOf(numbers(0, 10), 4), "needs 4 pages, but the pool has 3");
  // Twelve tokens are computed, and the thirteenth is only returned.
  CHECK(scheduler.submit(requestOf(numbers(0, 10), 3)) == 1);

  // The scheduler would take -1 for a token that has not arrived.
  refuse(requestOf({1, Scheduler::kPending}, 1), "token -1, expected 0 to 99");
  refuse(requestOf({100}, 1), "token 100, expected 0 to 99");

  Request hot = requestOf({1}, 1);
  hot.sampling.temperature = std::numeric_limits<float>::quiet_NaN();
  refuse(hot, "a temperature of");
  hot.sampling = {};
  hot.sampling.topP = 0;
  refuse(hot, "a top-p of 0");
  hot.sampling = {};
  hot.sampling.topK = -1;
  refuse(hot, "a top-k of -1");
}

TEST_CASE("limits that contradict each other, and calls out of order") {
  CHECK_THROWS_AS(Scheduler(limitsOf(3, 4), 8, 4), Error);
  CHECK_THROWS_AS(Scheduler(limitsOf(3, 0), 8, 4), Error);
  CHECK_THROWS_AS(Scheduler(limitsOf(8, 4), 1, 4), Error);
  Scheduler scheduler(limitsOf(8, 4), 8, 4);
  scheduler.submit(requestOf({1}, 1));
  const Step step = scheduler.plan();
  CHECK_THROWS_AS(scheduler.plan(), std::logic_error);
  CHECK_THROWS_AS(scheduler.commit(step, std::vector<int32_t>(2)),
                  std::logic_error);
  commitAll(scheduler, step);
  CHECK_THROWS_AS(commitAll(scheduler, step), std::logic_error);
}
