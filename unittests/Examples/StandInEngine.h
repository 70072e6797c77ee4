// An engine without a GPU: the scheduler is real, and the new tokens of a
// sequence are its first token + 1, + 2 and so on.
#ifndef KILN_UNITTESTS_EXAMPLES_STANDINENGINE_H
#define KILN_UNITTESTS_EXAMPLES_STANDINENGINE_H

#include "llama/EngineLoop.h"
#include "llama/Scheduler.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <thread>

namespace kiln::testing {

class StandInEngine : public llama::StepEngine {
public:
  static constexpr int64_t kVocabulary = 100000;

  explicit StandInEngine(int64_t maxSequences = 4, int64_t pages = 4096)
      : scheduler(limitsOf(maxSequences), pages, 16) {}

  llama::SequenceId submit(llama::Request request) override {
    if (onSubmit)
      onSubmit();
    const int32_t first = request.prompt.front();
    const llama::SequenceId id = scheduler.submit(std::move(request));
    last[id] = first;
    return id;
  }
  void cancel(llama::SequenceId id) override { scheduler.finish(id); }
  void awaitTurn() noexcept override {
    if (onTurn)
      onTurn();
  }

  std::vector<llama::NewToken> step() override {
    if (isLost)
      throw llama::DeviceLost("the stand-in is lost");
    if (onStep)
      onStep();
    std::this_thread::sleep_for(std::chrono::microseconds(stepTime.load()));
    const llama::Step step = scheduler.plan();
    std::vector<int32_t> tokens;
    for (const llama::SequenceId id : step.samplers())
      tokens.push_back(++last[id]);
    const auto complete = scheduler.commit(step, tokens);
    std::vector<llama::NewToken> result;
    for (const llama::SequenceId id : step.samplers())
      result.push_back(
          {id, last[id],
           std::find(complete.begin(), complete.end(), id) != complete.end()});
    return result;
  }
  bool idle() const override { return scheduler.idle(); }

  llama::EngineGauges gauges() const override {
    llama::EngineGauges gauges;
    gauges.running = scheduler.runningCount();
    gauges.waiting = scheduler.waitingCount();
    gauges.pages = scheduler.pool().capacity();
    gauges.pagesInUse = gauges.pages - scheduler.pool().available();
    gauges.preemptions = scheduler.statistics().preemptions;
    return gauges;
  }
  std::string metricsText() const override {
    if (onMetrics)
      onMetrics();
    return "";
  }

  llama::ServedModel model() const {
    return {scheduler.room(), maxSequences(), {kEnd}};
  }
  int64_t maxSequences() const { return most; }

  static constexpr int32_t kEnd = 50;
  std::atomic<int> stepTime{0}; ///< in microseconds
  std::atomic<bool> isLost{false};
  /// May throw; set before the loop runs.
  std::function<void()> onStep, onSubmit;
  std::function<void()> onTurn;    ///< set before the loop runs
  std::function<void()> onMetrics; ///< may throw

private:
  llama::SchedulerLimits limitsOf(int64_t maxSequences) {
    most = maxSequences;
    llama::SchedulerLimits limits;
    limits.maxSequences = maxSequences;
    limits.tokenBudget = 64;
    limits.maxPositions = 100000;
    limits.vocabSize = kVocabulary;
    return limits;
  }

  int64_t most = 0;
  llama::Scheduler scheduler;
  std::map<llama::SequenceId, int32_t> last;
};

/// A loop with its engine, run by a thread until the end of the test.
class RunningLoop {
public:
  RunningLoop(StandInEngine &engine, int64_t maxQueue)
      : loop(metrics, maxQueue), thread([this, &engine] {
          try {
            loop.run(engine, engine.model());
          } catch (const llama::DeviceLost &) {
            isLost = true;
          }
        }) {
    while (loop.state() == llama::EngineState::Loading)
      std::this_thread::yield();
  }
  ~RunningLoop() { join(0); }

  void join(double drainSeconds) {
    loop.stop(llama::EngineLoop::Seconds(drainSeconds));
    if (thread.joinable())
      thread.join();
  }

  llama::ServeMetrics metrics;
  llama::EngineLoop loop;
  std::atomic<bool> isLost{false};

private:
  std::thread thread;
};

/// Whether \p condition comes true within some seconds.
template <class Condition> bool comesTrue(const Condition &condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition())
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

} // namespace kiln::testing

#endif // KILN_UNITTESTS_EXAMPLES_STANDINENGINE_H
