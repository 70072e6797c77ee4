//===- InProcessTrials.cpp - trials in this process -----------------------===//
#include "Tune/InProcessTrials.h"

#include "Driver/Context.h"
#include "Tune/TrialSession.h"

#include <algorithm>
#include <mutex>

namespace kiln {

void keepForever(std::shared_ptr<const void> code) {
  static std::mutex mutex;
  static auto *kept = new std::vector<std::shared_ptr<const void>>();
  std::lock_guard<std::mutex> lock(mutex);
  kept->push_back(std::move(code));
}

void InProcessTrials::Impl::abandon() {
  alive = false;
  arena.leak();
  if (tools)
    tools->leak();
  if (!state)
    return;
  if (state->buffers)
    state->buffers->leak();
  if (state->validator)
    keepForever(state->validator->code());
  state.reset();
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
      state->problem.extents == problem->extents &&
      state->data == request.options.data && (state->forTiming || !forTiming))
    return llvm::Error::success();

  if (!tools) {
    auto loaded = TrialTools::load(driver, artifacts, device);
    if (!loaded)
      return loaded.takeError();
    tools.emplace(std::move(*loaded));
  }
  if (capBytes == 0) {
    constexpr uint64_t kMostBytes = uint64_t(16) << 30;
    auto memory = memoryInfo(driver);
    if (!memory)
      return memory.takeError();
    capBytes = options.scratchBytes != 0
                   ? options.scratchBytes
                   : std::min(memory->freeBytes / 2, kMostBytes);
  }
  return makeState(**family, std::move(*problem), forTiming,
                   request.options.data);
}

/// Replaces the state; memory of the one before is taken over.
llvm::Error InProcessTrials::Impl::makeState(const KernelFamily &family,
                                             Problem problem, bool forTiming,
                                             TrialData data) {
  if (state)
    arena = state->buffers->takeArena();
  state.reset();
  auto fresh = std::make_unique<ProblemState>();
  fresh->family = &family;
  fresh->problem = std::move(problem);
  fresh->forTiming = forTiming;
  fresh->data = data;
  TrialBufferOptions bufferOptions;
  bufferOptions.capBytes = capBytes - capBytes / kWorkspaceShare;
  bufferOptions.forTiming = forTiming;
  bufferOptions.data = data;
  bufferOptions.l2Bytes = device.l2Bytes;
  auto buffers =
      TrialBuffers::create(driver, *tools, family, fresh->problem,
                           bufferOptions, std::move(arena), stream.handle());
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
  impl.reset();
}

bool InProcessTrials::isAlive() const { return impl->alive; }

void InProcessTrials::releaseScratch() {
  CaptureModeGuard guard(impl->driver);
  impl->state.reset();
  impl->arena = DeviceMemory();
}

llvm::Expected<std::vector<TrialResult>>
InProcessTrials::run(const TrialRequest &request) {
  if (!impl->alive)
    return makeError(ErrorCode::ContextDead,
                     "an earlier trial hung the device or killed its context");
  CaptureModeGuard guard(impl->driver);
  Session session(*impl, request);
  if (llvm::Error error = session.run())
    return error;
  return session.takeResults();
}

} // namespace kiln
