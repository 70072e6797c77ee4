//===- Emulator.cpp -------------------------------------------------------===//
#include "Emulator/Emulator.h"

#include "Support/Error.h"

#include <cuda.h>

#include <algorithm>

#include <fmt/format.h>

namespace kiln::emulated {

static constexpr size_t kMostParamBytes = 4096;

Emulator::Emulator(unsigned seed) : seed(seed) {
  kilnFakeOnLaunch(
      "",
      [](KilnFakeLaunch *launch, void *emulator) {
        static_cast<Emulator *>(emulator)->launch(*launch);
      },
      this, kMostParamBytes);
}

Emulator::~Emulator() { kilnFakeReset(); }

void Emulator::launch(KilnFakeLaunch &launch) {
  std::lock_guard lock(mutex);
  Dim cluster{1, 1, 1};
  if (launch.cluster[0])
    cluster = {launch.cluster[0], launch.cluster[1], launch.cluster[2]};
  std::string fault;
  auto images = library.images(launch.moduleText, launch.function,
                               cluster.x * cluster.y * cluster.z);
  if (!images)
    fault = summarize(images.takeError()).message;
  Predecessor *ahead = launch.dependentLaunch ? &predecessor : nullptr;
  dependent += ahead != nullptr;
  for (unsigned z = 0; z < launch.grid[2]; z += cluster.z)
    for (unsigned y = 0; y < launch.grid[1]; y += cluster.y)
      for (unsigned x = 0; x < launch.grid[0]; x += cluster.x)
        if (fault.empty())
          fault = Cluster(launch, *images, {x, y, z}, seed++, ahead).run();
  if (fault.empty())
    return;
  launch.result = CUDA_ERROR_LAUNCH_FAILED;
  if (firstFault.empty())
    firstFault = fmt::format("{}: {}", launch.function, fault);
}

} // namespace kiln::emulated
