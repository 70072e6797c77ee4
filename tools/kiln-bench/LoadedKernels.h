//===- LoadedKernels.h - the kernels that an engine loads -----------------===//
#pragma once

#include "cli/LiveSession.h"
#include "compare/EngineCalls.h"

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kiln::cli {

/// Hears which plans an engine loads, and knows their kernels. No driver tells
/// a module's memory on the device: the size of its cubin stands for that.
class LoadedKernels {
public:
  LoadedKernels(const Registry &registry, const DeviceModel &device)
      : registry(registry), device(device) {}

  /// For the engine; *this must outlive it.
  EngineSetup listener() {
    EngineSetup setup;
    setup.event = &LoadedKernels::hear;
    setup.user = this;
    return setup;
  }

  struct Sum {
    size_t kernels = 0;
    uint64_t cubinBytes = 0;
  };
  /// Distinct kernels loaded since the last call, with their sizes from \p
  /// artifacts; kernels that an earlier call counted count again.
  Sum takeNew(ArtifactStore &artifacts);
  /// All of them.
  Sum all() const;

private:
  static void hear(void *self, const kiln_event *event);

  const Registry &registry;
  const DeviceModel &device;
  std::mutex mutex; ///< guards `heard`: engines call from any thread
  std::vector<std::pair<std::string, std::string>> heard; ///< problem, config
  std::map<std::string, uint64_t> known; ///< cubin bytes by artifact key
};

} // namespace kiln::cli
