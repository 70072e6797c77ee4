//===- Launch.cpp - one call of the caller's ------------------------------===//
#include "Runtime/Engine.h"

#include "Call/CanonicalProblem.h"
#include "Call/LaunchArguments.h"
#include "Call/RangeParts.h"
#include "Call/StructAccess.h"
#include "Observe/CallScope.h"
#include "Runtime/Acquisition.h"
#include "Runtime/Background.h"
#include "Runtime/HistoryWriter.h"
#include "Runtime/ProfilerWindow.h"
#include "Workspace/StreamLock.h"

namespace kiln {

//===----------------------------------------------------------------------===//
// With a plan
//===----------------------------------------------------------------------===//

[[gnu::cold, gnu::noinline]] static llvm::Error
explainWorkspace(const kiln_workspace &workspace) {
  if (auto error = checkInput(workspace, "kiln_workspace"))
    return error;
  if (workspace.zeroed_bytes > workspace.bytes)
    return makeError(ErrorCode::InvalidArgument,
                     "kiln_workspace: zeroed_bytes is {}, more than bytes, {}",
                     workspace.zeroed_bytes, workspace.bytes);
  return makeError(ErrorCode::Unsupported,
                   "kiln_workspace: flags {:#x} are unknown", workspace.flags);
}

/// False if \p given has values that this version does not know.
static bool readWorkspace(const kiln_workspace &given, Workspace &workspace) {
  if (!hasKnownSize(given) ||
      (given.flags & ~uint32_t(KILN_WORKSPACE_ZEROED)) || given.reserved[0])
    return false;
  workspace.address = reinterpret_cast<uintptr_t>(given.data);
  workspace.bytes = given.bytes;
  workspace.isZeroed = given.flags & KILN_WORKSPACE_ZEROED;
  workspace.zeroedBytes = given.zeroed_bytes;
  // Rounding up to the next region must not wrap around.
  return !workspace.isZeroed || given.zeroed_bytes <= given.bytes;
}

/// A part of launchPlan(), which is the hot path.
[[gnu::always_inline]] inline llvm::Error
Engine::enqueuePlan(const Driver &driver, const ActivePlan &plan,
                    const StreamContext &context, const Arguments &arguments,
                    const kiln_workspace *given, CudaStream stream,
                    const DispatchKey *key) {
  auto entered = CurrentContext::enter(driver, context);
  if (!entered)
    return entered.takeError();
  Workspace workspace;
  const WorkspaceLayout &needed = plan.loaded->workspace();
  const bool usesWorkspace = plan.loaded->usesWorkspace(arguments);
  if (given) {
    if (!readWorkspace(*given, workspace)) [[unlikely]]
      return explainWorkspace(*given);
    if (usesWorkspace && key && !plan.loaded->fits(workspace)) [[unlikely]]
      if (const ActivePlan *other = findFitting(*key, workspace))
        return enqueueApart(driver, *other, context, arguments, given, stream,
                            nullptr);
  } else if (!usesWorkspace) {
    workspace.isUnused = true;
  } else {
    auto user = ArenaStream::find(driver, context.id, stream);
    if (!user)
      return user.takeError();
    while (!(workspace = arenas.find(*user, needed)).address) {
      auto error = ensureArena(driver, context, needed, stream);
      if (!error)
        continue;
      const ActivePlan *other =
          user->isCaptured && key
              ? findFitting(*key, arenas.find(*user, WorkspaceLayout()))
              : nullptr;
      if (!other)
        return error;
      llvm::consumeError(std::move(error));
      return enqueueApart(driver, *other, context, arguments, given, stream,
                          nullptr);
    }
    if (user->isCaptured) [[unlikely]] {
      arenas.holdForGraph(driver, *user);
      if (theBackground)
        theBackground->noteCapture();
    }
  }
  std::unique_lock<std::mutex> turn;
  if (usesWorkspace)
    turn = lockStream(context.id, stream);
  if (auto error = plan.loaded->launch(arguments, workspace, stream))
    return error;
  launches.add();
  if (plan.isFallback)
    fallbackLaunches.add();
  return llvm::Error::success();
}

/// enqueuePlan() outside of the hot path.
llvm::Error Engine::enqueueApart(const Driver &driver, const ActivePlan &plan,
                                 const StreamContext &context,
                                 const Arguments &arguments,
                                 const kiln_workspace *given, CudaStream stream,
                                 const DispatchKey *key) {
  return enqueuePlan(driver, plan, context, arguments, given, stream, key);
}

llvm::Error Engine::launchPlan(const Driver &driver, const ActivePlan &plan,
                               const StreamContext &context,
                               const Arguments &arguments,
                               const kiln_workspace *given, CudaStream stream,
                               const DispatchKey *key) {
  if (observe::watching() & observe::kOnLaunch) [[unlikely]]
    return launchWatched(driver, plan, context, arguments, given, stream, key);
  return enqueuePlan(driver, plan, context, arguments, given, stream, key);
}

/// A launch that is watched.
llvm::Error Engine::launchWatched(const Driver &driver, const ActivePlan &plan,
                                  const StreamContext &context,
                                  const Arguments &arguments,
                                  const kiln_workspace *given,
                                  CudaStream stream, const DispatchKey *key) {
  const uint32_t watched = observe::watching();
  const observe::CallFrame *call = observe::CallFrame::current();
  // A launch that is part of a call has its range already.
  const bool isShown = (watched & observe::kLaunchRanges) &&
                       !(call && call->isIn(observe::Phase::Launch));
  auto enqueue = [&] {
    if (!isShown)
      return enqueueApart(driver, plan, context, arguments, given, stream, key);
    const observe::LaunchSpan span(plan.loaded->shownName());
    return enqueueApart(driver, plan, context, arguments, given, stream, key);
  };
  if (!(watched & (observe::kHitWaits | observe::kProfilerWindow))) [[likely]]
    return enqueue();
  auto text = [&] { return plan.loaded->plan().problem.text(); };
  std::optional<observe::CallScope> hit;
  std::optional<observe::CallScope::Subject> subject;
  if ((watched & observe::kHitWaits) && !call) {
    hit.emplace("launch", &ledger, std::string(),
                observe::CallScope::Shown::No);
    subject.emplace(*hit, text);
  }
  auto entered = CurrentContext::enter(driver, context);
  if (!entered)
    return entered.takeError();
  std::optional<ProfilerWindow::Launch> counted;
  if (watched & observe::kProfilerWindow)
    counted.emplace(ProfilerWindow::ofProcess(), driver, stream);
  return enqueue();
}

/// Returns a plan that served \p key before, or that a range has or had for it,
/// and that fits into \p room; or null. The room was made, or stated, for such
/// a plan. A successor may need more, and must not make calls fail that
/// succeeded before.
const ActivePlan *Engine::findFitting(const DispatchKey &key,
                                      const Workspace &room) {
  if (freezes)
    return nullptr; // the room that a stream has may not choose
  const std::shared_ptr<ContextState> state = knownContext(key.contextId);
  if (!state)
    return nullptr;
  auto problem =
      makeProblem(*key.family, Values(key.family->problemSchema(), key.values));
  if (!problem) {
    llvm::consumeError(problem.takeError());
    return nullptr;
  }
  auto isMeant = [&](const ActivePlan &plan) {
    return plan.loaded->fits(room) && !plan.isWrong();
  };
  if (const ActivePlan *plan = dispatch.findEarlier(key, isMeant))
    return plan;
  // The context keeps these plans as long as it exists. A range promised room
  // for its own plans, and a value may have been measured by itself since.
  if (ChosenPlan plan = state->chooseLoaded(*key.family, *problem, isMeant))
    return plan.plan.get();
  return state->chooseFromOutgrown(*key.family, *problem, isMeant).plan.get();
}

llvm::Error Engine::refuseFrozen() const {
  return makeError(ErrorCode::Unsupported,
                   "determinism {}: the engine promises less, see "
                   "kiln_engine_options.determinism",
                   int32_t(KILN_DETERMINISM_FROZEN_CHOICE));
}

llvm::Expected<ProblemSpec>
Engine::readProblem(const kiln_problem *problem) const {
  auto spec = ProblemSpec::parse(registry, problem);
  if (spec && spec->wantsFrozen && !freezes)
    return refuseFrozen();
  return spec;
}

/// In the mode background: keeps trials away from a capture, if a launch into
/// it misses.
void Engine::noteIfCaptured(const Driver &driver, CudaStream stream) const {
  if (!theBackground)
    return;
  auto status = captureStatus(driver, stream);
  if (!status)
    llvm::consumeError(status.takeError()); // the launch itself will tell
  else if (*status != CaptureStatus::None)
    theBackground->noteCapture();
}

/// NotPrepared if \p stream is being captured: \p what names the thing that is
/// not there, and to make it cannot be recorded.
llvm::Error
Engine::refuseCapture(const Driver &driver, CudaStream stream,
                      llvm::function_ref<std::string()> what) const {
  auto status = captureStatus(driver, stream);
  if (!status)
    return status.takeError();
  if (*status == CaptureStatus::None)
    return llvm::Error::success();
  if (theBackground)
    theBackground->noteCapture();
  return makeError(ErrorCode::NotPrepared,
                   "the stream is being captured and {}: call kiln_prepare "
                   "with this stream before the capture",
                   what());
}

llvm::Error Engine::ensureArena(const Driver &driver,
                                const StreamContext &context,
                                const WorkspaceLayout &needed,
                                CudaStream stream) {
  if (needed.bytes() == 0)
    return llvm::Error::success();
  auto entered = CurrentContext::enter(driver, context);
  if (!entered)
    return entered.takeError();
  auto user = ArenaStream::find(driver, context.id, stream);
  if (!user)
    return user.takeError();
  if (arenas.find(*user, needed).address)
    return llvm::Error::success();
  if (auto error =
          refuseCapture(driver, stream, [] { return "it has no arena yet"; }))
    return error;
  const observe::Span span(observe::Phase::Arena,
                           "the stream gets memory for workspaces");
  CaptureModeGuard relaxed(driver);
  return arenas.ensure(driver, *user, needed);
}

/// Takes the plan that a prepared range has for \p problem. Launches hit it
/// from now on.
ChosenPlan Engine::takePrepared(const ContextState &context,
                                const DispatchKey &key,
                                const Problem &problem) {
  uint64_t version = context.rangesVersion();
  ChosenPlan plan = context.chooseFromRanges(*key.family, problem);
  if (!plan)
    return {};
  plan = dispatch.offer(key, plan);
  // A thread that adds or drops a range does so first, and then takes older
  // choices out of the table. This choice may have come after that.
  while (version != context.rangesVersion()) {
    version = context.rangesVersion();
    const ChosenPlan ours =
        std::exchange(plan, context.chooseFromRanges(*key.family, problem));
    if (plan && freezes)
      dispatch.publish(key, plan);
    else if (plan)
      dispatch.replace(key, plan);
    else if (dispatch.lookup(key).plan == ours.plan)
      dispatch.drop(key);
  }
  return plan;
}

/// Takes the best of the loaded plans. Launches hit it until there is a better
/// one.
ChosenPlan Engine::takeStandIn(ContextState &context, const DispatchKey &key,
                               const Problem &problem) {
  uint64_t version = context.rangesVersion();
  const PlanRequest request{*key.family, problem};
  ChosenPlan plan =
      Acquisition(*this, context, request, AcquireOptions(), nullptr)
          .findStandIn();
  if (!plan)
    return {};
  plan = dispatch.introduce(key, plan);
  // Like takePrepared().
  while (version != context.rangesVersion()) {
    version = context.rangesVersion();
    if (ChosenPlan better = context.chooseFromRanges(*key.family, problem)) {
      plan = std::move(better);
      dispatch.publish(key, plan);
    }
  }
  return plan;
}

/// For a capture: takes the plan that a prepared range, or the layer, has
/// loaded for \p problem, and launches hit it from now on. Otherwise takes its
/// plan from before the layer was measured, for the capture alone.
ChosenPlan Engine::takeLoaded(ContextState &context, const DispatchKey &key,
                              const Problem &problem) {
  if (ChosenPlan prepared = context.chooseLoaded(*key.family, problem))
    return prepared;
  const PlanRequest request{*key.family, problem};
  auto loaded = Acquisition(*this, context, request, AcquireOptions(), nullptr)
                    .findLoaded();
  if (!loaded)
    llvm::consumeError(loaded.takeError());
  else if (*loaded)
    return dispatch.offer(key, *loaded);
  return dispatch.findAside(key);
}

/// In the mode background: asks for a better plan.
void Engine::noteLaunch(ContextState *context, const KernelFamily &family,
                        const Problem &problem) {
  if (theBackground && context)
    theBackground->noteLaunch(*context, family, problem);
}

llvm::Expected<ChosenPlan>
Engine::acquireForLaunch(const Driver &driver, const StreamContext &context,
                         const KernelFamily &family, const Problem &problem,
                         CudaStream stream, Haste haste) {
  const observe::Span span(observe::Phase::Lookup,
                           [&] { return problem.text(); });
  // Trials of another thread may find it wrong before it is returned.
  constexpr int kMostTries = 4;
  for (int i = 0; i < kMostTries; ++i) {
    auto chosen = acquireOnce(driver, context, family, problem, stream, haste);
    if (!chosen || !chosen->plan->isWrong())
      return chosen;
  }
  return makeError(ErrorCode::NoCandidate,
                   "{}: each kernel that was chosen was found wrong meanwhile",
                   problem.text());
}

llvm::Expected<ChosenPlan> Engine::acquireOnce(const Driver &driver,
                                               const StreamContext &context,
                                               const KernelFamily &family,
                                               const Problem &problem,
                                               CudaStream stream, Haste haste) {
  DispatchKey key{&family, context.id, problem.values.array()};
  AcquireOptions acquireOptions;
  acquireOptions.budget = options.tuneBudget;
  acquireOptions.haste = theBackground ? haste : Haste::None;
  PlanRequest request{family, problem};
  if (ChosenPlan known = dispatch.lookup(key);
      known && acquireOptions.takes(request, known))
    return known;
  workCounts.dispatchMisses.fetch_add(1, std::memory_order_relaxed);
  std::shared_ptr<ContextState> known = knownContext(context.id);
  if (known)
    if (ChosenPlan plan = takePrepared(*known, key, problem)) {
      noteIfCaptured(driver, stream);
      return plan;
    }
  if (historyWriter)
    historyWriter->note(generalProblem(family, problem));
  if (theBackground && known && haste == Haste::Launch) {
    ChosenPlan plan;
    {
      const Background::CallInWork call(*theBackground);
      plan = takeStandIn(*known, key, problem);
    }
    if (plan) {
      noteIfCaptured(driver, stream);
      noteLaunch(known.get(), family, problem);
      return plan;
    }
  }
  auto entered = CurrentContext::enter(driver, context);
  if (!entered)
    return entered.takeError();
  auto missing = [&] { return "no plan is loaded for " + problem.text(); };
  if (auto error = refuseCapture(driver, stream, missing)) {
    noteLaunch(known.get(), family, problem);
    ChosenPlan loaded = known ? takeLoaded(*known, key, problem) : ChosenPlan();
    if (!loaded)
      return error;
    llvm::consumeError(std::move(error));
    return loaded;
  }
  CaptureModeGuard relaxed(driver);
  if (hooks().hasEvents()) {
    EventInfo info;
    info.kind = KILN_EVENT_MISS;
    info.problem = problem.text();
    hooks().emit(info);
  }
  auto state = contextState(driver, context);
  if (!state)
    return state.takeError();
  auto chosen = problemsInWork.acquire(**state, request, acquireOptions);
  if (chosen && theBackground && chosen->measuredNs == 0)
    noteLaunch(state->get(), family, problem);
  return chosen;
}

llvm::Expected<std::shared_ptr<const PreparedRange>>
Engine::acquireRange(const Driver &driver, const StreamContext &context,
                     const RangePart &part, CudaStream stream) {
  const ProblemRange &range = part.range;
  const observe::Span span(observe::Phase::Lookup,
                           [&] { return range.text(); });
  if (auto known = knownContext(context.id))
    if (auto prepared = known->findRange(range);
        prepared && prepared->choose(part.typical)) // some of its plans are
                                                    // right
      return prepared;
  workCounts.dispatchMisses.fetch_add(1, std::memory_order_relaxed);
  auto entered = CurrentContext::enter(driver, context);
  if (!entered)
    return entered.takeError();
  auto missing = [&] {
    return "no plans are loaded for the range of " + part.typical.text();
  };
  if (auto error = refuseCapture(driver, stream, missing))
    return error;
  CaptureModeGuard relaxed(driver);
  auto state = contextState(driver, context);
  if (!state)
    return state.takeError();
  AcquireOptions acquireOptions;
  acquireOptions.budget = options.tuneBudget;
  auto prepared = problemsInWork.acquireRange(
      **state, {*range.family, part.typical, &range, part.isHinted},
      acquireOptions);
  if (!prepared)
    return prepared.takeError();
  if (theBackground && (*prepared)->isFallback())
    theBackground->noteRange(**state, part, /*retune=*/false);
  return prepared;
}

//===----------------------------------------------------------------------===//
// kiln_gemm and its like
//===----------------------------------------------------------------------===//

/// The function of kiln.h that launches a family's struct.
static const char *functionOf(kiln_family number) {
  switch (number) {
#define KILN_CALL(function, family, args_type)                                 \
  case family:                                                                 \
    return #function;
#include "Families/Families.def"
  default:
    return "a launch";
  }
}

llvm::Error Engine::launchCall(kiln_family number, const void *args,
                               const kiln_workspace *workspace,
                               CudaStream stream) {
  const CallTarget target = calls.find(number);
  if (!target.family) [[unlikely]]
    return makeError(ErrorCode::Unsupported, "family {} is not available",
                     number);
  const KernelFamily &family = *target.family;
  const CallReader &reader = *target.reader;
  FamilyCall call;
  bool isGood = reader.read(args, call);
  if (const Driver *ready = readyDriver.load(std::memory_order_acquire);
      ready && isGood && !call.isEmpty && mayServe(call)) [[likely]] {
    auto context = findContext(*ready, stream);
    if (!context)
      return context.takeError();
    DispatchKey key{&family, context->id, call.fields()};
    if (const ActivePlan *plan = dispatch.find(key); plan && !plan->isWrong())
        [[likely]]
      return launchPlan(*ready, *plan, *context, call.arguments, workspace,
                        stream, &key);
    return launchCallSlow(family, args, call, workspace, stream, &*context);
  }
  return launchCallSlow(family, args, call, workspace, stream, nullptr);
}

llvm::Error Engine::launchCallSlow(const KernelFamily &family, const void *args,
                                   FamilyCall &call,
                                   const kiln_workspace *workspace,
                                   CudaStream stream,
                                   const StreamContext *known) {
  observe::CallScope watched(functionOf(family.call()->number), &ledger);
  // On a hit the table vouches for the arguments; on a miss, check them.
  auto problem = [&] {
    const observe::Span span(observe::Phase::Canonicalise);
    return kiln::readProblem(family, args, CallAddresses::Used, call);
  }();
  if (!problem)
    return problem.takeError();
  if (!mayServe(call))
    return refuseFrozen();
  auto text = [&] { return problem->text(); };
  const observe::CallScope::Subject subject(watched, text);
  assert(problem->values.array() == call.fields() &&
         "the key is not the canonical problem's");
  if (family.isEmpty(*problem))
    return llvm::Error::success();
  auto loaded = driver();
  if (!loaded)
    return loaded.takeError();
  auto context = known ? llvm::Expected<StreamContext>(*known)
                       : findContext(**loaded, stream);
  if (!context)
    return context.takeError();
  auto plan = acquireForLaunch(**loaded, *context, family, *problem, stream);
  if (!plan)
    return plan.takeError();
  const DispatchKey key{&family, context->id, problem->values.array()};
  const observe::Span span(observe::Phase::Launch, text);
  return launchPlan(**loaded, *plan->plan, *context, call.arguments, workspace,
                    stream, &key);
}

//===----------------------------------------------------------------------===//
// kiln_run
//===----------------------------------------------------------------------===//

llvm::Error Engine::run(const kiln_problem *described,
                        const kiln_arguments *given,
                        const kiln_workspace *workspace, CudaStream stream) {
  auto spec = readProblem(described);
  if (!spec)
    return spec.takeError();
  if (auto error = checkArguments(given, *spec))
    return error;
  const ExtentPoint extents = extentsOf(*given, *spec);
  auto problem = spec->at(extents);
  if (!problem)
    return problem.takeError();
  if (spec->family->isEmpty(*problem))
    return llvm::Error::success();
  Arguments arguments;
  OperandList operands = operandsOf(*spec, *problem);
  if (auto error = readArguments(*given, *spec, operands,
                                 problem->values.array(), arguments))
    return error;
  auto loaded = driver();
  if (!loaded)
    return loaded.takeError();
  auto context = findContext(**loaded, stream);
  if (!context)
    return context.takeError();
  DispatchKey key{spec->family, context->id, problem->values.array()};
  const ActivePlan *plan = dispatch.find(key);
  ChosenPlan chosen;
  if (!plan || plan->isWrong()) {
    auto text = [&] { return problem->text(); };
    observe::CallScope watched("kiln_run", &ledger);
    const observe::CallScope::Subject subject(watched, text);
    auto acquired =
        acquireForLaunch(**loaded, *context, *spec->family, *problem, stream);
    if (!acquired)
      return acquired.takeError();
    chosen = std::move(*acquired);
    plan = chosen.plan.get();
  }
  return launchPlan(**loaded, *plan, *context, arguments, workspace, stream,
                    &key);
}

} // namespace kiln
