//===- PreparedRange.cpp - a range whose kernels are loaded ---------------===//
#include "Runtime/PreparedRange.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln {

/// Like choose(); a frozen choice may be wrong.
ChosenPlan PreparedRange::pick(const Problem &problem,
                               PlanFilter isMeant) const {
  auto mayTake = [&](const ActivePlanPtr &plan) {
    return plan && (isFrozen || !plan->isWrong()) &&
           (!isMeant || isMeant(*plan));
  };
  if (!exact.empty()) {
    auto found = exact.find(range().pointOf(problem.values));
    if (found != exact.end() && mayTake(found->second.plan))
      return found->second;
  }
  const Portfolio::Ranking ranking = known->rank(
      problem, device, [&](uint32_t member) { return mayTake(plans[member]); });
  if (ranking.empty())
    return {};
  return {plans[ranking.front().member], ranking.front().expectedNs};
}

ChosenPlan PreparedRange::choose(const Problem &problem,
                                 PlanFilter isMeant) const {
  ChosenPlan chosen = pick(problem, isMeant);
  return chosen && chosen.plan->isWrong() ? ChosenPlan() : chosen;
}

bool PreparedRange::hasLost(const Problem &problem) const {
  const ChosenPlan chosen = isFrozen ? pick(problem, nullptr) : ChosenPlan();
  return chosen && chosen.plan->isWrong();
}

bool PreparedRange::lacksBest(const Problem &problem) const {
  if (leftOut.empty() || exact.count(range().pointOf(problem.values)))
    return false;
  const Portfolio::Ranking ranking =
      known->rank(problem, device, [&](uint32_t member) {
        return llvm::is_contained(leftOut, member) ||
               (plans[member] && !plans[member]->isWrong());
      });
  return !ranking.empty() &&
         llvm::is_contained(leftOut, ranking.front().member);
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
  return isProvisional || llvm::any_of(plans, [](const ActivePlanPtr &plan) {
           return plan && plan->isFallback;
         });
}

PreparedRange::Merit PreparedRange::merit() const {
  if (isWrong())
    return Merit::Wrong;
  if (!isFallback())
    return Merit::Measured;
  return known->isMeasured() ? Merit::Begun : Merit::Estimated;
}

bool PreparedRange::isWrong() const {
  return llvm::all_of(plans, [](const ActivePlanPtr &plan) {
    return !plan || plan->isWrong();
  });
}

bool PreparedRange::isLike(const PreparedRange &other) const {
  auto codeOf = [](const PreparedRange &range) {
    std::vector<const LoadedPlan *> code;
    for (const ActivePlanPtr &plan : range.plans)
      if (plan)
        code.push_back(plan->loaded.get());
    for (const auto &[point, chosen] : range.exact)
      code.push_back(chosen.plan->loaded.get());
    llvm::sort(code);
    return code;
  };
  return range().low == other.range().low &&
         range().high == other.range().high && codeOf(*this) == codeOf(other);
}

static std::string textOf(llvm::ArrayRef<int64_t> point) {
  std::string text;
  for (int64_t value : point)
    text += fmt::format(" {}", value);
  return text;
}

std::string PreparedRange::facts() const {
  std::string text = fmt::format("{}: {}", range().fixedText(), range().text());
  for (auto [member, plan] : llvm::zip_equal(known->members(), plans)) {
    text += fmt::format("\n{} {}{} to{}", member.config.text(),
                        plan ? plan->loaded->codeText() : "absent",
                        textOf(member.low), textOf(member.high));
    for (const MemberTime &time : member.times)
      text += fmt::format(";{}: {}", textOf(time.point), time.measuredNs);
  }
  for (const auto &[point, chosen] : exact)
    text += fmt::format("\nat{}: {}", textOf(point),
                        chosen.plan->loaded->codeText());
  return text;
}

size_t PreparedRange::planCount() const {
  return static_cast<size_t>(
      llvm::count_if(plans, [](const ActivePlanPtr &plan) { return !!plan; }));
}

} // namespace kiln
