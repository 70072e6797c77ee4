//===- LoadedPlan.h - a plan in a context, ready to launch ----------------===//
//
// Everything slow or fallible happens when a plan is loaded: modules,
// functions, shared-memory limits, tensor maps. A launch only calls bind() and
// the driver.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/Driver.h"
#include "Driver/Handles.h"
#include "Driver/Module.h"
#include "Kernel/Plan.h"
#include "Observe/Span.h"
#include "Store/ArtifactStore.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/Support/Error.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace kiln {

class GraphBuilder;

/// The time when the code of a kernel leaves the device.
enum class KernelLifetime {
  Context, ///< with its context: graphs may use it as long as that lives
  Users,   ///< with the last plan that uses it: for trials
};

/// A kernel in one context, shared between the plans that use it. Immutable
/// except for its lifetime.
class LoadedKernel {
public:
  /// \p compiler is its artifact's Artifact::toolchain.
  LoadedKernel(Module module, CudaFunction function, KernelLifetime lifetime,
               std::string compiler)
      : module(std::move(module)), entry(function),
        compiler(std::move(compiler)), lifetime(lifetime) {}
  ~LoadedKernel();
  LoadedKernel(const LoadedKernel &) = delete;
  LoadedKernel &operator=(const LoadedKernel &) = delete;

  CudaFunction function() const { return entry; }
  /// Artifact::toolchain.
  const std::string &toolchain() const { return compiler; }

  /// Lets the code leave the device with its context from now on. Thread-safe.
  void keep() const { lifetime = KernelLifetime::Context; }

  /// Takes the code off the device now, whatever the lifetime. The context must
  /// exist, and no thread may launch the kernel any more.
  void unload() const { Module gone = std::move(module); }

private:
  mutable Module module; ///< only unload() changes it
  CudaFunction entry;
  std::string compiler;
  mutable std::atomic<KernelLifetime> lifetime; ///< keep() changes it
};

class LoadedPlan;

/// Loads kernels once for each context and shares them. Thread-safe; the driver
/// must outlive it and its kernels.
class KernelLoader {
public:
  /// \p beforeLoad, which may be empty, is called without a lock before code is
  /// loaded: it may wait. The driver lets a load wait for all work of the
  /// device, and launches of other threads wait with it. \p gauge, which may be
  /// null, counts the code.
  explicit KernelLoader(const Driver &driver,
                        std::function<void()> beforeLoad = nullptr,
                        ByteGaugePtr gauge = nullptr)
      : driver(&driver), beforeLoad(std::move(beforeLoad)),
        gauge(std::move(gauge)) {}

  /// Loads the kernel of \p artifact (called \p digest) into the current
  /// context, its function resident on the device and allowed \p sharedBytes of
  /// dynamic shared memory. With KernelLifetime::Context the loader keeps it
  /// for good and shares it; with Users each call loads one of its own. Takes
  /// up to a ms the first time. Errors: those of Module::load and
  /// setMaxDynamicShared.
  llvm::Expected<std::shared_ptr<const LoadedKernel>>
  load(const Artifact &artifact, const std::string &digest,
       uint32_t sharedBytes, KernelLifetime lifetime);

  /// Returns the kernel called \p digest if it is loaded into the context
  /// called \p contextId and allows \p sharedBytes; else null, also while a
  /// thread loads it. Does not wait, and calls no driver.
  std::shared_ptr<const LoadedKernel> findLoaded(uint64_t contextId,
                                                 const std::string &digest,
                                                 uint32_t sharedBytes);

  /// Takes over the kernels of \p plan, which a loader loaded for its users:
  /// from now on they live as long as their context, and load() with
  /// KernelLifetime::Context returns them for any plan instead of loading them
  /// again. If there is a kernel of that name already it stays, and the one of
  /// \p plan remains its users'. Loads nothing and cannot fail; costs a digest
  /// a kernel.
  void adopt(const LoadedPlan &plan);

  /// Unloads the kernels of a context, which must exist, and forgets them. No
  /// launch or graph may use them any more.
  void unloadContext(uint64_t contextId);

  /// Forgets the kernels of a context that was destroyed.
  void forgetContext(uint64_t contextId);

  const Driver &cudaDriver() const { return *driver; }

private:
  /// One kernel in one context; its mutex is held while it is loaded.
  struct Entry {
    std::mutex mutex;
    std::shared_ptr<const LoadedKernel> kernel;
    uint32_t sharedBytes = 0;
  };

  static std::shared_ptr<const LoadedKernel>
  findLoaded(Entry &entry, uint32_t sharedBytes = 0);
  std::shared_ptr<Entry> entryOf(uint64_t contextId, const std::string &digest);

  const Driver *driver;
  const std::function<void()> beforeLoad;
  const ByteGaugePtr gauge;
  std::mutex mutex;
  std::map<std::pair<uint64_t, std::string>, std::shared_ptr<Entry>> entries;
};

/// A plan loaded into one context. Immutable except for isWrong(), and
/// thread-safe; share it by shared_ptr.
class LoadedPlan {
public:
  /// Loads \p plan into the current context. \p artifacts are those of
  /// plan.kernels, in their order; \p smCount is the number of SMs that a
  /// persistent grid may use. Must run under a CaptureModeGuard. Errors: those
  /// of KernelLoader::load and encodeTensorMap, with the config.
  static llvm::Expected<std::shared_ptr<const LoadedPlan>>
  load(KernelLoader &loader, Plan plan, llvm::ArrayRef<ArtifactPtr> artifacts,
       int32_t smCount, KernelLifetime lifetime = KernelLifetime::Context);

