//===- InProcessTrials.cpp - trials in this process -----------------------===//
#include "Trial/InProcessTrials.h"

#include "Driver/Context.h"
#include "Trial/TrialSession.h"

#include <algorithm>
#include <mutex>

namespace kiln {

void keepForever(std::shared_ptr<const void> code) {
  static std::mutex mutex;
  static auto *kept = new std::vector<std::shared_ptr<const void>>();
  std::lock_guard<std::mutex> lock(mutex);
  kept->push_back(std::move(code));
}

static void leak(ProblemState &state) {
  if (state.buffers)
    state.buffers->leak();
  if (state.validator)
    keepForever(state.validator->code());
}

llvm::Expected<bool> InProcessTrials::Impl::isBusy() {
  if (!late)
    return false;
  auto hasEnded = late->end.isDone();
  if (!hasEnded) {
    // What it did killed the context, with everything in it.
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

void InProcessTrials::Impl::abandon() {
  alive = false;
  if (late) {
    if (late->state)
      leak(*late->state);
    for (auto &plan : late->plans)
      if (plan)
        keepForever(std::move(plan));
    for (DeviceMemory &memory : late->workspaces)
      memory.leak();
    late.reset();
  }
  if (tools)
    tools->leak();
  if (!state)
    return;
  leak(*state);
  state.reset();
}

/// What trials may take of the device: computed again for each problem, because
/// the caller allocates and frees meanwhile.
llvm::Expected<uint64_t> InProcessTrials::Impl::scratchCap() const {
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

llvm::Error InProcessTrials::Impl::setUp(const TrialRequest &request) {
  auto family = registry.get(request.family);
  if (!family)
    return family.takeError();
  auto problem = (*family)->parseProblem(request.problem);
  if (!problem)
    return problem.takeError();
  if ((*family)->isEmpty(*problem))
    return makeError(ErrorCode::InvalidArgument, "{}: there is nothing to try",
                     request.problem);
  bool forTiming =
      request.options.measure && request.options.mode == MeasurementMode::Cold;
  if (state && state->family == *family &&
      state->problem.record == problem->record &&
      state->data == request.options.data && (state->forTiming || !forTiming))
    return llvm::Error::success();

  if (!tools) {
    auto loaded = TrialTools::load(driver, artifacts, device);
    if (!loaded)
      return loaded.takeError();
    tools.emplace(std::move(*loaded));
  }
  auto cap = scratchCap();
  if (!cap)
    return cap.takeError();
  capBytes = *cap;
  return makeState(**family, std::move(*problem), forTiming,
                   request.options.data);
}

/// Replaces the state.
llvm::Error InProcessTrials::Impl::makeState(const KernelFamily &family,
                                             Problem problem, bool forTiming,
                                             TrialData data) {
  state.reset(); // first, so that the memory of both never exists at once
  auto fresh = std::make_unique<ProblemState>();
  fresh->family = &family;
  fresh->problem = std::move(problem);
  fresh->forTiming = forTiming;
  fresh->data = data;
  TrialBufferOptions bufferOptions;
  bufferOptions.capBytes = capBytes;
  bufferOptions.spareBytes = capBytes / kWorkspaceShare;
  bufferOptions.forTiming = forTiming;
  bufferOptions.data = data;
  bufferOptions.l2Bytes = device.l2Bytes;
  auto buffers = TrialBuffers::create(driver, *tools, family, fresh->problem,
                                      bufferOptions, stream.handle());
  if (!buffers)
    return buffers.takeError();
  fresh->buffers.emplace(std::move(*buffers));
  state = std::move(fresh);
  return llvm::Error::success();
}

llvm::Error InProcessTrials::Impl::makeValidator() {
  if (state->validator)
    return llvm::Error::success();
  auto made =
      TrialValidator::create(driver, *tools, *state->buffers, *state->family,
                             state->problem, device, artifacts, loader);
  if (!made)
    return made.takeError();
  state->validator.emplace(std::move(*made));
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// The runner
//===----------------------------------------------------------------------===//

llvm::Expected<std::unique_ptr<InProcessTrials>>
InProcessTrials::create(const Driver &driver, const Registry &registry,
                        const DeviceModel &device, ArtifactStore &artifacts,
                        InProcessTrialsOptions options) {
  auto stream = Stream::create(driver);
  if (!stream)
    return stream.takeError();
  auto impl = std::make_unique<Impl>(driver, registry, device, artifacts,
                                     options, std::move(*stream));
  return std::unique_ptr<InProcessTrials>(new InProcessTrials(std::move(impl)));
}

InProcessTrials::InProcessTrials(std::unique_ptr<Impl> impl)
    : impl(std::move(impl)) {}

InProcessTrials::~InProcessTrials() {
  CaptureModeGuard guard(impl->driver);
  if (isBusy())
    impl->abandon();
  impl.reset();
}

bool InProcessTrials::isAlive() const { return impl->alive; }

bool InProcessTrials::isBusy() {
  CaptureModeGuard guard(impl->driver);
  auto busy = impl->isBusy();
  if (busy)
    return *busy;
  llvm::consumeError(busy.takeError()); // isAlive() says so from now on
  return false;
}

void InProcessTrials::releaseScratch() {
  CaptureModeGuard guard(impl->driver);
  isBusy(); // frees what late work held that has ended
  impl->state.reset();
}

llvm::Expected<std::vector<TrialResult>>
InProcessTrials::run(const TrialRequest &request,
                     const std::atomic<bool> *cancel) {
  if (!impl->alive)
    return makeError(
        ErrorCode::ContextDead,
        "an earlier trial killed the context, or its device hangs");
  CaptureModeGuard guard(impl->driver);
  Session session(*impl, request, cancel);
  if (llvm::Error error = session.run())
    return error;
  return session.takeResults();
}

} // namespace kiln
