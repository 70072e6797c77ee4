//===- EngineLoop.h - the thread between clients and an engine ------------===//
//
// One thread runs the engine's steps. Other threads hand it requests with their
// streams, up to a limit. A request goes
//
//   offered -> open -> ended, with one Outcome
//
// and every request that is taken ends, also when the device is lost. Between
// two steps the loop submits what was handed over, and cancels requests whose
// clients have left.
//
// The loop, not the engine, knows the tokens that end a completion: each
// request has its own.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_ENGINELOOP_H
#define KILN_EXAMPLES_LLAMA_ENGINELOOP_H

#include "CompletionRequest.h"
#include "CompletionStream.h"
#include "ServeMetrics.h"
#include "StepEngine.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace llama {

enum class EngineState { Loading, Ready, Draining, Lost };

/// The limits of a model and its engine.
struct ServedModel {
  RequestRoom room;
  int64_t maxSequences = 1;       ///< that run at once
  std::vector<int32_t> endTokens; ///< of the model
};

/// All functions but run() may be called by any thread.
class EngineLoop {
public:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  /// Takes \p maxQueue requests beyond those that can run at once.
  EngineLoop(ServeMetrics &metrics, int64_t maxQueue)
      : metrics(metrics), maxQueue(maxQueue) {}

  /// Serves until stop(), with \p engine, whose sequences end at their last
  /// token alone. Calls \p ready once requests are taken. Throws DeviceLost,
  /// after all requests were told.
  void run(StepEngine &engine, ServedModel model,
           const std::function<void()> &ready = nullptr);

  /// No more requests are taken. Open ones have \p drain to end; then they are
  /// cancelled, and run() returns. A later call may shorten that.
  void stop(Seconds drain);

  enum class Admission { Taken, Full, Unavailable };
  /// Hands \p request over. Its tokens and its ending come by \p stream if it
  /// is taken; else the outcome is counted here.
  Admission offer(CompletionRequest request,
                  std::shared_ptr<CompletionStream> stream);

  EngineState state() const;
  /// Meaningful while the state is Ready.
  ServedModel served() const;
  ServeGauges gauges() const;
  /// Kiln's metrics; empty while there is no engine.
  std::string engineMetrics() const;

private:
  struct Open {
    CompletionRequest request;
    std::shared_ptr<CompletionStream> stream;
    Clock::time_point arrival;
    Clock::time_point lastToken = {}; ///< of none: the epoch
  };

  void serve();
  bool await();
  void close(EngineState after);
  void admit();
  void submit(Open open);
  void cancelWhereLeft();
  void advance();
  void deliver(const NewToken &token);
  void endSequence(SequenceId id, Ending how, bool isInEngine);
  void endAll(const Ending &how, bool isInEngine);
  void finish(Open &open, Ending how);

  ServeMetrics &metrics;
  const int64_t maxQueue;

  // For the thread in run() alone.
  StepEngine *driven = nullptr;
  std::map<SequenceId, Open> sequences;
  int failures = 0; ///< steps in a row that failed

  mutable std::mutex mutex; ///< guards all below
  std::condition_variable changed;
  EngineState now = EngineState::Loading;
  ServedModel model;
  std::vector<Open> handedOver;
  int64_t openCount = 0; ///< requests that are open
  EngineGauges lastGauges;
  Clock::time_point deadline = Clock::time_point::max(); ///< of draining

  /// Guards what follows, and is held while the engine is asked: the step loop
  /// waits for it at its end alone.
  mutable std::mutex asking;
  StepEngine *engine = nullptr; ///< driven, while it may be asked for metrics
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_ENGINELOOP_H
