//===- Query.cpp - how far a problem is -----------------------------------===//
#include "Runtime/Query.h"

#include <algorithm>

namespace kiln {

static constexpr double kUsPerNs = 1e-3;

/// The state of one part of a problem's ranges.
static kiln_query_result queryPart(Engine &engine, ContextState &state,
                                   const KernelFamily &family,
                                   const ExtentBox &box) {
  kiln_query_result part = KILN_INIT(kiln_query_result);
  DispatchKey key{&family, state.id, box.largest.extents.values()};
  ActivePlanPtr plan;
  if (const DispatchEntry *entry = engine.plans().find(key))
    plan = entry->plan;
  else
    plan = state.findRangePlan(family, box.largest);
  if (plan) {
    const WorkspaceLayout &needed = plan->loaded->workspace();
    part.state = plan->isFallback ? KILN_STATE_FALLBACK : KILN_STATE_READY;
    part.source = plan->source;
    part.capturable = 1;
    part.workspace.alignment = static_cast<uint32_t>(needed.alignment);
    part.workspace.bytes = needed.bytes;
    part.workspace.zeroed_bytes = needed.zeroedBytes;
    part.predicted_us = plan->predictedNs * kUsPerNs;
    part.measured_us = plan->measuredNs * kUsPerNs;
    return part;
  }
  part.state = engine.workOn(key);
  // What the cache knows will be taken when the problem is first launched.
  Chooser chooser = engine.chooser(state.model, state.deviceClass);
  RecordedChoices recorded = chooser.fromRecord(family, box.common);
  std::vector<Choice> stored = std::move(recorded.choices);
  if (!recorded.isFinal)
    stored = chooser.fromDecision(family, box.common);
  if (stored.empty())
    return part;
  const Choice &first = stored.front();
  part.source = first.source;
  part.workspace.alignment =
      static_cast<uint32_t>(first.plan.workspace.alignment);
  part.workspace.bytes = first.plan.workspace.bytes;
  part.workspace.zeroed_bytes = first.plan.workspace.zeroedBytes;
  part.predicted_us = first.predictedNs * kUsPerNs;
  part.measured_us = first.measuredNs * kUsPerNs;
  return part;
}

/// \p part joins \p whole: the least state, the largest workspace.
static void merge(kiln_query_result &whole, const kiln_query_result &part) {
  kiln_workspace_info needed = whole.workspace;
  needed.bytes = std::max(needed.bytes, part.workspace.bytes);
  needed.alignment = std::max(needed.alignment, part.workspace.alignment);
  needed.zeroed_bytes =
      std::max(needed.zeroed_bytes, part.workspace.zeroed_bytes);
  int32_t capturable = whole.capturable & part.capturable;
  if (part.state < whole.state)
    whole = part;
  whole.workspace = needed;
  whole.capturable = capturable;
}

llvm::Expected<kiln_query_result>
queryProblem(Engine &engine, const kiln_problem *problem, CudaStream stream) {
  auto spec = ProblemSpec::parse(engine.families(), problem);
  if (!spec)
    return spec.takeError();
  auto driver = engine.driver();
  if (!driver)
    return driver.takeError();
  auto context = findContext(**driver, stream);
  if (!context)
    return context.takeError();
  CaptureModeGuard relaxed(**driver);
  auto state = engine.contextState(**driver, *context);
  if (!state)
    return state.takeError();
  auto boxes = spec->boxes();
  if (!boxes)
    return boxes.takeError();
  bool isFirst = true;
  // Nothing to compute is ready.
  kiln_query_result whole = KILN_INIT(kiln_query_result);
  whole.state = KILN_STATE_READY;
  whole.capturable = 1;
  for (const ExtentBox &box : *boxes) {
    if (spec->family->isEmpty(box.largest))
      continue;
    kiln_query_result part = queryPart(engine, **state, *spec->family, box);
    if (isFirst)
      whole = part;
    else
      merge(whole, part);
    isFirst = false;
  }
  return whole;
}

llvm::Expected<std::string>
problemKey(Engine &engine, const kiln_problem *problem, CudaStream stream) {
  auto spec = ProblemSpec::parse(engine.families(), problem);
  if (!spec)
    return spec.takeError();
  auto named = engine.namedDevice();
  if (!named)
    return named.takeError();
  if (*named)
    return engine.keyOf(*spec->family, spec->problem, deviceClassKey(**named));
  auto driver = engine.driver();
  if (!driver)
    return driver.takeError();
  auto context = findContext(**driver, stream);
  if (!context)
    return context.takeError();
  CaptureModeGuard relaxed(**driver);
  auto state = engine.contextState(**driver, *context);
  if (!state)
    return state.takeError();
  return engine.keyOf(*spec->family, spec->problem, (*state)->deviceClass);
}

} // namespace kiln
