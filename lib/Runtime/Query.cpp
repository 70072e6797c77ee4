//===- Query.cpp - the state of a problem ---------------------------------===//
#include "Runtime/Query.h"

#include "Call/RangeParts.h"
#include "Choice/Chooser.h"
#include "Observe/CallScope.h"
#include "Runtime/EnteredContext.h"

#include <optional>

namespace kiln {

static constexpr double kUsPerNs = 1e-3;

kiln_workspace_info workspaceInfo(const WorkspaceLayout &layout) {
  kiln_workspace_info info = KILN_INIT(kiln_workspace_info);
  info.alignment = WorkspaceLayout::kAlignment;
  info.bytes = layout.bytes();
  info.zeroed_bytes = layout.zeroedBytes;
  return info;
}

static WorkspaceLayout layoutOf(const kiln_workspace_info &info) {
  uint64_t begin = WorkspaceLayout::scratchBegin(info.zeroed_bytes);
  return {info.zeroed_bytes, info.bytes > begin ? info.bytes - begin : 0};
}

/// Describes \p chosen, which is loaded.
static kiln_query_result tell(const ChosenPlan &chosen) {
  kiln_query_result part = KILN_INIT(kiln_query_result);
  part.state = chosen.plan->isFallback ? KILN_STATE_FALLBACK : KILN_STATE_READY;
  part.source = chosen.plan->source;
  part.capturable = 1;
  part.workspace = workspaceInfo(chosen.plan->loaded->workspace());
  part.predicted_us = chosen.predictedNs * kUsPerNs;
  part.measured_us = chosen.measuredNs * kUsPerNs;
  return part;
}

namespace {
struct StoredChoice {
  Choice choice;
  WorkspaceLayout workspace; ///< that its plan needs
};
} // namespace

/// The workspace of the plan of \p choice, loaded or not; nullopt if a limit
/// forbids all of its plans.
static std::optional<WorkspaceLayout> workspaceOf(const ContextState &state,
                                                  const Chooser &chooser,
                                                  const Choice &choice) {
  for (const Problem &target : chooser.targetsOf(choice)) {
    if (auto loaded = state.plans.find(target, choice.config))
      return loaded->workspace();
    if (auto plan = chooser.plan(target, choice))
      return plan->workspace;
  }
  return std::nullopt;
}

/// The stored choice that the first launch of the problem will take.
static std::optional<StoredChoice>
firstStored(kiln_mode mode, const ContextState &state, Chooser &chooser) {
  const TrialIntent trials{.areAhead = hasStep(mode, ChoiceStep::Trials)};
  std::optional<StoredChoice> first;
  chooser.offerStored(trials, [&](const Choice &choice) {
    if (auto workspace = choice.isForLater
                             ? std::nullopt
                             : workspaceOf(state, chooser, choice))
      first = {choice, *workspace};
    return first.has_value();
  });
  return first;
}

/// Describes a problem that is not loaded: the work in progress, and the choice
/// in the cache.
static kiln_query_result queryMissing(Engine &engine, ContextState &state,
                                      const PlanRequest &request) {
  kiln_query_result part = KILN_INIT(kiln_query_result);
  part.state = engine.flights().stateOf(state, request);
  Chooser chooser = engine.chooser(state, request);
  auto first = firstStored(engine.config().mode, state, chooser);
  if (!first)
    return part;
  part.source = first->choice.source;
  part.workspace = workspaceInfo(first->workspace);
  part.predicted_us = first->choice.predictedNs * kUsPerNs;
  part.measured_us = first->choice.measuredNs * kUsPerNs;
  return part;
}

/// The state of a problem without ranges.
static kiln_query_result queryValue(Engine &engine, ContextState &state,
                                    const ProblemSpec &spec) {
  const KernelFamily &family = *spec.family;
  const DispatchKey key{&family, state.id, spec.problem.values.array()};
  if (ChosenPlan chosen = engine.plans().lookup(key))
    return tell(chosen);
  if (ChosenPlan chosen = state.chooseFromRanges(family, spec.problem))
    return tell(chosen);
  // It serves captures; other launches look for a better one.
  if (ChosenPlan chosen = state.chooseLoaded(family, spec.problem)) {
    kiln_query_result told = tell(chosen);
    told.state = KILN_STATE_FALLBACK;
    return told;
  }
  return queryMissing(engine, state, {family, spec.problem});
}

/// Adds the choices in the cache for a part of a problem's ranges that is not
/// prepared.
static void tellStored(Engine &engine, const ContextState &state,
                       const RangePart &part, kiln_query_result &result) {
  auto known = findStored(engine.portfolioSources(state), part.range);
  const Portfolio::Ranking ranking =
      known ? known->rank(part.typical, state.model) : Portfolio::Ranking();
  if (ranking.empty())
    return;
  result.source = known->sourceOf(ranking.front().member);
  result.predicted_us = ranking.front().expectedNs * kUsPerNs;
  WorkspaceLayout needed;
  for (uint32_t i = 0; i < known->members().size(); ++i) {
    const PortfolioMember &member = known->members()[i];
    needed.merge(
        member.tmpl->workspace(known->targetOf(i), member.config, state.model));
  }
  result.workspace = workspaceInfo(needed);
}

/// The state of one part of a problem's ranges.
static kiln_query_result queryPart(Engine &engine, ContextState &state,
                                   const RangePart &part) {
  auto prepared = state.findRange(part.range);
  ChosenPlan chosen = prepared ? prepared->choose(part.typical) : ChosenPlan();
  if (!chosen) {
    const PlanRequest request{*part.range.family, part.typical, &part.range,
                              part.isHinted};
    kiln_query_result told = KILN_INIT(kiln_query_result);
    told.state = engine.flights().stateOf(state, request);
    tellStored(engine, state, part, told);
    return told;
  }
  kiln_query_result told = tell(chosen);
  told.workspace = workspaceInfo(state.workspaceOf(part.range));
  if (prepared->isFallback())
    told.state = KILN_STATE_FALLBACK;
  return told;
}

/// Merges \p part into \p whole: the least state, the largest workspace.
static void merge(kiln_query_result &whole, const kiln_query_result &part) {
  WorkspaceLayout needed = layoutOf(whole.workspace);
  needed.merge(layoutOf(part.workspace));
  int32_t capturable = whole.capturable & part.capturable;
  if (part.state < whole.state)
    whole = part;
  whole.workspace = workspaceInfo(needed);
  whole.capturable = capturable;
}

llvm::Expected<kiln_query_result>
queryProblem(Engine &engine, const kiln_problem *problem, CudaStream stream) {
  auto spec = engine.readProblem(problem);
  if (!spec)
    return spec.takeError();
  const observe::CallScope watched("kiln_query", &engine.waits(), spec->text);
  auto entered = EnteredContext::of(engine, stream);
  if (!entered)
    return entered.takeError();
  // A problem with nothing to compute is ready.
  kiln_query_result whole = KILN_INIT(kiln_query_result);
  whole.state = KILN_STATE_READY;
  whole.capturable = 1;
  if (!spec->ranges.empty()) {
    auto parts = partsOf(*spec);
    if (!parts)
      return parts.takeError();
    for (const RangePart &part : *parts) {
      kiln_query_result told = queryPart(engine, entered->state(), part);
      if (&part == &parts->front())
        whole = told;
      else
        merge(whole, told);
    }
  } else if (!spec->family->isEmpty(spec->problem)) {
    whole = queryValue(engine, entered->state(), *spec);
  }
  engine.deliverMessages();
  return whole;
}

} // namespace kiln
