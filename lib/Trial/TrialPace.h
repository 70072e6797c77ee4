//===- TrialPace.h - trials that leave the device to others ---------------===//
//
// Trials of a process that also serves must not take the device from it. So
// their work is cut into pieces: what is enqueued and waited for together. Who
// sets the pace is asked before each piece, when nothing of theirs is in
// flight, and hears how long it took.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Support/Error.h"

#include <chrono>

namespace kiln {

/// Sets the pace of trials. Called from the thread that runs them.
class TrialPace {
public:
  using Clock = std::chrono::steady_clock;

  virtual ~TrialPace() = default;
  /// Waits until a piece may begin. False: trials are to end now.
  virtual bool begin() = 0;
  /// The piece took \p time, from before its first work was enqueued until all
  /// of it was done. That is no less than it had of the device.
  virtual void end(Clock::duration time) = 0;
  /// Waits until code may be loaded, which the driver lets wait for all work of
  /// the device, and launches of other threads with it.
  virtual void awaitLoad() = 0;
  /// How long begin() waited so far, in all: no limit of trials counts it.
  virtual Clock::duration waited() const = 0;
};

/// What a piece takes at most, as far as launches can be told apart.
inline constexpr std::chrono::milliseconds kMostOfPiece{2};

/// One piece, from its construction on. Without a pace it may always run.
class TrialPiece {
public:
  explicit TrialPiece(TrialPace *pace)
      : pace(pace), isGranted(!pace || pace->begin()),
        start(TrialPace::Clock::now()) {}
  ~TrialPiece() {
    if (pace && isGranted)
      pace->end(TrialPace::Clock::now() - start);
  }
  TrialPiece(const TrialPiece &) = delete;
  TrialPiece &operator=(const TrialPiece &) = delete;

  bool mayRun() const { return isGranted; }
  /// Why it may not.
  static llvm::Error refused() {
    return makeError(ErrorCode::Cancelled, "trials are to end");
  }

private:
  TrialPace *pace;
  const bool isGranted;
  const TrialPace::Clock::time_point start;
};

/// The time that limits of trials are held against.
inline TrialPace::Clock::time_point trialTime(const TrialPace *pace) {
  const TrialPace::Clock::time_point now = TrialPace::Clock::now();
  return pace ? now - pace->waited() : now;
}

} // namespace kiln
