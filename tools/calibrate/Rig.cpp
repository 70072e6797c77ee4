//===- Rig.cpp - kernels, memory and clocks of the micro-benchmarks -------===//
#include "calibrate/Rig.h"

#include "Trial/Sampling.h"
#include "calibrate/CalibrationKernels.h"

#include <algorithm>
#include <chrono>

namespace kiln::cli {

/// The longest benchmark takes a second.
static constexpr std::chrono::milliseconds kHangLimit(20000);

llvm::Expected<std::unique_ptr<Rig>> Rig::create(const Driver &driver,
                                                 ArtifactStore &artifacts,
                                                 const DeviceModel &device) {
  auto stream = Stream::create(driver);
  if (!stream)
    return stream.takeError();
  auto begin = Event::create(driver);
  if (!begin)
    return begin.takeError();
  auto end = Event::create(driver);
  if (!end)
    return end.takeError();
  std::unique_ptr<Rig> rig(new Rig(driver, device, std::move(*stream),
                                   std::move(*begin), std::move(*end)));
  if (llvm::Error error = rig->load(artifacts))
    return addContext(std::move(error), "the kernels of kiln calibrate");
  if (llvm::Error error = rig->allocate())
    return error;
  return rig;
}

llvm::Error Rig::load(ArtifactStore &artifacts) {
  for (const TranslationUnit &unit : calibrationUnits(model)) {
    auto artifact = artifacts.get(unit);
    if (!artifact)
      return artifact.takeError();
    auto module = Module::load(cuda, (*artifact)->cubin);
    if (!module)
      return module.takeError();
    modules.push_back(std::move(*module));
    for (const std::string &entry : entriesOf(unit)) {
      auto function = modules.back().function(entry.c_str());
      if (!function)
        return function.takeError();
      functions[entry] = *function;
    }
  }
  return llvm::Error::success();
}

llvm::Error Rig::allocate() {
  // Long enough for the ends of a kernel not to count: 1 ms at 4 TB/s.
  constexpr uint64_t kMostBytes = uint64_t(4) << 30;
  constexpr uint64_t kUnit = uint64_t(64) << 20;
  auto info = memoryInfo(cuda);
  if (!info)
    return info.takeError();
  const uint64_t bytes =
      std::min(info->freeBytes / 2, 2 * kMostBytes) / kUnit * kUnit;
  const uint64_t least = 2 * chainBytes();
  if (bytes < least)
    return makeError(ErrorCode::DeviceOutOfMemory,
                     "{} MiB of device memory are free, {} MiB are needed: is "
                     "the GPU in use?",
                     info->freeBytes >> 20, least >> 19);
  auto allocated = DeviceMemory::allocate(cuda, bytes);
  if (!allocated)
    return allocated.takeError();
  memory = std::move(*allocated);
  auto words =
      DeviceMemory::allocate(cuda, kMostSpans * sizeof(calibrate::Span) + 16);
  if (!words)
    return words.takeError();
  results = std::move(*words);
  return clear(results.address(), results.bytes());
}

calibrate::Span *Rig::spans() const {
  return reinterpret_cast<calibrate::Span *>(results.address());
}

unsigned *Rig::sink() const {
  return reinterpret_cast<unsigned *>(spans() + kMostSpans);
}

unsigned long long *Rig::place() const {
  return reinterpret_cast<unsigned long long *>(sink() + 2);
}

llvm::Expected<CudaFunction>
Rig::prepare(llvm::StringRef name, const RigLaunch &launch, KernelStep &step) {
  auto found = functions.find(name);
  if (found == functions.end())
    return makeError(ErrorCode::Internal, "there is no kernel '{}'", name);
  constexpr uint32_t kDefaultShared = 48 << 10;
  if (launch.sharedBytes > kDefaultShared)
    if (llvm::Error error =
            setMaxDynamicShared(cuda, found->second, launch.sharedBytes))
      return error;
  step.grid.x = launch.blocks;
  step.block.x = launch.threads;
  step.sharedBytes = launch.sharedBytes;
  return found->second;
}

llvm::Error Rig::enqueue(llvm::StringRef name, const RigLaunch &launch,
                         LaunchSpec &spec, KernelStep &step) {
  auto function = prepare(name, launch, step);
  if (!function)
    return function.takeError();
  return addContext(kiln::launch(cuda, spec, *function, work.handle()), name);
}

llvm::Expected<Graph> Rig::buildGraph(llvm::StringRef name,
                                      const RigLaunch &launch, LaunchSpec &spec,
                                      KernelStep &step, unsigned count) {
  auto function = prepare(name, launch, step);
  if (!function)
    return function.takeError();
  auto builder = GraphBuilder::create(cuda);
  if (!builder)
    return builder.takeError();
  for (unsigned i = 0; i < count; ++i)
    if (llvm::Error error = builder->add(spec, *function))
      return addContext(std::move(error), name);
  return builder->instantiate();
}

llvm::Expected<double> Rig::timeNs(llvm::function_ref<llvm::Error()> enqueue) {
  if (llvm::Error error = begin.record(work.handle()))
    return error;
  if (llvm::Error error = enqueue())
    return error;
  if (llvm::Error error = end.record(work.handle()))
    return error;
  if (llvm::Error error = waitWithLimit(end, kHangLimit))
    return error;
  return elapsedNs(cuda, begin, end);
}

llvm::Expected<std::vector<calibrate::Span>> Rig::readSpans(uint32_t count) {
  std::vector<calibrate::Span> read(count);
  if (llvm::Error error = readWithLimit(cuda, read.data(), results.address(),
                                        count * sizeof(calibrate::Span),
                                        work.handle(), kHangLimit))
    return error;
  return read;
}

llvm::Error Rig::clear(DeviceAddress address, uint64_t bytes) {
  return fillAsync(cuda, address, 0, bytes, work.handle());
}

llvm::Expected<int64_t> Rig::clustersOf(uint32_t size) {
  // So much shared memory that an SM has room for one block.
  const auto shared = static_cast<uint32_t>(model.sharedBytesPerBlock);
  KernelStep step;
  auto function = prepare("kilnRead", {size, 128, shared}, step);
  if (!function)
    return function.takeError();
  step.cluster.x = size;
  return maxActiveClusters(cuda, step, *function);
}

} // namespace kiln::cli
