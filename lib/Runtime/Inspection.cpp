//===- Inspection.cpp -----------------------------------------------------===//
#include "Runtime/Inspection.h"

#include "Runtime/RangeParts.h"

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
  auto driver = engine.driver();
  if (!driver)
    return driver.takeError();
  auto context = findContext(**driver, stream);
  if (!context)
    return context.takeError();
  opened->relaxed.emplace(**driver);
  auto state = engine.contextState(**driver, *context);
  if (!state)
    return state.takeError();
  opened->state = std::move(*state);
  return opened;
}

ChoiceSources Inspection::sources() {
  return engine.choiceSources(device(), deviceClass(),
                              state ? state->plans : noPlans,
                              state ? state->portfolios : ownPortfolios);
}

llvm::Expected<InspectedProblem> inspectedProblem(const ProblemSpec &spec) {
  const KernelFamily &family = *spec.family;
  if (spec.ranges.empty())
    return InspectedProblem{spec.problem, spec.text,
                            family.isEmpty(spec.problem)};
  auto parts = partsOf(spec);
  if (!parts)
    return parts.takeError();
  if (parts->empty())
    return InspectedProblem{spec.problem, spec.problem.text(), true};
  const Problem &typical = parts->front().typical;
  return InspectedProblem{typical, typical.text(), false};
}

} // namespace kiln
