//===- TrialContext.cpp - the state of trials in a context ----------------===//
#include "Trial/TrialContext.h"

#include "Driver/Context.h"
#include "Trial/Sampling.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>

namespace kiln {

/// The longest time of a slab of the reference if trials have no pace.
static constexpr std::chrono::milliseconds kMostOfSlab{100};

static void leak(ProblemState &state) {
  if (state.buffers)
    state.buffers->leak();
}

static void keepCode(ProblemState &state) {
  if (state.validator)
    keepForever(state.validator->code());
}

llvm::Expected<bool> TrialContext::isBusy() {
  if (!late)
    return false;
  auto hasEnded = late->end.isDone();
  if (!hasEnded) {
    // The late work killed the context.
    ErrorSummary error = summarize(hasEnded.takeError());
    error.code = ErrorCode::ContextDead;
    abandon();
    return addContext(errorOf(error),
                      "a launch that did not end in time killed the context");
  }
  if (*hasEnded)
    late.reset();
  return !*hasEnded;
}

void TrialContext::leakMemory() {
  if (late) {
    if (late->state)
      leak(*late->state);
    for (DeviceMemory &memory : late->workspaces)
      memory.leak();
  }
  if (tools)
    tools->leak();
  if (state)
    leak(*state);
}

void TrialContext::abandon() {
  alive = false;
  leakMemory();
  if (late) {
    if (late->state)
      keepCode(*late->state);
    for (auto &plan : late->plans)
      if (plan)
        keepForever(std::move(plan));
    late.reset();
  }
  for (auto &plan : plansOutside())
    keepForever(std::move(plan));
  if (!state)
    return;
  keepCode(*state);
  state.reset();
}

/// The device memory that trials may take. It is computed again for each
/// problem, because the caller allocates and frees meanwhile.
llvm::Expected<uint64_t> TrialContext::scratchCap() const {
  auto memory = memoryInfo(driver);
  if (!memory)
    return memory.takeError();
  constexpr uint64_t kLeastLimit = uint64_t(2) << 30;
  constexpr uint64_t kShareOfDevice = 16;
  const uint64_t limit =
      options.scratchBytes != 0
          ? options.scratchBytes
          : std::max(memory->totalBytes / kShareOfDevice, kLeastLimit);
  const uint64_t own = state ? state->buffers->bytes() : 0;
  return std::min((memory->freeBytes + own) / 2, limit);
}

llvm::Error TrialContext::setUp(const TrialRequest &request) {
  if (request.family->isEmpty(request.problem))
    return makeError(ErrorCode::InvalidArgument, "{}: there is nothing to try",
                     request.problem.text());
  bool forTiming =
      request.options.measure && request.options.mode == MeasurementMode::Cold;
  if (state && state->family == request.family &&
      state->problem.values == request.problem.values &&
      state->data == request.options.data &&
      state->planted == request.options.planted &&
      (state->forTiming || !forTiming))
    return llvm::Error::success();

  if (!tools) {
    if (options.pace)
      options.pace->awaitLoad();
    auto loaded = TrialTools::load(driver, artifacts, device, options.modules);
    if (!loaded)
      return loaded.takeError();
    tools.emplace(std::move(*loaded));
  }
  auto cap = scratchCap();
  if (!cap)
    return cap.takeError();
  capBytes = *cap;
  return makeState(request, forTiming);
}

/// Replaces the state.
llvm::Error TrialContext::makeState(const TrialRequest &request,
                                    bool forTiming) {
  state.reset(); // first, so that the memory of both never exists at the same
                 // time
  if (pool)
    pool->trim();
  auto fresh = std::make_unique<ProblemState>();
  fresh->family = request.family;
  fresh->problem = request.problem;
  fresh->forTiming = forTiming;
  fresh->data = request.options.data;
  fresh->planted = request.options.planted;
  TrialBufferOptions bufferOptions;
  bufferOptions.capBytes = capBytes;
  bufferOptions.spareBytes = capBytes / kWorkspaceShare;
  bufferOptions.forTiming = forTiming;
  bufferOptions.data = fresh->data;
  bufferOptions.planted = fresh->planted;
  bufferOptions.l2Bytes = device.l2Bytes;
  bufferOptions.pool = pool ? &*pool : nullptr;
  bufferOptions.gauge = options.scratch;
  TrialPiece piece(options.pace);
  if (!piece.mayRun())
    return TrialPiece::refused();
  auto buffers =
      TrialBuffers::create(driver, *tools, *fresh->family, fresh->problem,
                           bufferOptions, stream.handle());
  if (!buffers)
    return buffers.takeError();
  fresh->buffers.emplace(std::move(*buffers));
  state = std::move(fresh);
  // The enqueued work ends with the piece.
  return options.pace
             ? waitWithLimit(driver, stream.handle(), options.hangLimit)
             : llvm::Error::success();
}

llvm::Error TrialContext::makeValidator() {
  if (state->validator)
    return llvm::Error::success();
  auto made = TrialValidator::create(driver, *tools, *state->buffers,
                                     *state->family, state->problem, device,
                                     artifacts, loader(), lifetime(),
                                     options.pace ? kMostOfPiece : kMostOfSlab);
  if (!made)
    return made.takeError();
  state->validator.emplace(std::move(*made));
  return llvm::Error::success();
}

void TrialContext::handOut(const std::shared_ptr<const LoadedPlan> &plan) {
  llvm::erase_if(handedOut, [](const auto &old) { return old.expired(); });
  // A plan that is carried along comes with each batch.
  if (llvm::none_of(handedOut,
                    [&](const auto &old) { return old.lock() == plan; }))
    handedOut.push_back(plan);
}

std::vector<std::shared_ptr<const LoadedPlan>>
TrialContext::plansOutside() const {
  std::vector<std::shared_ptr<const LoadedPlan>> plans;
  for (const auto &plan : handedOut)
    if (auto alive = plan.lock())
      plans.push_back(std::move(alive));
  return plans;
}

} // namespace kiln
