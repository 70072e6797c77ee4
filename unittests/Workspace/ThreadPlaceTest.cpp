#include "Workspace/ThreadPlace.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

using namespace kiln;

TEST_CASE("a place is given out again, a number never") {
  ThreadPlace here = threadPlace(), first, second;
  std::thread([&] { first = threadPlace(); }).join();
  std::thread([&] { second = threadPlace(); }).join();
  CHECK(threadPlace().number == here.number);
  CHECK(first.place != here.place);
  CHECK(second.place == first.place);
  CHECK(second.number > first.number);
}

TEST_CASE("a hook hears of each thread that ends, until it is gone") {
  std::vector<uint64_t> ended;
  ThreadPlace seen;
  {
    ThreadExitHook hook(
        [](void *user, const ThreadPlace &place) {
          static_cast<std::vector<uint64_t> *>(user)->push_back(place.number);
        },
        &ended);
    std::thread([&] { seen = threadPlace(); }).join();
    std::thread([] {}).join(); // asked for no place
  }
  std::thread([] { threadPlace(); }).join();
  CHECK(ended == std::vector<uint64_t>{seen.number});
}
