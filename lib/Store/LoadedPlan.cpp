//===- LoadedPlan.cpp - a plan in a context, ready to launch --------------===//
#include "Store/LoadedPlan.h"

#include "Driver/Context.h"
#include "Driver/Graph.h"
#include "Driver/Launcher.h"
#include "Observe/Span.h"

#include <cassert>

namespace kiln {

/// Tensor maps are encoded for this address and patched at each launch. It is
/// aligned for every interleaving that the driver checks.
static constexpr DeviceAddress kPrototypeAddress = 1u << 20;

LoadedKernel::~LoadedKernel() {
  if (lifetime == KernelLifetime::Context)
    module.leak();
}

static llvm::Expected<std::shared_ptr<const LoadedKernel>>
loadKernel(const Driver &driver, const Artifact &artifact,
           KernelLifetime lifetime, const ByteGaugePtr &gauge) {
  auto module = Module::load(driver, artifact.cubin, gauge);
  if (!module)
    return module.takeError();
  auto function = module->function(artifact.entry.c_str());
  if (!function)
    return function.takeError();
  return std::make_shared<const LoadedKernel>(std::move(*module), *function,
                                              lifetime, artifact.toolchain);
}

std::shared_ptr<KernelLoader::Entry>
KernelLoader::entryOf(uint64_t contextId, const std::string &digest) {
  std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<Entry> &entry = entries[{contextId, digest}];
  if (!entry)
    entry = std::make_shared<Entry>();
  return entry;
}

llvm::Expected<std::shared_ptr<const LoadedKernel>>
KernelLoader::load(const Artifact &artifact, const std::string &digest,
                   uint32_t sharedBytes, KernelLifetime lifetime) {
  std::shared_ptr<Entry> entry;
  if (lifetime == KernelLifetime::Users) {
    entry = std::make_shared<Entry>();
  } else {
    auto context = contextId(*driver);
    if (!context)
      return context.takeError();
    entry = entryOf(*context, digest);
  }
  std::optional<observe::Span> span;
  if (!findLoaded(*entry)) {
    span.emplace(
        observe::Phase::Load, [&] { return artifact.entry; },
        "the driver loads code, and waits for the device's work");
    if (beforeLoad)
      beforeLoad();
  }
  std::lock_guard<std::mutex> lock(entry->mutex);
  if (!entry->kernel) {
    auto loaded = loadKernel(*driver, artifact, lifetime, gauge);
    if (!loaded)
      return loaded.takeError();
    entry->kernel = std::move(*loaded);
  }
  // The limit belongs to the function, so with several users it only grows.
  if (sharedBytes > entry->sharedBytes) {
    if (llvm::Error error = setMaxDynamicShared(
            *driver, entry->kernel->function(), sharedBytes))
      return error;
    entry->sharedBytes = sharedBytes;
  }
  return entry->kernel;
}

std::shared_ptr<const LoadedKernel>
KernelLoader::findLoaded(uint64_t contextId, const std::string &digest,
                         uint32_t sharedBytes) {
  std::shared_ptr<Entry> entry;
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = entries.find({contextId, digest});
    if (found == entries.end())
      return nullptr;
    entry = found->second;
  }
  return findLoaded(*entry, sharedBytes);
}

std::shared_ptr<const LoadedKernel>
KernelLoader::findLoaded(Entry &entry, uint32_t sharedBytes) {
  // The mutex is held while the kernel is loaded, which waits for the device.
  std::unique_lock<std::mutex> lock(entry.mutex, std::try_to_lock);
  if (!lock || !entry.kernel || entry.sharedBytes < sharedBytes)
    return nullptr;
  return entry.kernel;
}

void KernelLoader::adopt(const LoadedPlan &plan) {
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    std::shared_ptr<Entry> entry =
        entryOf(plan.context, plan.thePlan.kernels[i].digest().hex());
    std::lock_guard<std::mutex> lock(entry->mutex);
    if (entry->kernel)
      continue;
    plan.kernels[i]->keep();
    entry->kernel = plan.kernels[i];
    entry->sharedBytes = plan.thePlan.sharedBytes[i];
  }
}

void KernelLoader::unloadContext(uint64_t contextId) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (auto &[key, entry] : entries)
      if (key.first == contextId && entry->kernel)
        entry->kernel->unload();
  }
  forgetContext(contextId);
}

void KernelLoader::forgetContext(uint64_t contextId) {
  std::lock_guard<std::mutex> lock(mutex);
  entries.erase(entries.lower_bound({contextId, std::string()}),
                entries.lower_bound({contextId + 1, std::string()}));
}

