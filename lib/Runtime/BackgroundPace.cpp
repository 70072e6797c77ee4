//===- BackgroundPace.cpp - the duty cycle of the mode background ---------===//
#include "Runtime/BackgroundPace.h"

#include <algorithm>
#include <thread>

namespace kiln {

using Clock = TrialPace::Clock;

/// The time after a launch into a capture for which the capture is assumed to
/// last.
static constexpr std::chrono::milliseconds kCaptureHold{250};

static uint64_t nsOf(Clock::duration time) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

bool BackgroundPace::begin() {
  between();
  const Clock::time_point start = Clock::now();
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    if (isInterrupted)
      return false;
    const Clock::time_point now = Clock::now();
    const Clock::time_point from = std::max(nextBegin, captureEnd);
    if (now >= from)
      break;
    // The two waits are separate, so that heldNs() grows during a capture.
    const bool isHeld = now >= nextBegin;
    changed.wait_until(lock, isHeld ? from : nextBegin);
    if (isHeld)
      held.fetch_add(nsOf(Clock::now() - now), std::memory_order_relaxed);
  }
  total += Clock::now() - start;
  return true;
}

void BackgroundPace::end(Clock::duration time) {
  used.fetch_add(nsOf(time), std::memory_order_relaxed);
  // With a tiny share the rest is longer than a clock can count: then no piece
  // begins again.
  using Ticks = std::chrono::duration<double, Clock::period>;
  constexpr std::chrono::hours kMost(24 * 365);
  const auto rest = std::chrono::duration_cast<Clock::duration>(
      std::min(Ticks(time) * (1 / share - 1), Ticks(kMost)));
  std::lock_guard<std::mutex> lock(mutex);
  nextBegin = Clock::now() + rest;
}

/// The gap without launches that a load needs after it has \p waited; it
/// shrinks with the wait. A thread that launches without a pause does so every
/// few us.
static std::chrono::microseconds gapAfter(Clock::duration waited) {
  using std::chrono::microseconds;
  using std::chrono::milliseconds;
  return waited < milliseconds(10)   ? microseconds(1000)
         : waited < milliseconds(50) ? microseconds(300)
                                     : microseconds(100);
}

void BackgroundPace::awaitLoad() {
  constexpr std::chrono::microseconds kLook{20};
  constexpr std::chrono::milliseconds kPatience{1000}, kOpen{50};
  // The thread that pauses waits for the end, but wants no call held up either.
  constexpr std::chrono::milliseconds kPatienceAtEnd{50};
  const Clock::time_point start = Clock::now();
  if (start < loadsUntil)
    return;
  Clock::time_point lastLaunch = start;
  uint64_t seen = launches();
  for (;;) {
    // The counts are read right before the decision, since this thread may have
    // been kept from running in between.
    const Clock::time_point now = Clock::now();
    const uint64_t count = launches();
    if (count != seen || callsInWork.load(std::memory_order_relaxed) > 0) {
      seen = count;
      lastLaunch = now;
    }
    if (now - lastLaunch >= gapAfter(now - start))
      return;
    if (now - start >= (isEnding ? kPatienceAtEnd : kPatience)) {
      loadsUntil = now + kOpen; // several in a row hold up other threads only
                                // once
      return;
    }
    std::this_thread::sleep_for(kLook);
  }
}

void BackgroundPace::interrupt(Interruption why) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    isInterrupted = why != Interruption::None;
    isEnding = why == Interruption::End;
    interruptCount += isInterrupted;
  }
  changed.notify_all();
}

void BackgroundPace::noteCapture() {
  std::lock_guard<std::mutex> lock(mutex);
  captureEnd = Clock::now() + kCaptureHold;
}

} // namespace kiln
