//===- CallScope.cpp - one call of the caller's, by phases ----------------===//
#include "Observe/CallScope.h"

#include "Observe/Trace.h"

#include <algorithm>
#include <chrono>

namespace kiln::observe {

void CallFrame::count() noexcept {
  const uint64_t now = monotonicNs();
  phaseNs[static_cast<size_t>(phase)] += now - sinceNs;
  sinceNs = now;
}

Phase CallFrame::enter(Phase next) noexcept {
  count();
  return std::exchange(phase, next);
}

void CallFrame::leave(Phase before, const char *reason) noexcept {
  count();
  if (reason)
    reasons[static_cast<size_t>(phase)] = reason;
  phase = before;
}

CallScope::CallScope(const char *function, WaitLedger *ledger,
                     std::string problem, Shown shown) noexcept
    : function(function), ledger(ledger), problem(std::move(problem)) {
  const uint32_t watched = shown == Shown::Yes ? watching() : 0;
  seeWatched();
  isRange = watched & kNvtx;
  isTraced = watched & kTrace;
  if (isRange)
    nvtxPush(Phase::Call, function);
  frame.startNs = frame.sinceNs = monotonicNs();
  frame.outer = std::exchange(CallFrame::top, &frame);
}

CallScope::~CallScope() {
  frame.count();
  CallFrame::top = frame.outer;
  if (isRange)
    nvtxPop();
  if (isTraced) {
    TracedInterval interval;
    interval.name = function;
    interval.what = problem;
    interval.startNs = frame.startNs;
    interval.endNs = frame.sinceNs;
    traceInterval(interval);
  }
  if (ledger && frame.sinceNs - frame.startNs > WaitLedger::kThresholdNs)
    enterLedger(frame.sinceNs);
}

void CallScope::enterLedger(uint64_t endNs) try {
  using namespace std::chrono;
  WaitEntry entry;
  entry.call = function;
  entry.problem = std::move(problem);
  entry.elapsedNs = endNs - frame.startNs;
  entry.startUnixNs =
      static_cast<uint64_t>(
          duration_cast<nanoseconds>(system_clock::now().time_since_epoch())
              .count()) -
      entry.elapsedNs;
  entry.phaseNs = frame.phaseNs;
  const auto most =
      std::max_element(frame.phaseNs.begin(), frame.phaseNs.end());
  const auto phase = static_cast<size_t>(most - frame.phaseNs.begin());
  entry.phase = static_cast<Phase>(phase);
  if (frame.reasons[phase])
    entry.reason = frame.reasons[phase];
  entry.thread = threadId();
  ledger->add(std::move(entry));
} catch (...) { // no memory: the entry is lost
}

bool CallScope::hasWaited() const noexcept {
  return monotonicNs() - frame.startNs > WaitLedger::kThresholdNs / 2;
}

CallScope::Subject::~Subject() {
  try {
    if (call.isTraced || (call.ledger && call.hasWaited()))
      call.problem = text();
  } catch (...) { // no memory: an entry without a problem
  }
}

} // namespace kiln::observe
