#include "Workspace/ThreadPlace.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdio>
#include <future>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
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

/// Ends a child after its thread's own state, and before a sanitizer looks for
/// memory of the parent's threads.
struct ChildEnd {
  bool isChild = false;
  ~ChildEnd() {
    if (isChild)
      ::_exit(0);
  }
};

TEST_CASE("a thread that ends in a forked child calls no hook of the parent") {
  struct User {
    std::atomic<int> inside{0};
    std::promise<void> mayEnd;
    std::shared_future<void> end = mayEnd.get_future().share();
    const pid_t parent = ::getpid();
  } user;
  ThreadExitHook hook(
      [](void *given, const ThreadPlace &) {
        auto *user = static_cast<User *>(given);
        if (user->parent != ::getpid())
          ::_exit(9);
        ++user->inside;
        user->end.wait();
      },
      &user);
  // A thread of the parent is inside of a hook, and keeps its lock.
  std::thread inHook([] { threadPlace(); });
  while (user.inside == 0)
    std::this_thread::yield();
  std::fflush(nullptr);
  std::promise<int> status;
  std::thread forks([&] {
    static thread_local ChildEnd end;
    end.isChild = false; // it is there before the thread's place
    const uint64_t mine = threadPlace().place;
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20); // a lock that is never given back
      ThreadPlace other;
      std::thread([&] { other = threadPlace(); }).join();
      if (other.place == mine)
        ::_exit(8);
      end.isChild = true;
      return;
    }
    int ended = -1;
    ::waitpid(child, &ended, 0);
    status.set_value(ended);
  });
  const int ended = status.get_future().get();
  user.mayEnd.set_value();
  inHook.join();
  forks.join();
  CHECK(WIFEXITED(ended));
  CHECK(WEXITSTATUS(ended) == 0);
}
