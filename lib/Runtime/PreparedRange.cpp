//===- PreparedRange.cpp - a range whose kernels are loaded ---------------===//
#include "Runtime/PreparedRange.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln {

ChosenPlan PreparedRange::choose(const Problem &problem) const {
  if (!exact.empty()) {
    auto found = exact.find(range().pointOf(problem.record));
    if (found != exact.end() && !found->second.plan->isWrong())
      return found->second;
  }
  const Portfolio::Ranking ranking =
      known->rank(problem, device, [&](uint32_t member) {
        return plans[member] && !plans[member]->isWrong();
      });
  if (ranking.empty())
    return {};
  return {plans[ranking.front().member], ranking.front().expectedNs};
}

WorkspaceLayout PreparedRange::workspace() const {
  WorkspaceLayout all;
  for (const ActivePlanPtr &plan : plans)
    if (plan)
      all.merge(plan->loaded->workspace());
  for (const auto &[point, chosen] : exact)
    all.merge(chosen.plan->loaded->workspace());
  return all;
}

bool PreparedRange::isFallback() const {
  return llvm::any_of(plans, [](const ActivePlanPtr &plan) {
    return plan && plan->isFallback;
  });
}

bool PreparedRange::isWrong() const {
  return llvm::all_of(plans, [](const ActivePlanPtr &plan) {
    return !plan || plan->isWrong();
  });
}

size_t PreparedRange::planCount() const {
  return static_cast<size_t>(
      llvm::count_if(plans, [](const ActivePlanPtr &plan) { return !!plan; }));
}

} // namespace kiln