llvm::Expected<std::shared_ptr<const LoadedPlan>>
LoadedPlan::load(KernelLoader &loader, Plan plan,
                 llvm::ArrayRef<ArtifactPtr> artifacts, int32_t smCount,
                 KernelLifetime lifetime) {
  assert(artifacts.size() == plan.kernels.size() &&
         plan.sharedBytes.size() == plan.kernels.size() &&
         "one artifact and one shared-memory size a kernel");
  const Driver &driver = loader.cudaDriver();
  std::shared_ptr<LoadedPlan> loaded(new LoadedPlan(driver, std::move(plan)));
  const Plan &thePlan = loaded->thePlan;
  loaded->smCount = smCount;
  auto context = kiln::contextId(driver);
  if (!context)
    return addContext(context.takeError(), thePlan.configText());
  loaded->context = *context;
  for (size_t i = 0; i < thePlan.kernels.size(); ++i) {
    auto kernel = loader.load(*artifacts[i], thePlan.kernels[i].digest().hex(),
                              thePlan.sharedBytes[i], lifetime);
    if (!kernel)
      return addContext(kernel.takeError(), thePlan.configText());
    loaded->functions.push_back((*kernel)->function());
    loaded->kernels.push_back(std::move(*kernel));
  }
  if (llvm::Error error = loaded->encodeMaps())
    return error;
  return std::shared_ptr<const LoadedPlan>(std::move(loaded));
}

llvm::Error LoadedPlan::encodeMaps() {
  for (const TensorMapSpec &spec : thePlan.tensorMaps) {
    auto encoded = encodeTensorMap(*driver, spec, kPrototypeAddress);
    if (!encoded)
      return addContext(encoded.takeError(), thePlan.configText());
    tensorMaps.push_back(*encoded);
  }
  return llvm::Error::success();
}

std::shared_ptr<const LoadedPlan>
LoadedPlan::ofLoadedKernels(KernelLoader &loader, Plan plan, uint64_t contextId,
                            int32_t smCount) {
  std::shared_ptr<LoadedPlan> loaded(
      new LoadedPlan(loader.cudaDriver(), std::move(plan)));
  const Plan &thePlan = loaded->thePlan;
  loaded->smCount = smCount;
  loaded->context = contextId;
  for (size_t i = 0; i < thePlan.kernels.size(); ++i) {
    auto kernel = loader.findLoaded(
        contextId, thePlan.kernels[i].digest().hex(), thePlan.sharedBytes[i]);
    if (!kernel)
      return nullptr;
    loaded->functions.push_back(kernel->function());
    loaded->kernels.push_back(std::move(kernel));
  }
  if (llvm::Error error = loaded->encodeMaps()) {
    llvm::consumeError(std::move(error)); // a full load reports it
    return nullptr;
  }
  return loaded;
}

std::string LoadedPlan::codeText() const {
  std::string text = thePlan.configText() + " " + kernelDigest(thePlan);
  for (const auto &kernel : kernels)
    text += " " + kernel->toolchain();
  return text;
}

/// The bytes of the zeroed region of \p given. A workspace that is not known to
/// be zeroed has one that this launch clears itself.
static uint64_t zeroedRegion(const Workspace &given,
                             const WorkspaceLayout &needed) {
  return given.isZeroed && given.zeroedBytes ? given.zeroedBytes
                                             : needed.zeroedBytes;
}

llvm::Error LoadedPlan::explainWorkspace(const Workspace &given) const {
  const WorkspaceLayout &needed = thePlan.workspace;
  uint64_t zeroed = zeroedRegion(given, needed);
  if (zeroed < needed.zeroedBytes)
    return makeError(ErrorCode::InvalidArgument,
                     "{}: {} bytes of the workspace are zero, {} are needed",
                     thePlan.configText(), zeroed, needed.zeroedBytes);
  if (given.address == 0 || given.bytes < needed.bytesBehind(zeroed))
    return makeError(ErrorCode::InvalidArgument,
                     "{}: the workspace has {} bytes, {} are needed",
                     thePlan.configText(), given.address ? given.bytes : 0,
                     needed.bytesBehind(zeroed));
  return makeError(ErrorCode::InvalidArgument,
                   "{}: the workspace at {:#x} is not aligned to {} bytes",
                   thePlan.configText(), given.address,
                   WorkspaceLayout::kAlignment);
}

void LoadedPlan::bind(const Arguments &arguments, const Workspace &workspace,
                      LaunchSpec &spec, int64_t round) const noexcept {
  LaunchContext launchContext;
  launchContext.round = round;
  launchContext.smCount = smCount;
  launchContext.zeroed = workspace.address;
  launchContext.scratch =
      workspace.address +
      WorkspaceLayout::scratchBegin(zeroedRegion(workspace, thePlan.workspace));
  launchContext.isZeroed = workspace.isZeroed;
  launchContext.tensorMaps = tensorMaps.data();
  thePlan.binder->bind(arguments, launchContext, spec);
  // A later round depends on the one before it anyway, by its first step.
  if (thePlan.takesDependentLaunch && arguments.isDependent && round == 0)
    spec.steps[0].kernel.dependentLaunch = true; // a memset ignores it
}

