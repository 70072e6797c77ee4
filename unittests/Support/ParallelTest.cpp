#include "Support/Parallel.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

using namespace kiln;

TEST_CASE("each index is worked on once, whatever the threads") {
  for (unsigned threads : {0U, 1U, 3U, 64U}) {
    std::vector<int> counts(1000);
    forEachInParallel(counts.size(), threads,
                      [&](size_t index) { ++counts[index]; });
    CHECK(counts == std::vector<int>(counts.size(), 1));
    forEachInParallel(0, threads, [](size_t) { FAIL("nothing to do"); });
  }
}

TEST_CASE("what a body throws ends the loop and comes back") {
  std::atomic<size_t> begun{0};
  auto body = [&](size_t index) {
    ++begun;
    if (index == 10)
      throw std::runtime_error("ten");
  };
  CHECK_THROWS_AS(forEachInParallel(1 << 20, 2, body), std::runtime_error);
  CHECK(begun < (1 << 20));
}

TEST_CASE("a cancelled loop begins nothing") {
  std::atomic<bool> cancel{true};
  forEachInParallel(
      100, 2, [](size_t) { FAIL("it was cancelled"); }, &cancel);
}
