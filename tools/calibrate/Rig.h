//===- Rig.h - kernels, memory and clocks of the micro-benchmarks ---------===//
#pragma once

#include "Driver/DeviceMemory.h"
#include "Driver/Event.h"
#include "Driver/Graph.h"
#include "Driver/Launcher.h"
#include "Driver/Module.h"
#include "Driver/Stream.h"
#include "Store/ArtifactStore.h"
#include "calibrate/CalibrateParams.h"

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/MathExtras.h>

#include <memory>
#include <string>
#include <vector>

namespace kiln::cli {

/// The geometry of a launch.
struct RigLaunch {
  uint32_t blocks = 1, threads = 1, sharedBytes = 0;
};

/// All kernels, loaded into the current context, and a large piece of its
/// memory. For one thread.
class Rig {
public:
  /// Compiles the kernels or takes them from the cache, some seconds. \p driver
  /// and \p device must outlive it. Errors: those of ArtifactStore::get and
  /// Module::load; DeviceOutOfMemory where little memory is free.
  static llvm::Expected<std::unique_ptr<Rig>> create(const Driver &driver,
                                                     ArtifactStore &artifacts,
                                                     const DeviceModel &device);

  const DeviceModel &device() const { return model; }

  /// Two buffers, each of bytes() bytes.
  DeviceAddress from() const { return memory.address(); }
  DeviceAddress to() const { return memory.address() + bytes(); }
  uint64_t bytes() const { return memory.bytes() / 2; }

  /// The bytes of the longest chain of pointers, which has to miss the L2. A
  /// buffer has at least as many.
  uint64_t chainBytes() const {
    constexpr uint64_t kL2s = 4;
    return llvm::PowerOf2Ceil(kL2s * static_cast<uint64_t>(model.l2Bytes));
  }

  /// The words that kernels write, 0 at first: room for kMostSpans spans, a
  /// word that is never written, a flag, the place of a chase.
  static constexpr uint32_t kMostSpans = 1 << 16;
  calibrate::Span *spans() const;
  unsigned *sink() const;
  unsigned *flag() const { return sink() + 1; }
  unsigned long long *place() const;

  /// Enqueues a launch of the kernel called \p name.
  template <class Params>
  llvm::Error start(llvm::StringRef name, const RigLaunch &launch,
                    const Params &params) {
    LaunchSpec spec;
    return enqueue(name, launch, spec, spec.addKernel(params));
  }

  /// A graph of \p count launches, one behind the other.
  template <class Params>
  llvm::Expected<Graph> graphOf(llvm::StringRef name, const RigLaunch &launch,
                                const Params &params, unsigned count) {
    LaunchSpec spec;
    return buildGraph(name, launch, spec, spec.addKernel(params), count);
  }

  /// The device time of the work that \p work enqueues, in ns.
  llvm::Expected<double> timeNs(llvm::function_ref<llvm::Error()> work);

  /// Waits for all work, then reads the first \p count spans.
  llvm::Expected<std::vector<calibrate::Span>> readSpans(uint32_t count);

  /// Sets \p bytes at \p address to 0, in order.
  llvm::Error clear(DeviceAddress address, uint64_t bytes);

  /// Clusters of \p size blocks that are resident at once with one block to an
  /// SM.
  llvm::Expected<int64_t> clustersOf(uint32_t size);

  const Driver &driver() const { return cuda; }
  CudaStream stream() const { return work.handle(); }

private:
  Rig(const Driver &driver, const DeviceModel &device, Stream stream,
      Event begin, Event end)
      : cuda(driver), model(device), work(std::move(stream)),
        begin(std::move(begin)), end(std::move(end)) {}
  llvm::Error load(ArtifactStore &artifacts);
  llvm::Error allocate();
  llvm::Expected<CudaFunction>
  prepare(llvm::StringRef name, const RigLaunch &launch, KernelStep &step);
  llvm::Error enqueue(llvm::StringRef name, const RigLaunch &launch,
                      LaunchSpec &spec, KernelStep &step);
  llvm::Expected<Graph> buildGraph(llvm::StringRef name,
                                   const RigLaunch &launch, LaunchSpec &spec,
                                   KernelStep &step, unsigned count);

  const Driver &cuda;
  const DeviceModel &model;
  std::vector<Module> modules;
  llvm::StringMap<CudaFunction> functions;
  DeviceMemory memory, results;
  Stream work;
  Event begin, end;
};

} // namespace kiln::cli
