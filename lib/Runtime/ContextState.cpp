//===- ContextState.cpp - what an engine knows of one context -------------===//
#include "Runtime/ContextState.h"

#include "Support/Error.h"
#include "Support/Waiting.h"

#include <llvm/ADT/STLExtras.h>

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

/// Whether there is room for \p room, and not for \p layout.
static bool needsMore(const WorkspaceLayout &layout,
                      const WorkspaceLayout &room) {
  return layout.zeroedBytes > room.zeroedBytes ||
         layout.scratchBytes > room.scratchBytes;
}

std::shared_ptr<const PreparedRange>
ContextState::addRange(std::shared_ptr<const PreparedRange> added,
                       Standing standing) {
  auto known = ranges.find(added->range());
  if (known && standing != Standing::Latest && added->isFallback() &&
      !known->isFallback() && !known->isWrong())
    return known;
  for (auto &old : ranges.findAlike(added->range()))
    if (needsMore(added->workspace(), old->workspace()))
      keepOutgrown(std::move(old));
  if (standing == Standing::Background && added->isFallback())
    ranges.addBehind(added, [](const PreparedRange &other) {
      return other.isFallback() || other.isWrong();
    });
  else
    ranges.add(added);
  ++version;
  return added;
}

void ContextState::dropRange(const ProblemRange &range) {
  ranges.drop(range);
  ++version;
  std::lock_guard<std::mutex> lock(mutex);
  std::erase_if(outgrown, [&](const auto &old) {
    return old->range().fixedText() == range.fixedText();
  });
}

void ContextState::keepOutgrown(std::shared_ptr<const PreparedRange> range) {
  constexpr size_t kMost = 256;
  std::lock_guard<std::mutex> lock(mutex);
  std::erase(outgrown, range);
  if (outgrown.size() == kMost)
    outgrown.erase(outgrown.begin());
  outgrown.push_back(std::move(range));
}

ChosenPlan ContextState::chooseFromOutgrown(
    const KernelFamily &family, const Problem &problem,
    llvm::function_ref<bool(const ActivePlan &)> isMeant) const {
  std::vector<std::shared_ptr<const PreparedRange>> all;
  {
    std::lock_guard<std::mutex> lock(mutex);
    all = outgrown;
  }
  for (const auto &old : llvm::reverse(all)) {
    if (old->range().family != &family ||
        old->range().signature != problem.signature ||
        !serves(old->range(), problem.record))
      continue;
    ChosenPlan chosen = old->choose(problem);
    if (chosen && isMeant(*chosen.plan))
      return chosen;
  }
  return {};
}

ChosenPlan ContextState::chooseFromRanges(const KernelFamily &family,
                                          const Problem &problem,
                                          bool evenProvisional) const {
  // All that a range has may be wrong, and not what an older one has.
  ChosenPlan chosen;
  ranges.findFirst(family, problem, [&](const PreparedRange &range) {
    if (!range.isProvisional || evenProvisional)
      chosen = range.choose(problem);
    return bool(chosen);
  });
  return chosen;
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
