//===- Emulator.cpp -------------------------------------------------------===//
#include "Emulator/Emulator.h"

#include "Support/Error.h"

#include <cuda.h>

#include <algorithm>

#include <fmt/format.h>

namespace kiln::emulated {

static constexpr size_t kMostParamBytes = 4096;

/// Bytes of unwritten memory: no numbers, or small ones, of all float types.
static constexpr unsigned char kNoNumber = 0xff, kSmall = 0x3c;

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
  // Blocks of a cooperative grid wait for each other: it runs as one.
  if (launch.cooperative && cluster.x * cluster.y * cluster.z == 1)
    cluster = {launch.grid[0], launch.grid[1], launch.grid[2]};
  std::string fault;
  auto images = library.images(launch.moduleText, launch.function,
                               cluster.x * cluster.y * cluster.z);
  if (!images)
    fault = summarize(images.takeError()).message;
  Predecessor *ahead = launch.dependentLaunch ? &predecessor : nullptr;
  dependent += ahead != nullptr;
  // Results that depend on either differ from launch to launch.
  const bool isOdd = launches[launch.function]++ % 2;
  const unsigned char unwritten = isOdd ? kSmall : kNoNumber;
  std::vector<Dim> clusters;
  for (unsigned z = 0; z < launch.grid[2]; z += cluster.z)
    for (unsigned y = 0; y < launch.grid[1]; y += cluster.y)
      for (unsigned x = 0; x < launch.grid[0]; x += cluster.x)
        clusters.push_back({x, y, z});
  if (isOdd)
    std::reverse(clusters.begin(), clusters.end());
  for (const Dim &first : clusters)
    if (fault.empty())
      fault = Cluster(launch, *images, first, cluster, seed++, unwritten, ahead)
                  .run();
  if (fault.empty())
    return;
  launch.result = CUDA_ERROR_LAUNCH_FAILED;
  if (firstFault.empty())
    firstFault = fmt::format("{}: {}", launch.function, fault);
}

} // namespace kiln::emulated
