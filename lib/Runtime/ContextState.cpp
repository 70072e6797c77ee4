//===- ContextState.cpp - the state of one context in an engine -----------===//
#include "Runtime/ContextState.h"

#include "Observe/Span.h"
#include "Support/Error.h"
#include "Support/Waiting.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <tuple>

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

/// Whether \p a comes before \p b in an order that depends on nothing else:
/// the range of more values first.
static bool isLarger(const ProblemRange &a, const ProblemRange &b) {
  auto keyOf = [](const ProblemRange &range) {
    double values = 1;
    for (auto [low, high] : llvm::zip_equal(range.low, range.high))
      values *= double(high - low + 1);
    return std::tuple(-values, range.low, range.high);
  };
  return keyOf(a) < keyOf(b);
}

std::shared_ptr<const PreparedRange>
ContextState::addRange(std::shared_ptr<const PreparedRange> added,
                       Standing standing) {
  auto known = ranges.find(added->range());
  if (known && standing == Standing::ByMerit && added->merit() < known->merit())
    return known;
  // At some value it may need more workspace, although its maximum is no
  // larger.
  if (added->workspace().bytes() > 0)
    for (auto &old : ranges.findAlike(added->range()))
      keepOutgrown(std::move(old));
  if (standing == Standing::ByMerit && added->isFallback())
    ranges.addBehind(added, [&](const PreparedRange &other) {
      return other.merit() <= added->merit();
    });
  else if (standing == Standing::ByExtent)
    ranges.add(added, [&](const PreparedRange &other) {
      return isLarger(other.range(), added->range());
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
  outgrown.erase(range.fixedText());
}

void ContextState::keepOutgrown(std::shared_ptr<const PreparedRange> range) {
  constexpr size_t kMost = 8;
  std::lock_guard<std::mutex> lock(mutex);
  auto &list = outgrown[range->range().fixedText()];
  if (!list.empty() && list.front() == range)
    return;
  // Trials in pieces make the same portfolio several times.
  std::erase_if(list, [&, first = list.empty() ? nullptr : list.front()](
                          const auto &known) {
    return known == range || (known != first && known->isLike(*range));
  });
  if (list.size() == kMost)
    list.erase(list.begin() + 1); // the first one has the workspace that was
                                  // prepared
  list.push_back(std::move(range));
}

ChosenPlan ContextState::chooseFromOutgrown(const KernelFamily &family,
                                            const Problem &problem,
                                            PlanFilter isMeant) const {
  std::vector<std::shared_ptr<const PreparedRange>> all;
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (const auto &[layer, list] : outgrown)
      llvm::append_range(all, list);
  }
  for (const auto &old : llvm::reverse(all)) {
    if (old->range().family != &family ||
        old->range().signature != problem.signature ||
        !serves(old->range(), problem.values))
      continue;
    if (ChosenPlan chosen = old->choose(problem, isMeant))
      return chosen;
  }
  return {};
}

ChosenPlan ContextState::chooseFromRanges(const KernelFamily &family,
                                          const Problem &problem) const {
  // All plans of a range may be wrong while those of an older one are not.
  ChosenPlan chosen;
  ranges.findFirst(family, problem, [&](const PreparedRange &range) {
    if (range.isProvisional)
      return false;
    if (range.lacksBest(problem))
      return true;
    chosen = range.choose(problem);
    return chosen || range.hasLost(problem);
  });
  return chosen;
}

ChosenPlan ContextState::chooseLoaded(const KernelFamily &family,
                                      const Problem &problem,
                                      PlanFilter isMeant) const {
  ChosenPlan chosen;
  ranges.findFirst(family, problem, [&](const PreparedRange &range) {
    chosen = range.choose(problem, isMeant);
    return chosen || range.hasLost(problem);
  });
  return chosen;
}

bool ContextState::hasLost(const KernelFamily &family,
                           const Problem &problem) const {
  const auto found =
      ranges.findFirst(family, problem, [&](const PreparedRange &range) {
        return range.choose(problem) || range.hasLost(problem);
      });
  return found && found->hasLost(problem);
}

/// Whether they have a value in common.
static bool overlap(const ProblemRange &a, const ProblemRange &b) {
  for (size_t i = 0; i < a.low.size(); ++i)
    if (std::max(a.low[i], b.low[i]) > std::min(a.high[i], b.high[i]))
      return false;
  return true;
}

WorkspaceLayout ContextState::workspaceOf(const ProblemRange &range) const {
  WorkspaceLayout needed;
  for (const auto &known : ranges.findAlike(range)) {
    if (!overlap(known->range(), range))
      continue;
    needed.merge(known->workspace());
    if (known->range().contains(range))
      break;
  }
  return needed;
}

void ContextState::collectLateTrials() {
  if (!hasLateTrials.load(std::memory_order_relaxed))
    return;
  TuningTurn turn(*this, TuningTurn::Clock::now(), nullptr);
  if (turn.isGranted())
    hasLateTrials = trials && trials->isBusy();
}

/// The number of turns that this thread has.
static thread_local unsigned turnsHeld = 0;

ContextState::TuningTurn::TuningTurn(ContextState &state,
                                     Clock::time_point deadline,
                                     const std::atomic<bool> *cancel)
    : state(state) {
  std::optional<observe::Span> span; // ends without the lock
  std::unique_lock<std::mutex> lock(state.mutex);
  waited = state.isTuning && turnsHeld == 0;
  if (waited) {
    span.emplace(observe::Phase::Wait,
                 "another thread makes trials in this context");
    waitUntil(state.turnEnded, lock, deadline, cancel,
              [&] { return !state.isTuning; });
  }
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
