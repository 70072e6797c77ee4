//===- Server.cpp ---------------------------------------------------------===//
#include "Server.h"

#include "Error.h"

#include <algorithm>
#include <utility>

namespace llama {

static SchedulerLimits limitsOf(const RunnerOptions &options,
                                bool sharePrefixes) {
  SchedulerLimits limits;
  limits.tokenBudget = options.tokenBudget;
  limits.maxSequences = options.maxSequences;
  limits.maxPositions = options.maxPositions;
  limits.sharePrefixes = sharePrefixes;
  return limits;
}

static uint64_t resultBytes(const Runner &runner) {
  return static_cast<uint64_t>(runner.options().maxSequences) * sizeof(int32_t);
}

Server::Server(const Gpu &gpu, Runner &runner, bool sharePrefixes,
               bool ignoresEnds)
    : gpu(gpu), runner(runner),
      scheduler(limitsOf(runner.options(), sharePrefixes), runner.pages(),
                runner.options().pageTokens),
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
  if (scheduler.finish(id))
    ended.insert(id);
}

/// Waits for the tokens of the step that is in flight.
void Server::collect() {
  const std::unique_ptr<InFlight> step = std::move(inFlight);
  const auto slot = static_cast<size_t>(step->slot);
  done[slot]->wait();
  if (listener.ended)
    listener.ended(step->work,
                   Event::millisecondsBetween(*begun[slot], *done[slot]));
  const int32_t *tokens = results.at<int32_t>(
      static_cast<uint64_t>(step->slot) * resultBytes(runner));
  scheduler.deliver(step->samplers,
                    {tokens, static_cast<int64_t>(step->samplers.size())});
  std::set<SequenceId> endedNow;
  for (size_t i = 0; i < step->samplers.size(); ++i) {
    const SequenceId id = step->samplers[i];
    if (ended.count(id) != 0)
      continue;
    NewToken token{id, tokens[i], step->complete.count(id) != 0};
    if (!token.isLast && isEnd(token.token)) {
      token.isLast = true;
      scheduler.finish(id);
      endedNow.insert(id);
    }
    arrived.push_back(token);
  }
  // No further step is in flight with sequences that ended before.
  ended = std::move(endedNow);
}

std::vector<NewToken> Server::step() {
  if (!loss.empty())
    throw DeviceLost(loss);
  try {
    return advance();
  } catch (const DeviceLost &error) {
    loss = error.what();
    throw;
  }
}

std::vector<NewToken> Server::advance() {
  Step step = scheduler.plan();
  if (inFlight && (step.empty() || !runner.continues(step, inFlight->step)))
    collect();
  if (!step.empty()) {
    auto next = std::make_unique<InFlight>();
    next->slot = nextSlot;
    nextSlot = (nextSlot + 1) % kSlots;
    next->work = workOf(runner.model(), step);
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
      collect();
    next->samplers = step.samplers();
    for (SequenceId id : scheduler.commit(step))
      next->complete.insert(id);
    next->step = std::move(step);
    inFlight = std::move(next);
  }
  return std::exchange(arrived, {});
}

} // namespace llama
