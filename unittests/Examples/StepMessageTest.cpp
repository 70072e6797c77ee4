// Steps that rank 0 sends to the others.
#include "llama/StepMessage.h"
#include "llama/Error.h"

#include <doctest/doctest.h>

#include <vector>

using namespace llama;

namespace {

template <class T> std::vector<T> listOf(View<T> view) {
  return {view.begin(), view.end()};
}

/// A step of two decodes and a prefill.
struct Sent {
  Sent() {
    add(step.decodes, 7, {Scheduler::kPending}, {3, 5}, 70, true);
    add(step.decodes, 9, {42}, {1}, 3, true);
    add(step.prefills, 11, {4, 5, 6}, {8, 2, 9}, 128, false);
    step.tokens = 5;
    step.sampled = 2;
  }
  void add(std::vector<ScheduledSequence> &to, SequenceId id,
           std::vector<int32_t> some, std::vector<PageId> row, int64_t first,
           bool samples) {
    tokens.push_back(std::move(some));
    pages.push_back(std::move(row));
    ScheduledSequence one;
    one.id = id;
    one.tokens = tokens.back();
    one.pages = pages.back();
    one.firstPosition = first;
    one.pageTokens = 64;
    one.samples = samples;
    one.newTokens = 2 * id;
    one.sampling = {0.5f, 40, 0.9f, uint64_t(1) << 63 | 5};
    to.push_back(one);
  }

  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::vector<PageId>> pages;
  Step step;
};

} // namespace

TEST_CASE("a step that was sent is the step") {
  const Sent sent;
  for (bool isProbe : {false, true}) {
    const ReceivedStep received(bytesOf(sent.step, isProbe));
    CHECK(received.isProbe() == isProbe);
    const Step &step = received.step();
    CHECK(step.tokens == 5);
    CHECK(step.sampled == 2);
    REQUIRE(step.decodes.size() == 2);
    REQUIRE(step.prefills.size() == 1);
    CHECK(step.samplers() == sent.step.samplers());
    for (auto list : {&Step::decodes, &Step::prefills})
      for (size_t i = 0; i < (step.*list).size(); ++i) {
        const ScheduledSequence &one = (step.*list)[i];
        const ScheduledSequence &other = (sent.step.*list)[i];
        CHECK(one.id == other.id);
        CHECK(listOf(one.tokens) == listOf(other.tokens));
        CHECK(listOf(one.pages) == listOf(other.pages));
        CHECK(one.length() == other.length());
        CHECK(one.slot(0) == other.slot(0));
        CHECK(one.samples == other.samples);
        CHECK(one.newTokens == other.newTokens);
        CHECK(one.sampling.seed == other.sampling.seed);
        CHECK(one.sampling.topK == other.sampling.topK);
        CHECK(one.sampling.topP == other.sampling.topP);
        CHECK(one.sampling.temperature == other.sampling.temperature);
      }
  }
}

TEST_CASE("a step that is cut off is refused") {
  const Sent sent;
  const std::string bytes = bytesOf(sent.step, false);
  for (size_t length = 0; length < bytes.size(); ++length)
    CHECK_THROWS_AS(ReceivedStep(bytes.substr(0, length)), Error);
}
