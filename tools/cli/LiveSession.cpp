//===- LiveSession.cpp ----------------------------------------------------===//
#include "cli/LiveSession.h"

#include "Compile/CompilePool.h"
#include "Store/ProbeStore.h"
#include "cli/Console.h"

#include <llvm/Support/MemoryBuffer.h>

#include <algorithm>

namespace kiln::cli {

llvm::Expected<std::unique_ptr<LiveSession>>
LiveSession::open(const ParsedOptions &options, const Environment &environment,
                  llvm::StringRef why) {
  auto session = std::make_unique<LiveSession>();
  auto storeOptions = artifactOptions(options, environment);
  if (!storeOptions)
    return storeOptions.takeError();
  // A core is left to the thread that measures while others compile.
  if (storeOptions->pool.threads == 0)
    storeOptions->pool.threads = std::max(compileConcurrency(), 2u) - 1;
  auto device = chooseLiveDevice(options, environment, why);
  if (!device)
    return device.takeError();
  session->device = std::move(*device);
  auto cache = openCache(options, environment, session->memory.host);
  if (!cache)
    return cache.takeError();
  session->cache = std::move(*cache);
  ProbeStore(*session->cache)
      .store(session->device.assembled.probed, session->driver().version());
  auto primary =
      PrimaryContext::retain(session->driver(), session->device.ordinal);
  if (!primary)
    return primary.takeError();
  session->primary.emplace(std::move(*primary));
  auto current =
      ScopedContext::push(session->driver(), session->primary->handle());
  if (!current)
    return current.takeError();
  session->current.emplace(std::move(*current));
  session->artifacts = std::make_unique<ArtifactStore>(
      *session->cache, std::move(*storeOptions));
  session->records = std::make_unique<RecordStore>(*session->cache);
  // The device is this process's own, as far as anyone knows.
  constexpr uint64_t kScratchBytes = uint64_t(16) << 30;
  auto trials = InProcessTrials::create(session->driver(), session->model(),
                                        *session->artifacts,
                                        {.scratchBytes = kScratchBytes,
                                         .scratch = session->memory.scratch,
                                         .modules = session->memory.modules});
  if (!trials)
    return trials.takeError();
  session->trials = std::move(*trials);
  return session;
}

std::string marketingNameOf(const DeviceModel &model) {
  const ValueOrigin &origin = originOf(model, "name");
  return origin.source == ValueSource::Driver ? origin.note : model.name;
}

std::string driverVersionText(const Driver &driver) {
  // A stream: the kernel calls the file a page long.
  auto file = llvm::MemoryBuffer::getFileAsStream("/sys/module/nvidia/version");
  if (file && !(*file)->getBuffer().trim().empty())
    return (*file)->getBuffer().trim().str();
  return "CUDA " + formatCudaVersion(driver.version());
}

} // namespace kiln::cli
