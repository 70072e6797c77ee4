//===- BackgroundPace.h - the duty cycle of the mode background -----------===//
//
// Background.h has the essay: what the share is of, and why code is loaded in a
// moment without launches.
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

/// The pace of trials under a duty cycle. One thread runs trials; all else may
/// be called from any.
class BackgroundPace final : public TrialPace {
public:
  /// Counts launches.
  using LaunchCount = std::function<uint64_t()>;

  /// \p share of wall time, above 0, at most 1. \p between is called before
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
    End,   ///< all work is to end, and somebody waits for that
  };
  /// Unless it is None, begin() answers false.
  void interrupt(Interruption why);
  /// Some stream is being captured.
  void noteCapture();
  /// A call looks for a plan, and will launch: no moment to load code.
  void beginCall() { callsInWork.fetch_add(1, std::memory_order_relaxed); }
  void endCall() { callsInWork.fetch_sub(1, std::memory_order_relaxed); }
  /// What pieces took so far.
  uint64_t usedNs() const { return used.load(std::memory_order_relaxed); }
  /// How long captures kept pieces that were due from beginning.
  uint64_t heldNs() const { return held.load(std::memory_order_relaxed); }
  /// True once trials are to end: for what waits for compilations.
  const std::atomic<bool> &interrupted() const { return isInterrupted; }
  /// How often that began.
  uint64_t interruptions() const { return interruptCount; }

private:
  const double share;
  const LaunchCount launches;
  const std::function<void()> between;
  // Of the thread that runs trials.
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
