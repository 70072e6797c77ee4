//===- TrialContext.h - the state of trials in a context ------------------===//
//
// Private to InProcessTrials.cpp and TrialSession.cpp.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/Event.h"
#include "Driver/Stream.h"
#include "Store/LoadedPlan.h"
#include "Trial/InProcessTrials.h"
#include "Trial/TrialBuffers.h"
#include "Trial/TrialTools.h"
#include "Trial/TrialValidator.h"

#include <optional>

namespace kiln {

/// One part in this many of the scratch memory is for workspaces.
inline constexpr uint64_t kWorkspaceShare = 4;

/// The state that stays while requests are about one problem.
struct ProblemState {
  const KernelFamily *family = nullptr;
  Problem problem;
  bool forTiming = false;
  TrialData data = TrialData::Usual;
  PlantedValue planted;
  std::optional<TrialBuffers> buffers;
  std::optional<TrialValidator> validator; ///< made when first needed
};

/// Memory and code that given-up work may still use: a launch that did not end
/// within the hang limit, and all work that was enqueued behind it.
struct LateWork {
  Event end; ///< behind all of it
  std::unique_ptr<ProblemState> state;
  std::vector<std::shared_ptr<const LoadedPlan>> plans;
  std::vector<DeviceMemory> workspaces;
};

/// The state that outlives a request: a stream, the tools, the memory and
/// reference of the current problem, and the objects that late work may still
/// use.
struct TrialContext {
  TrialContext(const Driver &driver, const DeviceModel &device,
               ArtifactStore &artifacts, InProcessTrialsOptions options,
               Stream stream)
      : driver(driver), device(device), artifacts(artifacts), options(options),
        stream(std::move(stream)), ownLoader(driver, nullptr, options.modules) {
  }

  /// Makes the state of the problem that is independent of candidates.
  llvm::Error setUp(const TrialRequest &request);
  llvm::Error makeState(const TrialRequest &request, bool forTiming);
  llvm::Error makeValidator();
  llvm::Expected<uint64_t> scratchCap() const;
  /// Whether late work still runs; its objects are freed once it has ended.
  /// Error (ContextDead): it killed the context.
  llvm::Expected<bool> isBusy();
  /// Gives up everything on the device: freeing would wait for it.
  void abandon();
  /// Leaves the memory and the tools to the context.
  void leakMemory();
  /// Loads code of candidates and references, for as long as lifetime() says.
  KernelLoader &loader() {
    return options.loader ? *options.loader : ownLoader;
  }
  KernelLifetime lifetime() const {
    return options.loader ? KernelLifetime::Context : KernelLifetime::Users;
  }
  /// Scratch memory for work of the stream.
  llvm::Expected<DeviceMemory> allocate(uint64_t bytes) {
    return pool ? pool->allocate(bytes, stream.handle())
                : DeviceMemory::allocate(driver, bytes, options.scratch);
  }
  /// Notes a plan that a result carries.
  void handOut(const std::shared_ptr<const LoadedPlan> &plan);
  /// The plans of results that still have an owner.
  std::vector<std::shared_ptr<const LoadedPlan>> plansOutside() const;

  const Driver &driver;
  const DeviceModel device;
  ArtifactStore &artifacts;
  const InProcessTrialsOptions options;
  Stream stream;
  std::optional<MemoryPool> pool; ///< with a pace
  KernelLoader ownLoader;
  std::optional<TrialTools> tools;
  uint64_t capBytes = 0; ///< for the current state
  bool alive = true;
  std::optional<LateWork> late;
  std::unique_ptr<ProblemState> state;
  std::vector<std::weak_ptr<const LoadedPlan>> handedOut;
};

} // namespace kiln
