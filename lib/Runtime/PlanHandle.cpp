//===- PlanHandle.cpp - a choice that stays -------------------------------===//
#include "Runtime/PlanHandle.h"

#include "Observe/CallScope.h"
#include "Runtime/HistoryWriter.h"
#include "Support/Error.h"

#include <algorithm>

namespace kiln {

/// The number of values of its ranges whose plans a handle remembers.
static constexpr size_t kSeenValues = 4096;

PlanHandle::PlanHandle(Engine &engine, ProblemSpec given)
    : engine(engine), spec(std::move(given)),
      outside(spec.family->problemSchema().fields().size(), kSeenValues),
      seen(spec.family->problemSchema().fields().size(), kSeenValues),
      calls(spec.family->problemSchema().fields().size(), kSeenValues) {}

llvm::Expected<std::unique_ptr<PlanHandle>>
PlanHandle::acquire(Engine &engine, const kiln_problem *problem,
                    CudaStream stream) {
  auto spec = engine.readProblem(problem);
  if (!spec)
    return spec.takeError();
  const observe::CallScope watched("kiln_plan_acquire", &engine.waits(),
                                   spec->text);
  if (HistoryWriter *history = engine.history())
    history->note(*spec);
  auto driver = engine.driver();
  if (!driver)
    return driver.takeError();
  auto context = findContext(**driver, stream);
  if (!context)
    return context.takeError();

  std::unique_ptr<PlanHandle> handle(new PlanHandle(engine, std::move(*spec)));
  handle->contextId = context->id;
  handle->operandList = operandsOf(handle->spec, handle->spec.problem);
  if (!handle->spec.ranges.empty()) {
    if (auto error = handle->acquireRanges(**driver, *context, stream))
      return error;
    return handle;
  }
  const Problem &alone = handle->spec.problem;
  if (handle->spec.family->isEmpty(alone))
    return handle;
  auto chosen = engine.acquireForLaunch(
      **driver, *context, *handle->spec.family, alone, stream, Haste::None);
  if (!chosen)
    return chosen.takeError();
  handle->chosen = std::move(*chosen);
  return handle;
}

llvm::Error PlanHandle::acquireRanges(const Driver &driver,
                                      const StreamContext &context,
                                      CudaStream stream) {
  auto parts = partsOf(spec);
  if (!parts)
    return parts.takeError();
  for (const RangePart &part : *parts) {
    auto prepared = engine.acquireRange(driver, context, part, stream);
    if (!prepared)
      return prepared.takeError();
    if (ranges.empty())
      chosen = (*prepared)->choose(part.typical);
    if (!chosen)
      return makeError(ErrorCode::NoCandidate,
                       "{}: no kernel is known to compute it correctly",
                       part.typical.text());
    ranges.push_back(std::move(*prepared));
  }
  return llvm::Error::success();
}

/// Returns the plan for \p extents. Only alignments that the problem's extents
/// rarely have are beyond the ranges: their plans are found as for a first
/// launch, except that no stand-in stays.
llvm::Expected<ChosenPlan> PlanHandle::planFor(const Driver &driver,
                                               const StreamContext &context,
                                               const Problem &problem,
                                               CudaStream stream) const {
  if (ranges.empty())
    return chosen;
  for (const auto &range : ranges)
    if (range->range().signature == problem.signature)
      if (ChosenPlan plan = range->choose(problem))
        return plan;
  const DispatchKey key{spec.family, contextId, problem.values.array()};
  if (ChosenPlan known = outside.lookup(key))
    return known;
  const observe::CallScope watched("kiln_plan_launch", &engine.waits(),
                                   problem.text());
  auto found = engine.acquireForLaunch(driver, context, *spec.family, problem,
                                       stream, Haste::None);
  if (!found)
    return found.takeError();
  return outside.keep(key, outside.introduce(key, *found));
}

/// Warns the owner of a plan that is wrong. As promised, the handle keeps it.
void PlanHandle::warnIfWrong(const ActivePlan &plan) const {
  if (!plan.isWrong() || hasWarned.exchange(true)) [[likely]]
    return;
  engine.hooks().log().warning(
      "a plan of {} launches {}, which trials found wrong: release it and "
      "acquire another",
      spec.problem.text(), plan.loaded->plan().configText());
}

llvm::Error PlanHandle::launchRange(const Driver &driver,
                                    const StreamContext &context,
                                    const kiln_arguments &given,
                                    const kiln_workspace *workspace,
                                    CudaStream stream) const {
  const ExtentPoint extents = extentsOf(given, spec);
  if (std::find(extents.begin(), extents.end(), 0) != extents.end()) {
    // An empty problem mostly needs no launch. Exceptions: a family refuses it,
    // or has something to write.
    auto problem = spec.at(extents);
    if (!problem || spec.family->isEmpty(*problem))
      return problem ? llvm::Error::success() : problem.takeError();
  }
  const FieldValues values = spec.valuesAt(extents);
  DispatchKey key{spec.family, contextId, values};
  const ActivePlan *plan = seen.find(key);
  if (!plan) {
    auto problem = spec.at(extents);
    if (!problem)
      return problem.takeError();
    auto found = planFor(driver, context, *problem, stream);
    if (!found)
      return found.takeError();
    seen.publish(key, *found); // the table keeps it
    plan = found->plan.get();
  }
  Arguments arguments;
  if (auto error = readArguments(given, spec, operandList, values, arguments))
    return error;
  warnIfWrong(*plan);
  return engine.launchPlan(driver, *plan, context, arguments, workspace,
                           stream);
}

llvm::Expected<StreamContext> PlanHandle::contextFor(const Driver &driver,
                                                     CudaStream stream) const {
  auto context = findContext(driver, stream);
  if (context && context->id != contextId)
    return makeError(ErrorCode::InvalidArgument,
                     "the stream is of context {}, the plan of context {}",
                     context->id, contextId);
  return context;
}

llvm::Error PlanHandle::launch(const kiln_arguments *given,
                               const kiln_workspace *workspace,
                               CudaStream stream) const {
  if (auto error = checkArguments(given, spec))
    return error;
  auto driver = engine.driver();
  if (!driver)
    return driver.takeError();
  auto context = contextFor(**driver, stream);
  if (!context)
    return context.takeError();
  if (!chosen)
    return llvm::Error::success();
  if (!spec.ranges.empty())
    return launchRange(**driver, *context, *given, workspace, stream);
  Arguments arguments;
  if (auto error = readArguments(*given, spec, operandList,
                                 spec.problem.values.array(), arguments))
    return error;
  warnIfWrong(*chosen.plan);
  return engine.launchPlan(**driver, *chosen.plan, *context, arguments,
                           workspace, stream);
}

/// Returns the plan's problem with the extents of \p call, which has to match
/// it: no field may differ, except that more alignment is as good, and that
/// fields of a launch alone, on which plans do not depend, are the call's own.
llvm::Expected<Problem> PlanHandle::problemOf(const FamilyCall &call) const {
  ExtentPoint extents;
  llvm::ArrayRef<Field> fields = spec.family->problemSchema().fields();
  for (const ExtentRange &range : spec.ranges) {
    int64_t value = call.values[range.field];
    if (value < range.first || value > range.last)
      return makeError(ErrorCode::InvalidArgument,
                       "{} is {}, the plan's range is {} to {}",
                       fields[range.field].key, value, range.first, range.last);
    extents.push_back(value);
  }
  auto problem = spec.at(extents);
  if (!problem)
    return problem.takeError();
  for (int i = 0; i < call.fieldCount; ++i) {
    int64_t mine = problem->values[i], its = call.values[i];
    bool fits =
        its == mine ||
        (fields[i].isIncidental() && hasGeneralForm(*spec.family, *problem)) ||
        (fields[i].role == FieldRole::Alignment && its >= mine);
    if (!fits)
      return makeError(
          ErrorCode::InvalidArgument,
          "the call is not a call of the plan, {} differs: \"{}\" and \"{}\"",
          fields[i].key, Values(problem->values.schema(), call.fields()).text(),
          problem->text());
  }
  return problem;
}

llvm::Error PlanHandle::launchCall(kiln_family family, const void *args,
                                   const kiln_workspace *workspace,
                                   CudaStream stream) const {
  const CallReader *found = spec.family->call();
  if (!found || found->number != family)
    return makeError(ErrorCode::InvalidArgument,
                     "family {} is not the plan's, which is {}", family,
                     spec.family->name());
  const CallReader &reader = *found;
  FamilyCall call;
  bool isGood = reader.read(args, call);
  auto driver = engine.driver();
  if (!driver)
    return driver.takeError();
  auto context = contextFor(**driver, stream);
  if (!context)
    return context.takeError();
  DispatchKey key{spec.family, contextId, call.fields()};
  if (isGood && !call.isEmpty && engine.mayServe(call)) [[likely]]
    if (const ActivePlan *plan = calls.find(key)) [[likely]] {
      warnIfWrong(*plan);
      return engine.launchPlan(**driver, *plan, *context, call.arguments,
                               workspace, stream);
    }
  auto described = readProblem(*spec.family, args, CallAddresses::Used, call);
  if (!described)
    return described.takeError();
  if (!engine.mayServe(call))
    return engine.refuseFrozen();
  auto problem = problemOf(call);
  if (!problem)
    return problem.takeError();
  if (call.isEmpty)
    return llvm::Error::success();
  auto plan = planFor(**driver, *context, *problem, stream);
  if (!plan)
    return plan.takeError();
  calls.publish(key, *plan);
  return engine.launchPlan(**driver, *plan->plan, *context, call.arguments,
                           workspace, stream);
}

WorkspaceLayout PlanHandle::workspace() const {
  WorkspaceLayout all;
  if (chosen)
    all.merge(chosen.plan->loaded->workspace());
  for (const auto &range : ranges)
    all.merge(range->workspace());
  return all;
}

std::string PlanHandle::describe() const {
  std::string text = spec.problem.text();
  if (!chosen)
    return text + ": nothing to compute";
  const ActivePlan &plan = *chosen.plan;
  constexpr double kUsPerNs = 1e-3;
  text += fmt::format(": {}, by {}", plan.loaded->plan().configText(),
                      kiln_source_name(plan.source));
  if (chosen.predictedNs > 0)
    text += fmt::format(", predicted {:.2f} us", chosen.predictedNs * kUsPerNs);
  if (chosen.measuredNs > 0)
    text += fmt::format(", measured {:.2f} us", chosen.measuredNs * kUsPerNs);
  size_t plans = 0;
  for (const auto &range : ranges)
    plans += range->planCount();
  if (plans > 1)
    text += fmt::format(", one of {} plans", plans);
  return text;
}

} // namespace kiln
