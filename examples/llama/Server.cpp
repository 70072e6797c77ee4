//===- Server.cpp ---------------------------------------------------------===//
#include "Server.h"

#include "Error.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace llama {

/// The host plans and enqueues a step in this time, also where it is late.
static constexpr std::chrono::microseconds kLead(600);

static SchedulerLimits limitsOf(const RunnerOptions &options, int64_t vocabSize,
                                bool sharePrefixes) {
  SchedulerLimits limits;
  limits.tokenBudget = options.tokenBudget;
  limits.maxSequences = options.maxSequences;
  limits.maxPositions = options.maxPositions;
  limits.vocabSize = vocabSize;
  limits.sharePrefixes = sharePrefixes;
  return limits;
}

static uint64_t resultBytes(const Runner &runner) {
  return static_cast<uint64_t>(runner.options().maxSequences) * sizeof(int32_t);
}

Server::Server(const Gpu &gpu, Runner &runner, bool sharePrefixes,
               bool ignoresEnds)
    : gpu(gpu), runner(runner),
      scheduler(
          limitsOf(runner.options(), runner.model().vocabSize, sharePrefixes),
          runner.pages(), runner.options().pageTokens),
      ignoresEnds(ignoresEnds), results(gpu, kSlots * resultBytes(runner)) {
  for (auto *events : {&begun, &done})
    for (auto &event : *events)
      event = std::make_unique<Event>(gpu);
}

bool Server::isEnd(int32_t token) const {
  const std::vector<int32_t> &ends = runner.model().eosTokens;
  return !ignoresEnds &&
         std::find(ends.begin(), ends.end(), token) != ends.end();
}

void Server::cancel(SequenceId id) {
  // The scheduler has forgotten a sequence that is complete with the step in
  // flight.
  if (scheduler.finish(id) || (inFlight && inFlight->complete.count(id) != 0))
    ended.insert(id);
  const auto isOfIt = [id](const NewToken &token) { return token.id == id; };
  arrived.erase(std::remove_if(arrived.begin(), arrived.end(), isOfIt),
                arrived.end());
}

/// Behind a step with prefills other sequences go on, for which the host needs
/// its tokens. Decoding steps of a number of sequences take about as long as
/// the last one did.
void Server::awaitTurn() noexcept {
  if (!inFlight || !arrived.empty() || !loss.empty())
    return;
  try {
    if (!inFlight->work.isDecode)
      return done[static_cast<size_t>(inFlight->slot)]->wait();
    const auto found = decodeTimes.find(inFlight->step.decodes.size());
    if (found != decodeTimes.end())
      std::this_thread::sleep_until(inFlight->began + found->second - kLead);
  } catch (...) {
    // step() waits for the same, and throws it.
  }
}

/// Waits for the tokens of the step that is in flight. \p next is planned
/// behind it, or empty.
void Server::collect(const Step &next) {
  const std::unique_ptr<InFlight> step = std::move(inFlight);
  const auto slot = static_cast<size_t>(step->slot);
  done[slot]->wait();
  runner.requireRanks();
  const int32_t *tokens = results.at<int32_t>(
      static_cast<uint64_t>(step->slot) * resultBytes(runner));
  scheduler.deliver(step->samplers,
                    {tokens, static_cast<int64_t>(step->samplers.size())});
  for (size_t i = 0; i < step->samplers.size(); ++i) {
    const SequenceId id = step->samplers[i];
    if (ended.count(id) != 0)
      continue;
    NewToken token{id, tokens[i], step->complete.count(id) != 0};
    if (!token.isLast && isEnd(token.token)) {
      token.isLast = true;
      scheduler.finish(id);
      ended.insert(id);
    }
    arrived.push_back(token);
  }
  std::set<SequenceId> stillPlanned;
  for (const SequenceId id : next.samplers())
    if (ended.count(id) != 0)
      stillPlanned.insert(id);
  ended = std::move(stillPlanned);
  const double ms = Event::millisecondsBetween(*begun[slot], *done[slot]);
  if (step->work.isDecode)
    decodeTimes[step->step.decodes.size()] = Milliseconds(ms);
  // Last: the listener may cancel, also what has arrived.
  if (listener.ended)
    listener.ended(step->work, ms);
}

EngineGauges Server::gauges() const {
  const PagePool &pool = scheduler.pool();
  const SchedulerStatistics &counts = scheduler.statistics();
  EngineGauges gauges;
  gauges.running = scheduler.runningCount();
  gauges.waiting = scheduler.waitingCount();
  gauges.pages = pool.capacity();
  gauges.pagesInUse = pool.capacity() - pool.available();
  gauges.steps = counts.steps;
  gauges.preemptions = counts.preemptions;
  gauges.computedTokens = counts.computedTokens;
  gauges.sharedTokens = counts.sharedTokens;
  return gauges;
}

std::string Server::metricsText() const {
  return runner.engine().openMetrics().orThrow();
}

std::vector<NewToken> Server::step() {
  if (!loss.empty())
    throw DeviceLost(loss);
  try {
    // Tokens that arrived beside an error do not wait for a step that may fail
    // again.
    if (arrived.empty())
      advance();
  } catch (const DeviceLost &error) {
    loss = error.what();
    throw;
  }
  return std::exchange(arrived, {});
}

void Server::advance() {
  Step step = scheduler.plan();
  try {
    if (inFlight && (step.empty() || !runner.continues(step, inFlight->step)))
      collect(step);
    if (!step.empty())
      start(step);
  } catch (const DeviceLost &) {
    throw; // No token in flight can be had.
  } catch (...) {
    scheduler.abandon(step);
    if (inFlight)
      collect(Step());
    throw;
  }
}

/// Enqueues \p step behind the one in flight, whose tokens it then collects.
void Server::start(const Step &step) {
  auto next = std::make_unique<InFlight>();
  next->slot = nextSlot;
  nextSlot = (nextSlot + 1) % kSlots;
  next->work = workOf(runner.part(), runner.costs(), step);
  if (listener.began)
    listener.began(step);
  begun[static_cast<size_t>(next->slot)]->record();
  const int32_t *tokens = runner.run(step);
  copyToHost(gpu,
             results.at<int32_t>(static_cast<uint64_t>(next->slot) *
                                 resultBytes(runner)),
             reinterpret_cast<DeviceAddress>(tokens),
             static_cast<uint64_t>(step.sampled) * sizeof(int32_t));
  done[static_cast<size_t>(next->slot)]->record();
  if (inFlight)
    collect(step);
  next->samplers = step.samplers();
  next->step = step;
  for (SequenceId id : scheduler.commit(step))
    next->complete.insert(id);
  next->began = Clock::now();
  inFlight = std::move(next);
}

} // namespace llama
