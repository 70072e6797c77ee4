// The duty cycle, and the moments of loading code.
#include "Runtime/BackgroundPace.h"

#include "Fakes/FakeCudaHazards.h"
#include "Runtime/BackgroundFixture.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

using namespace kiln;
using namespace kiln::testing;

TEST_CASE("background: code is loaded in a moment without launches") {
  using std::chrono::milliseconds;
  using Clock = std::chrono::steady_clock;
  std::atomic<uint64_t> launches{0};
  BackgroundPace pace(1, [&] { return launches.load(); });
  Clock::time_point start = Clock::now();
  pace.awaitLoad();
  CHECK(Clock::now() - start >= milliseconds(1));
  CHECK(Clock::now() - start < milliseconds(900));
  // Without such a moment it goes ahead all the same.
  std::atomic<bool> ends{false};
  std::thread launcher([&] {
    while (!ends)
      ++launches;
  });
  pace.awaitLoad();
  ends = true;
  launcher.join();
}

TEST_CASE("background: a call that looks for its plan is no such moment") {
  using std::chrono::milliseconds;
  using Clock = std::chrono::steady_clock;
  BackgroundPace pace(1, [] { return uint64_t(0); });
  pace.beginCall();
  std::atomic<bool> hasEnded{false};
  std::thread call([&] {
    std::this_thread::sleep_for(milliseconds(60));
    hasEnded = true;
    pace.endCall();
  });
  const Clock::time_point start = Clock::now();
  pace.awaitLoad();
  // Unless this thread was kept from running, the wait did not time out.
  CHECK((hasEnded || Clock::now() - start >= milliseconds(1000)));
  call.join();
}

TEST_CASE("background: only who waits for the end hurries loads") {
  using Clock = std::chrono::steady_clock;
  using Interruption = BackgroundPace::Interruption;
  uint64_t launches = 0;
  auto timeOf = [&](Interruption why) {
    BackgroundPace pace(1, [&] { return ++launches; }); // without a pause
    pace.interrupt(why);
    CHECK_FALSE(pace.begin());
    const Clock::time_point start = Clock::now();
    pace.awaitLoad();
    return Clock::now() - start;
  };
  // If this thread was kept from running, that looks like a pause.
  auto longest = timeOf(Interruption::Yield);
  for (int i = 0; i < 3 && longest < std::chrono::milliseconds(500); ++i)
    longest = std::max(longest, timeOf(Interruption::Yield));
  CHECK(longest >= std::chrono::milliseconds(500));
  CHECK(timeOf(Interruption::End) < std::chrono::milliseconds(500));
}

TEST_CASE("background: work of the GPU is followed by a rest") {
  using std::chrono::milliseconds;
  BackgroundPace pace(0.25, [] { return uint64_t(0); });
  REQUIRE(pace.begin());
  pace.end(milliseconds(10));
  const auto start = std::chrono::steady_clock::now();
  REQUIRE(pace.begin());
  CHECK(std::chrono::steady_clock::now() - start >= milliseconds(29));
  CHECK(pace.waited() >= milliseconds(29));
  CHECK(pace.usedNs() == 10'000'000);
  pace.end(milliseconds(0));
  pace.noteCapture();
  const auto capture = std::chrono::steady_clock::now();
  CHECK(pace.heldNs() == 0);
  REQUIRE(pace.begin());
  CHECK(std::chrono::steady_clock::now() - capture >= milliseconds(200));
  CHECK(pace.heldNs() >= 200'000'000);
  pace.end(std::chrono::hours(1));
  std::thread interrupter([&] {
    std::this_thread::sleep_for(milliseconds(20));
    pace.interrupt(BackgroundPace::Interruption::End);
  });
  CHECK(!pace.begin());
  interrupter.join();
  CHECK(!pace.begin());
}

TEST_CASE("background: of a tiny share the rest has no end") {
  BackgroundPace pace(1e-12, [] { return uint64_t(0); });
  REQUIRE(pace.begin());
  pace.end(std::chrono::hours(1)); // more than a clock counts
  std::thread interrupter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    pace.interrupt(BackgroundPace::Interruption::End);
  });
  CHECK(!pace.begin());
  interrupter.join();
}

TEST_CASE("background: loads that stall launches come between launches") {
  using Clock = std::chrono::steady_clock;
  BackgroundFixture fixture;
  kiln_engine *engine = fixture.paused();
  REQUIRE(launch(engine, gemmArgs()) == KILN_SUCCESS);
  // From here on no thread can launch while code is loaded, as with a real
  // driver.
  kilnFakeSetLoadTime(2000);
  REQUIRE(kiln_background_resume(engine) == KILN_SUCCESS);
  std::mt19937 random(5);
  int failed = 0;
  const Clock::time_point end = Clock::now() + kForever;
  while (kiln_background_wait(engine, 0) == KILN_IN_PROGRESS &&
         Clock::now() < end) {
    // The launches of a step, and then a wait for it.
    const Clock::time_point step = Clock::now() + std::chrono::milliseconds(6);
    while (Clock::now() < step) {
      const auto m = 1 + static_cast<int64_t>(random() % 256);
      const auto n = 256 * (1 + static_cast<int64_t>(random() % 3));
      failed += launch(engine, gemmArgs(m, n, 512)) != KILN_SUCCESS;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  CHECK(failed == 0);
  const size_t loads = kilnFakeStallingLoads();
  CHECK(loads > 4);
  // A launch waits for one load at most, and next to none began in its step.
  CHECK(kilnFakeStalledCalls() <= loads);
  size_t sudden = 0;
  for (size_t i = 0; i < loads; ++i)
    sudden += kilnFakeQuietUsBefore(i) < 100;
  CAPTURE(loads);
  CHECK(sudden * 4 <= loads);
  kilnFakeSetLoadTime(0);
}
