//===- Server.h - continuous batching -------------------------------------===//
//
// The loop of a serving engine: the scheduler says which tokens run, the runner
// runs them, tokens come back. Shortly before a step ends, the host plans the
// next one and, where the same sequences go on, enqueues it: the GPU does not
// wait for the host, and a request that comes while a step runs is part of the
// next. A sequence that samples an end token is noticed one step late, and the
// token of that step is dropped.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_SERVER_H
#define KILN_EXAMPLES_LLAMA_SERVER_H

#include "Gpu.h"
#include "Roofline.h"
#include "Runner.h"
#include "Scheduler.h"
#include "StepEngine.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace llama {

/// Looks on while a server works; either may be empty. Both may submit and
/// cancel.
struct StepListener {
  /// A step is enqueued. Its views are valid during the call.
  std::function<void(const Step &step)> began;
  /// The tokens of a step have arrived, for which the device took \p ms.
  std::function<void(const StepWork &work, double ms)> ended;
};

/// Not thread-safe, except metricsText().
class Server : public StepEngine {
public:
  /// \p ignoresEnds: end tokens of the model end no sequence (benchmarks).
  Server(const Gpu &gpu, Runner &runner, bool sharePrefixes, bool ignoresEnds);

  SequenceId submit(Request request) override {
    return scheduler.submit(std::move(request));
  }
  void cancel(SequenceId id) override;
  void awaitTurn() noexcept override;

  /// Enqueues the next step, and returns the tokens of the one before it once
  /// they are there. Throws what the runner throws. Where that was DeviceLost,
  /// every later call throws it. Otherwise the step is as if it had never been
  /// planned: the next call returns the tokens that had arrived, and those
  /// after it try again.
  std::vector<NewToken> step() override;

  void listen(StepListener to) { listener = std::move(to); }

  bool idle() const override {
    return scheduler.idle() && !inFlight && arrived.empty();
  }
  EngineGauges gauges() const override;
  std::string metricsText() const override;
  const Scheduler &schedule() const { return scheduler; }

private:
  using Clock = std::chrono::steady_clock;
  using Milliseconds = std::chrono::duration<double, std::milli>;

  /// A step that was enqueued, and whose tokens have not arrived.
  struct InFlight {
    std::vector<SequenceId> samplers;
    std::set<SequenceId> complete; ///< have all of their tokens with this step
    Step step;                     ///< its views are not valid any more
    StepWork work;
    int slot = 0;
    Clock::time_point began; ///< on the device, about
  };

  void advance();
  void start(const Step &step);
  void collect(const Step &next);
  bool isEnd(int32_t token) const;

  const Gpu &gpu;
  Runner &runner;
  Scheduler scheduler;
  bool ignoresEnds;
  std::unique_ptr<InFlight> inFlight;
  std::vector<NewToken> arrived; ///< and not returned yet
  /// Sequences that ended while a step with them was planned or in flight:
  /// their tokens of it are dropped.
  std::set<SequenceId> ended;
  static constexpr int kSlots = 2;
  PinnedMemory results; ///< [slots][sequences]
  std::array<std::unique_ptr<Event>, kSlots> begun, done;
  StepListener listener;
  int nextSlot = 0;
  /// The time of the last decoding step of so many sequences.
  std::map<size_t, Milliseconds> decodeTimes;
  std::string loss; ///< the error that killed the device; empty: none
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_SERVER_H
