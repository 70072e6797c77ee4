//===- BackgroundPace.h - the duty cycle of the mode background -----------===//
//
// Background.h explains the share, and why code is loaded in a moment without
// launches.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Trial/TrialPace.h"

#include <atomic>
#include <cassert>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace kiln {

/// The pace of trials under a duty cycle. One thread runs trials; any thread
/// may call the rest.
class BackgroundPace final : public TrialPace {
public:
  /// Counts launches.
  using LaunchCount = std::function<uint64_t()>;

  /// \p share is of wall time, above 0, at most 1. \p between is called before
  /// each piece, by the thread that runs it.
  BackgroundPace(
      double share, LaunchCount launches, std::function<void()> between = [] {})
      : share(share), launches(std::move(launches)),
        between(std::move(between)) {
    assert(share > 0 && share <= 1 && "a share of wall time");
  }

  bool begin() override;
  void end(Clock::duration time) override;
  Clock::duration waited() const override { return total; }
  void awaitLoad() override;

  enum class Interruption {
    None,
    Yield, ///< trials are to end, and other work goes on
    End,   ///< all work is to end, and a caller waits for that
  };
  /// From now on begin() answers false, unless \p why is None.
  void interrupt(Interruption why);
  /// Notes that some stream is being captured.
  void noteCapture();
  /// Between these a call looks for a plan that it will launch: no code is
  /// loaded meanwhile.
  void beginCall() { callsInWork.fetch_add(1, std::memory_order_relaxed); }
  void endCall() { callsInWork.fetch_sub(1, std::memory_order_relaxed); }
  /// The time that pieces took so far.
  uint64_t usedNs() const { return used.load(std::memory_order_relaxed); }
  /// The time by which captures delayed pieces that were due.
  uint64_t heldNs() const { return held.load(std::memory_order_relaxed); }
  /// True once trials are to end. For code that waits for compilations.
  const std::atomic<bool> &interrupted() const { return isInterrupted; }
  /// How often interrupted() became true.
  uint64_t interruptions() const { return interruptCount; }

private:
  const double share;
  const LaunchCount launches;
  const std::function<void()> between;
  // Members of the thread that runs trials.
  Clock::duration total{0};
  Clock::time_point loadsUntil{}; ///< loads need not wait
  std::atomic<uint64_t> used{0}, held{0};
  std::atomic<int> callsInWork{0};
  std::atomic<bool> isInterrupted{false}, isEnding{false};
  std::atomic<uint64_t> interruptCount{0};

  std::mutex mutex; ///< guards what follows
  std::condition_variable changed;
  Clock::time_point nextBegin{}, captureEnd{};
};

} // namespace kiln
