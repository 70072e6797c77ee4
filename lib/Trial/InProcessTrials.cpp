//===- InProcessTrials.cpp - trials in this process -----------------------===//
#include "Trial/InProcessTrials.h"

#include "Driver/Context.h"
#include "Observe/Span.h"
#include "Trial/TrialSession.h"

#include <mutex>

namespace kiln {

void keepForever(std::shared_ptr<const void> code) {
  static std::mutex mutex;
  static auto *kept = new std::vector<std::shared_ptr<const void>>();
  std::lock_guard<std::mutex> lock(mutex);
  kept->push_back(std::move(code));
}

llvm::Expected<std::unique_ptr<InProcessTrials>>
InProcessTrials::create(const Driver &driver, const DeviceModel &device,
                        ArtifactStore &artifacts,
                        InProcessTrialsOptions options) {
  auto stream = Stream::create(driver, options.pace ? Stream::Priority::Lowest
                                                    : Stream::Priority::Usual);
  if (!stream)
    return stream.takeError();
  auto context = std::make_unique<TrialContext>(driver, device, artifacts,
                                                options, std::move(*stream));
  if (options.pace) {
    auto pool = MemoryPool::create(driver, options.scratch);
    if (!pool)
      return pool.takeError();
    context->pool.emplace(std::move(*pool));
  }
  return std::unique_ptr<InProcessTrials>(
      new InProcessTrials(std::move(context)));
}

InProcessTrials::InProcessTrials(std::unique_ptr<TrialContext> context)
    : context(std::move(context)) {}

InProcessTrials::~InProcessTrials() {
  CaptureModeGuard guard(context->driver);
  if (isBusy())
    context->abandon();
  context.reset();
}

/// The least memory for trials of a problem: a copy of each operand, and for
/// written ones their contents before and after.
static uint64_t leastBytes(const OperandTable &table) {
  int64_t bytes = 0;
  for (const OperandSpec &operand : table.operands)
    bytes += operand.bytes() * (!operand.isWritten()                 ? 1
                                : operand.role == OperandRole::InOut ? 3
                                                                     : 2);
  return static_cast<uint64_t>(bytes);
}

bool InProcessTrials::hasRoom(const KernelFamily &family,
                              const Problem &problem) {
  CaptureModeGuard guard(context->driver);
  auto cap = context->scratchCap();
  if (cap)
    return leastBytes(family.operands(problem)) <= *cap;
  llvm::consumeError(cap.takeError()); // run() will say so
  return true;
}

bool InProcessTrials::isAlive() const { return context->alive; }

bool InProcessTrials::isBusy() {
  CaptureModeGuard guard(context->driver);
  auto busy = context->isBusy();
  if (busy)
    return *busy;
  llvm::consumeError(busy.takeError()); // isAlive() says so from now on
  return false;
}

void InProcessTrials::releaseScratch() {
  CaptureModeGuard guard(context->driver);
  isBusy(); // frees the memory of late work that has ended
  context->state.reset();
  if (context->pool)
    context->pool->trim();
}

void InProcessTrials::leakScratch() {
  context->leakMemory();
  if (context->pool)
    context->pool->leak();
}

llvm::Expected<std::vector<TrialResult>>
InProcessTrials::run(const TrialRequest &request,
                     const std::atomic<bool> *cancel) {
  const observe::Span span(
      observe::Phase::Trial, [&] { return request.problem.text(); },
      "kernels are measured and compared");
  if (!context->alive)
    return makeError(
        ErrorCode::ContextDead,
        "an earlier trial killed the context, or its device hangs");
  CaptureModeGuard guard(context->driver);
  TrialSession session(*context, request, cancel);
  if (llvm::Error error = session.run())
    return error;
  return session.takeResults();
}

} // namespace kiln
