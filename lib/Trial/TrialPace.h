//===- TrialPace.h - trials that share the device -------------------------===//
//
// Trials of a process that also serves must not take the device from it. So
// their work is cut into pieces, each of which is enqueued and waited for as a
// whole. The pace is asked before each piece, when no work of trials is in
// flight, and is told the time that it took.
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
  /// Waits until a piece may begin. False if trials have to end now.
  virtual bool begin() = 0;
  /// Notes that the piece took \p time, from before its first work was enqueued
  /// until all of it was done. This is an upper bound of its device time.
  virtual void end(Clock::duration time) = 0;
  /// Waits until code may be loaded, which the driver lets wait for all work of
  /// the device, and launches of other threads with it.
  virtual void awaitLoad() = 0;
  /// The total time that begin() waited so far, which no limit of trials
  /// counts.
  virtual Clock::duration waited() const = 0;
};

/// The longest time of a piece, unless a single launch takes longer.
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
  /// The error if it may not run.
  static llvm::Error refused() {
    return makeError(ErrorCode::Cancelled, "trials are to end");
  }

private:
  TrialPace *pace;
  const bool isGranted;
  const TrialPace::Clock::time_point start;
};

/// The current time for limits of trials, without waits of the pace.
inline TrialPace::Clock::time_point trialTime(const TrialPace *pace) {
  const TrialPace::Clock::time_point now = TrialPace::Clock::now();
  return pace ? now - pace->waited() : now;
}

} // namespace kiln
