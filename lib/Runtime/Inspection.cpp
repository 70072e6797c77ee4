//===- Inspection.cpp -----------------------------------------------------===//
#include "Runtime/Inspection.h"

namespace kiln {

llvm::Expected<std::unique_ptr<Inspection>>
Inspection::open(Engine &engine, CudaStream stream) {
  std::unique_ptr<Inspection> opened(new Inspection(engine));
  auto named = engine.namedDevice();
  if (!named)
    return named.takeError();
  if (*named) {
    opened->named = std::move(*named);
    opened->namedClass = deviceClassKey(*opened->named);
    return opened;
  }
  auto entered = EnteredContext::of(engine, stream);
  if (!entered)
    return entered.takeError();
  opened->entered.emplace(std::move(*entered));
  return opened;
}

ChoiceSources Inspection::sources() {
  return engine.choiceSources(
      device(), deviceClass(), entered ? entered->state().plans : noPlans,
      entered ? entered->state().portfolios : ownPortfolios);
}

llvm::Expected<InspectedProblem> inspectedProblem(const ProblemSpec &spec) {
  const KernelFamily &family = *spec.family;
  if (spec.ranges.empty())
    return InspectedProblem{spec.problem, spec.text,
                            family.isEmpty(spec.problem)};
  // The hint may be in any part of the ranges: its alignment decides.
  ExtentPoint point;
  for (const ExtentRange &range : spec.ranges)
    point.push_back(range.hint ? range.hint : range.last);
  auto asked = spec.at(point);
  if (!asked)
    return asked.takeError();
  std::string text = asked->text();
  const bool isEmpty = family.isEmpty(*asked);
  return InspectedProblem{std::move(*asked), std::move(text), isEmpty};
}

} // namespace kiln
