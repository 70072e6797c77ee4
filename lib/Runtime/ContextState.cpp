//===- ContextState.cpp - what an engine knows of one context -------------===//
#include "Runtime/ContextState.h"

#include "Support/Error.h"
#include "Support/Waiting.h"

#include <algorithm>

namespace kiln {

ContextState::ContextState(uint64_t id, CudaContext handle, DeviceModel model)
    : id(id), handle(handle), model(std::move(model)),
      deviceClass(deviceClassKey(this->model)) {}

ActivePlanPtr
ContextState::activate(const std::shared_ptr<const LoadedPlan> &loaded,
                       kiln_source source, bool isFallback) {
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<ActivePlanPtr> &list = active[loaded.get()];
  for (const ActivePlanPtr &known : list)
    if (known->source == source && known->isFallback == isFallback)
      return known;
  list.push_back(
      std::make_shared<ActivePlan>(ActivePlan{loaded, source, isFallback}));
  return list.back();
}

static bool isFor(const RangePlan &range, const KernelFamily &family,
                  const ExtentBox &box) {
  return range.family == &family && range.box.low == box.low &&
         range.box.high == box.high && range.box.smallest == box.smallest &&
         range.box.largest.record == box.largest.record;
}

ChosenPlan ContextState::addRangePlan(RangePlan added, bool isLatest) {
  std::lock_guard<std::mutex> lock(mutex);
  ChosenPlan chosen = added.chosen;
  auto same = std::find_if(rangePlans.begin(), rangePlans.end(),
                           [&](const RangePlan &old) {
                             return isFor(old, *added.family, added.box);
                           });
  if (same == rangePlans.end()) {
    rangePlans.push_back(std::move(added));
    return chosen;
  }
  const bool isWorse =
      chosen.plan->isFallback && !same->chosen.plan->isFallback;
  if (isWorse && !isLatest)
    return same->chosen;
  *same = std::move(added);
  return chosen;
}

ChosenPlan ContextState::findRangePlan(const KernelFamily &family,
                                       const Problem &problem) const {
  std::lock_guard<std::mutex> lock(mutex);
  for (const RangePlan &range : rangePlans)
    if (range.family == &family &&
        range.box.covers(family, range.ranges, problem.record.values()))
      return range.chosen;
  return {};
}

ChosenPlan ContextState::findRangePlan(const KernelFamily &family,
                                       const ExtentBox &box) const {
  std::lock_guard<std::mutex> lock(mutex);
  for (const RangePlan &range : rangePlans)
    if (isFor(range, family, box) &&
        range.box.common.record == box.common.record)
      return range.chosen;
  return {};
}

void ContextState::collectLateTrials() {
  if (!hasLateTrials.load(std::memory_order_relaxed))
    return;
  TuningTurn turn(*this, TuningTurn::Clock::now(), nullptr);
  if (turn.isGranted())
    hasLateTrials = trials && trials->isBusy();
}

/// Turns that this thread has.
static thread_local unsigned turnsHeld = 0;

ContextState::TuningTurn::TuningTurn(ContextState &state,
                                     Clock::time_point deadline,
                                     const std::atomic<bool> *cancel)
    : state(state) {
  std::unique_lock<std::mutex> lock(state.mutex);
  waited = state.isTuning && turnsHeld == 0;
  if (waited)
    waitUntil(state.turnEnded, lock, deadline, cancel,
              [&] { return !state.isTuning; });
  if (state.isTuning)
    return;
  state.isTuning = true;
  ++turnsHeld;
  granted = true;
}

ContextState::TuningTurn::~TuningTurn() {
  if (!granted)
    return;
  --turnsHeld;
  {
    std::lock_guard<std::mutex> lock(state.mutex);
    state.isTuning = false;
  }
  state.turnEnded.notify_one();
}

} // namespace kiln
