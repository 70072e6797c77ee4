//===- Span.cpp - an interval of a thread's work --------------------------===//
#include "Observe/Span.h"

#include "Observe/CallScope.h"
#include "Observe/Trace.h"

#include <iterator>

namespace kiln::observe {

llvm::StringRef nameOf(Phase phase) {
  static constexpr llvm::StringLiteral kNames[] = {
      "call",    "canonicalise", "lookup", "plan",  "cache",
      "compile", "load",         "trial",  "wait",  "arena",
      "launch",  "background",   "step",   "layer", "range"};
  static_assert(std::size(kNames) == kPhaseCount);
  return kNames[static_cast<size_t>(phase)];
}

const SharedName::Made *
SharedName::get(llvm::function_ref<std::string()> text) noexcept try {
  if (const Made *known = made.load(std::memory_order_acquire))
    return known;
  auto fresh = std::make_unique<Made>();
  fresh->text = text();
  if (watching() & kNvtx) {
    seeWatched();
    fresh->name = nvtxRegister(fresh->text.c_str());
  }
  const Made *known = nullptr;
  if (made.compare_exchange_strong(known, fresh.get()))
    return fresh.release();
  return known;
} catch (const std::bad_alloc &) {
  return nullptr;
}

Span::Span(Phase phase, const void *what, const char *reason,
           Tell tell) noexcept
    : phase(phase), frame(CallFrame::current()), reason(reason) {
  const uint32_t watched = watching() & (kNvtx | kTrace);
  if (!frame && !watched)
    return;
  if (frame)
    outer = frame->enter(phase);
  if (!watched)
    return;
  seeWatched();
  try {
    if (tell)
      text = tell(what);
  } catch (...) { // no memory: a span without a text
  }
  isRange = watched & kNvtx;
  isTraced = watched & kTrace;
  if (isRange)
    nvtxPush(phase, text.empty() ? nameOf(phase).data() : text.c_str());
  if (isTraced)
    startNs = monotonicNs();
}

void Span::end() noexcept {
  if (frame)
    frame->leave(outer, reason);
  if (isRange)
    nvtxPop();
  if (!isTraced)
    return;
  TracedInterval interval;
  interval.phase = phase;
  interval.what = text;
  interval.reason = reason ? reason : "";
  interval.startNs = startNs;
  interval.endNs = monotonicNs();
  traceInterval(interval);
}

LaunchSpan::LaunchSpan(const SharedName::Made *name) noexcept : name(name) {
  const uint32_t watched = watching();
  seeWatched();
  isRange = watched & kNvtx;
  if (isRange && name && name->name)
    nvtxPush(Phase::Launch, name->name);
  else if (isRange)
    nvtxPush(Phase::Launch, name ? name->text.c_str() : "launch");
  if (watched & kTrace) [[unlikely]]
    startNs = monotonicNs();
}

void LaunchSpan::traceEnd() noexcept {
  TracedInterval interval;
  interval.phase = Phase::Launch;
  interval.what = name ? llvm::StringRef(name->text) : "";
  interval.startNs = startNs;
  interval.endNs = monotonicNs();
  traceInterval(interval);
}

} // namespace kiln::observe