bool LoadedPlan::fits(const Workspace &workspace) const {
  const WorkspaceLayout &needed = thePlan.workspace;
  if (needed.bytes() == 0 || workspace.isUnused)
    return true;
  uint64_t zeroed = zeroedRegion(workspace, needed);
  return workspace.address != 0 && zeroed >= needed.zeroedBytes &&
         workspace.bytes >= needed.bytesBehind(zeroed) &&
         workspace.address % WorkspaceLayout::kAlignment == 0;
}

llvm::Error LoadedPlan::launch(const Arguments &arguments,
                               const Workspace &workspace,
                               CudaStream stream) const {
  if (!fits(workspace)) [[unlikely]]
    return explainWorkspace(workspace);
  const int64_t last = rounds(arguments) - 1;
  for (int64_t round = 0; round < last; ++round) {
    LaunchSpec spec;
    bind(arguments, workspace, spec, round);
    if (llvm::Error error = kiln::launch(*driver, spec, functions, stream))
      return error;
  }
  LaunchSpec spec;
  bind(arguments, workspace, spec, last);
  return kiln::launch(*driver, spec, functions, stream);
}

llvm::Error LoadedPlan::addTo(GraphBuilder &graph, const Arguments &arguments,
                              const Workspace &workspace) const {
  if (!fits(workspace))
    return explainWorkspace(workspace);
  const int64_t count = rounds(arguments);
  for (int64_t round = 0; round < count; ++round) {
    LaunchSpec spec;
    bind(arguments, workspace, spec, round);
    if (llvm::Error error = graph.add(spec, functions))
      return error;
  }
  return llvm::Error::success();
}

/// CUDA_ERROR_INVALID_IMAGE, _NO_BINARY_FOR_GPU and _INVALID_SOURCE: the driver
/// refuses the bytes although they passed our checks.
static bool isRefusedImage(int64_t driverCode) {
  return driverCode == 200 || driverCode == 209 || driverCode == 300;
}

llvm::Expected<CompiledPlan> obtainArtifacts(ArtifactStore &artifacts,
                                             Plan plan,
                                             const std::atomic<bool> *cancel,
                                             TakeOutcome take) {
  // All are requested before the first is waited for: they compile in parallel.
  llvm::SmallVector<PendingArtifact, 2> pending;
  for (const TranslationUnit &unit : plan.kernels)
    pending.push_back(artifacts.request(unit, compile_priority::kNow));
  CompiledPlan compiled;
  std::optional<size_t> failed; // the first; \p take receives the others as
                                // well
  for (auto [i, request] : llvm::enumerate(pending)) {
    if (!request.waitUnless(cancel))
      return makeError(ErrorCode::Cancelled, "cancelled");
    const ArtifactOutcome &outcome = request.wait();
    if (take)
      take(plan.kernels[i], outcome);
    if (!outcome && !failed)
      failed = i;
    if (failed && !take)
      break;
    compiled.isFresh &= outcome.origin == ArtifactOrigin::Compiled;
    compiled.artifacts.push_back(outcome.artifact);
  }
  if (failed)
    return addContext(
        makeArtifactError(pending[*failed].wait(), plan.kernels[*failed]),
        plan.configText());
  compiled.plan = std::move(plan);
  return compiled;
}

llvm::Expected<std::shared_ptr<const LoadedPlan>>
loadPlan(ArtifactStore &artifacts, KernelLoader &loader, CompiledPlan compiled,
         int32_t smCount, KernelLifetime lifetime) {
  auto &[plan, got, isFresh] = compiled;
  auto loaded = LoadedPlan::load(loader, plan, got, smCount, lifetime);
  if (loaded || isFresh || !artifacts.allowsCompile())
    return loaded;
  ErrorSummary refusal = summarize(loaded.takeError());
  if (!isRefusedImage(refusal.driverCode))
    return errorOf(refusal);
  for (size_t i = 0; i < got.size(); ++i) {
    auto fresh = artifacts.recompile(plan.kernels[i]);
    if (!fresh)
      return addContext(fresh.takeError(), refusal.message);
    got[i] = std::move(*fresh);
  }
  return LoadedPlan::load(loader, std::move(plan), got, smCount, lifetime);
}

llvm::Expected<std::shared_ptr<const LoadedPlan>>
obtainPlan(ArtifactStore &artifacts, KernelLoader &loader, Plan plan,
           int32_t smCount, KernelLifetime lifetime) {
  auto compiled = obtainArtifacts(artifacts, std::move(plan));
  if (!compiled)
    return compiled.takeError();
  return loadPlan(artifacts, loader, std::move(*compiled), smCount, lifetime);
}

} // namespace kiln