  /// Like load(), from kernels that \p loader has loaded already into the
  /// context called \p contextId, which need not be current; null if it lacks
  /// some. Takes some 10 us, does not wait, and may be called beside a capture.
  static std::shared_ptr<const LoadedPlan> ofLoadedKernels(KernelLoader &loader,
                                                           Plan plan,
                                                           uint64_t contextId,
                                                           int32_t smCount);

  /// Enqueues one run on \p stream, whose context must be the plan's and
  /// current. Takes no lock, allocates nothing and reads no file unless it
  /// fails. Errors: InvalidArgument for a workspace that is too small or not
  /// aligned; those of the driver's launch.
  llvm::Error launch(const Arguments &arguments, const Workspace &workspace,
                     CudaStream stream) const;

  /// Appends the steps that launch() would enqueue to \p graph. Errors: those
  /// of launch().
  llvm::Error addTo(GraphBuilder &graph, const Arguments &arguments,
                    const Workspace &workspace) const;

  /// Overwrites \p spec with the steps that launch() would execute in round \p
  /// round.
  void bind(const Arguments &arguments, const Workspace &workspace,
            LaunchSpec &spec, int64_t round = 0) const noexcept;
  /// The number of rounds of a launch of \p arguments (Binder::rounds). Takes
  /// nanoseconds.
  int64_t rounds(const Arguments &arguments) const noexcept {
    return thePlan.hasRounds ? thePlan.binder->rounds(arguments, smCount) : 1;
  }

  const Plan &plan() const { return thePlan; }
  /// The config, the kernelDigest() and the compilers: plans of equal text have
  /// equal machine code.
  std::string codeText() const;
  const WorkspaceLayout &workspace() const { return thePlan.workspace; }
  /// Whether a launch can use \p workspace.
  bool fits(const Workspace &workspace) const;
  /// Whether a launch of \p arguments needs a workspace. Takes nanoseconds.
  bool usesWorkspace(const Arguments &arguments) const noexcept {
    return thePlan.workspace.bytes() &&
           thePlan.binder->usesWorkspace(arguments, smCount);
  }
  uint64_t contextId() const { return context; }
  /// The text of its problem, as profilers show launches. Null if there is no
  /// memory for it.
  const observe::SharedName::Made *shownName() const noexcept {
    return shown.get([this] { return thePlan.problem.text(); });
  }

  /// Whether trials found, before or after it was chosen, that it computes
  /// wrong results; a thread that uses it chooses again. Costs an atomic load;
  /// any thread may call it.
  bool isWrong() const noexcept {
    return wrong.load(std::memory_order_relaxed);
  }
  void markWrong(bool isWrong) const noexcept { wrong = isWrong; }

private:
  friend class KernelLoader;
  LoadedPlan(const Driver &driver, Plan plan)
      : driver(&driver), thePlan(std::move(plan)) {}
  llvm::Error encodeMaps();
  llvm::Error explainWorkspace(const Workspace &workspace) const;

  const Driver *driver;
  mutable std::atomic<bool> wrong{false}; ///< the only mutable parts
  mutable observe::SharedName shown;
  Plan thePlan;
  uint64_t context = 0;
  int32_t smCount = 0;
  llvm::SmallVector<std::shared_ptr<const LoadedKernel>, 2> kernels;
  llvm::SmallVector<CudaFunction, 2> functions;
  llvm::SmallVector<EncodedTensorMap, 4> tensorMaps;
};

/// A plan with the artifacts of its kernels, in their order.
struct CompiledPlan {
  Plan plan;
  llvm::SmallVector<ArtifactPtr, 2> artifacts;
  bool isFresh = true; ///< none comes from the cache, where it may be damaged
};

/// Receives the outcome of each kernel of a plan.
using TakeOutcome =
    llvm::function_ref<void(const TranslationUnit &, const ArtifactOutcome &)>;

/// Gets the artifacts of \p plan. May compile: seconds. Errors: those of
/// ArtifactStore::get; Cancelled once \p cancel, which may be null, is true.
llvm::Expected<CompiledPlan>
obtainArtifacts(ArtifactStore &artifacts, Plan plan,
                const std::atomic<bool> *cancel = nullptr,
                TakeOutcome take = nullptr);

/// Loads \p compiled into the current context. An artifact from the cache that
/// the driver refuses as damaged is compiled again, once. Errors: those of
/// LoadedPlan::load and ArtifactStore::recompile.
llvm::Expected<std::shared_ptr<const LoadedPlan>>
loadPlan(ArtifactStore &artifacts, KernelLoader &loader, CompiledPlan compiled,
         int32_t smCount, KernelLifetime lifetime = KernelLifetime::Context);

/// Calls obtainArtifacts() and loadPlan().
llvm::Expected<std::shared_ptr<const LoadedPlan>>
obtainPlan(ArtifactStore &artifacts, KernelLoader &loader, Plan plan,
           int32_t smCount, KernelLifetime lifetime = KernelLifetime::Context);

} // namespace kiln
