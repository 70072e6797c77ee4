//===- StepEngine.h - an engine that is driven step by step ---------------===//
#ifndef KILN_EXAMPLES_LLAMA_STEPENGINE_H
#define KILN_EXAMPLES_LLAMA_STEPENGINE_H

#include "RequestRules.h"

#include <cstdint>
#include <string>
#include <vector>

namespace llama {

/// Rises in the order of submission.
using SequenceId = int64_t;

/// A token that has arrived.
struct NewToken {
  SequenceId id = 0;
  int32_t token = 0;
  bool isLast = false; ///< of its sequence: all are there, or it ends one
};

/// The state of an engine, and its counts since the start.
struct EngineGauges {
  int64_t running = 0, waiting = 0;   ///< sequences
  int64_t pages = 0, pagesInUse = 0;  ///< of the cache
  int64_t steps = 0, preemptions = 0; ///< counts
  int64_t computedTokens = 0, sharedTokens = 0;
};

/// Not thread-safe, except metricsText(). Tests of what is above it have their
/// own.
class StepEngine {
public:
  virtual ~StepEngine() = default;

  /// Throws RefusedRequest if the request could never run.
  virtual SequenceId submit(Request request) = 0;
  /// The client has left: no token of \p id arrives any more.
  virtual void cancel(SequenceId id) = 0;
  /// Waits until the next step has to be planned, so that as many requests as
  /// can be are part of it. Errors of the step in flight are left to step().
  virtual void awaitTurn() noexcept {}
  /// Enqueues the next step, and returns the tokens of the one before it.
  /// Throws DeviceLost, and other exceptions for a step that may be tried
  /// again.
  virtual std::vector<NewToken> step() = 0;
  virtual bool idle() const = 0;

  virtual EngineGauges gauges() const = 0;
  /// The engine's own metrics: a text of OpenMetrics 1.0, or nothing. Any
  /// thread may ask.
  virtual std::string metricsText() const = 0;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_STEPENGINE_H
