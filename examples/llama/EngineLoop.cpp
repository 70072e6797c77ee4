//===- EngineLoop.cpp -----------------------------------------------------===//
#include "EngineLoop.h"

#include "Error.h"

#include <algorithm>
#include <utility>

namespace llama {

/// Steps in a row that may fail before the requests are given up.
static constexpr int kMostFailures = 3;

//===----------------------------------------------------------------------===//
// For any thread
//===----------------------------------------------------------------------===//

EngineLoop::Admission
EngineLoop::offer(CompletionRequest request,
                  std::shared_ptr<CompletionStream> stream) {
  Admission admission = Admission::Taken;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (now != EngineState::Ready)
      admission = Admission::Unavailable;
    else if (openCount >= model.maxSequences + maxQueue)
      admission = Admission::Full;
    else {
      ++openCount;
      handedOver.push_back(
          {std::move(request), std::move(stream), Clock::now()});
    }
  }
  if (admission == Admission::Taken)
    changed.notify_one();
  else
    metrics.ended(admission == Admission::Full ? Outcome::Full
                                               : Outcome::Unavailable);
  return admission;
}

void EngineLoop::stop(Seconds drain) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (now == EngineState::Lost)
      return;
    now = EngineState::Draining;
    deadline = std::min(deadline,
                        Clock::now() +
                            std::chrono::duration_cast<Clock::duration>(drain));
  }
  changed.notify_one();
}

EngineState EngineLoop::state() const {
  const std::lock_guard<std::mutex> lock(mutex);
  return now;
}

ServedModel EngineLoop::served() const {
  const std::lock_guard<std::mutex> lock(mutex);
  return model;
}

ServeGauges EngineLoop::gauges() const {
  const std::lock_guard<std::mutex> lock(mutex);
  ServeGauges gauges;
  gauges.engine = lastGauges;
  gauges.open = openCount;
  return gauges;
}

std::string EngineLoop::engineMetrics() const {
  // Under the lock, so that the engine stays.
  const std::lock_guard<std::mutex> lock(asking);
  return engine ? engine->metricsText() : "";
}

//===----------------------------------------------------------------------===//
// For the thread in run()
//===----------------------------------------------------------------------===//

void EngineLoop::run(StepEngine &given, ServedModel served,
                     const std::function<void()> &ready) {
  driven = &given;
  {
    const std::lock_guard<std::mutex> lock(asking);
    engine = &given;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex);
    model = std::move(served);
    lastGauges = given.gauges();
    if (now == EngineState::Loading)
      now = EngineState::Ready;
  }
  if (ready)
    ready();
  try {
    serve();
    endAll({Outcome::Cancelled, ""}, true);
    // A step in flight writes to memory that ends with the engine.
    while (!driven->idle())
      advance();
  } catch (const DeviceLost &error) {
    close(EngineState::Lost);
    endAll({Outcome::Lost, error.what()}, false);
    throw;
  } catch (...) {
    close(EngineState::Lost);
    endAll({Outcome::Failed, "the server ends"}, false);
    throw;
  }
  close(EngineState::Draining);
}

/// No sequence uses the engine from here on. Counts keep their values.
void EngineLoop::close(EngineState after) {
  {
    const std::lock_guard<std::mutex> lock(asking);
    engine = nullptr;
  }
  const std::lock_guard<std::mutex> lock(mutex);
  lastGauges.running = lastGauges.waiting = lastGauges.pagesInUse = 0;
  now = after;
}

void EngineLoop::serve() {
  while (await()) {
    driven->awaitTurn();
    admit();
    cancelWhereLeft();
    if (!driven->idle())
      advance();
    const EngineGauges gauges = driven->gauges();
    const std::lock_guard<std::mutex> lock(mutex);
    lastGauges = gauges;
  }
}

/// Waits for something to do. False: the loop has to end.
bool EngineLoop::await() {
  std::unique_lock<std::mutex> lock(mutex);
  const bool isIdle = driven->idle();
  changed.wait(lock, [&] {
    return !isIdle || !handedOver.empty() || now != EngineState::Ready;
  });
  return now == EngineState::Ready ||
         (openCount > 0 && Clock::now() < deadline);
}

void EngineLoop::admit() {
  std::vector<Open> news;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    news.swap(handedOver);
  }
  for (Open &open : news)
    submit(std::move(open));
}

/// Throws nothing: a request that cannot be submitted ends no other.
void EngineLoop::submit(Open open) {
  const auto promptTokens =
      static_cast<int64_t>(open.request.request.prompt.size());
  try {
    const SequenceId id = driven->submit(std::move(open.request.request));
    metrics.gotPrompt(promptTokens);
    sequences.emplace(id, std::move(open));
  } catch (const RefusedRequest &error) {
    finish(open, {Outcome::Refused, error.what()});
  } catch (const std::exception &error) {
    finish(open, {Outcome::Failed, error.what()});
  }
}

void EngineLoop::cancelWhereLeft() {
  std::vector<std::pair<SequenceId, Outcome>> gone;
  for (const auto &[id, open] : sequences)
    if (const auto reason = open.stream->left())
      gone.emplace_back(id, *reason);
  for (const auto &[id, reason] : gone)
    endSequence(id, {reason, ""}, true);
}

void EngineLoop::advance() {
  try {
    for (const NewToken &token : driven->step())
      deliver(token);
    failures = 0;
  } catch (const DeviceLost &) {
    throw;
  } catch (const std::exception &error) {
    metrics.stepFailed();
    // The engine plans a failed step again.
    if (++failures < kMostFailures)
      return;
    failures = 0;
    endAll({Outcome::Failed, error.what()}, true);
  }
}

void EngineLoop::deliver(const NewToken &token) {
  const auto found = sequences.find(token.id);
  if (found == sequences.end())
    return;
  Open &open = found->second;
  const auto time = Clock::now();
  const auto secondsSince = [time](Clock::time_point start) {
    return Seconds(time - start).count();
  };
  if (open.lastToken == Clock::time_point())
    metrics.gotFirstToken(secondsSince(open.arrival));
  else
    metrics.gotNextToken(secondsSince(open.lastToken));
  open.lastToken = time;
  if (!open.stream->push(token.token))
    return endSequence(token.id, {Outcome::Slow, ""}, !token.isLast);
  const auto isIn = [&token](const auto &list) {
    return std::find(list.begin(), list.end(), token.token) != list.end();
  };
  if (isIn(open.request.stopTokens) ||
      (!open.request.ignoresEnds && isIn(model.endTokens)))
    endSequence(token.id, {Outcome::Stop, ""}, !token.isLast);
  else if (token.isLast)
    endSequence(token.id, {Outcome::Length, ""}, false);
}

void EngineLoop::endSequence(SequenceId id, Ending how, bool isInEngine) {
  const auto found = sequences.find(id);
  if (isInEngine)
    driven->cancel(id);
  finish(found->second, std::move(how));
  sequences.erase(found);
}

void EngineLoop::endAll(const Ending &how, bool isInEngine) {
  while (!sequences.empty())
    endSequence(sequences.begin()->first, how, isInEngine);
  std::vector<Open> news;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    news.swap(handedOver);
  }
  for (Open &open : news)
    finish(open, how);
}

void EngineLoop::finish(Open &open, Ending how) {
  metrics.ended(how.outcome);
  {
    const std::lock_guard<std::mutex> lock(mutex);
    --openCount;
  }
  open.stream->end(std::move(how));
}

} // namespace llama
