//===- Ranks.cpp ----------------------------------------------------------===//
#include "Emulator/Ranks.h"

#include "Support/Error.h"

#include <algorithm>
#include <random>
#include <utility>

namespace kiln::emulated {

namespace {

/// The parameter of every thread of a run.
struct RankRun {
  const std::vector<std::vector<RankLaunch>> &launches;
  std::vector<KernelImage> images; ///< rank by rank
  unsigned blocks = 1;             ///< of a rank: the most of a launch
  unsigned threads = 32;
  /// How long a rank pauses before each launch.
  std::vector<std::vector<unsigned>> pauses;
  /// Threads of each rank that have ended a launch, all launches counted.
  std::vector<unsigned long long> ended;
  unsigned longestPause = 0;
  std::mt19937 random;
  void (*poll)() = nullptr; ///< the machine's own
};

} // namespace

/// The run whose threads poll: a machine's functions have no other way to it.
static RankRun *polling = nullptr;

/// Polls after a pause, now and then: a thread that sees its data late still
/// needs the place where it is.
static void pollLate() {
  unsigned turns = 1;
  if (polling->random() % 16 == 0)
    turns += polling->random() % (polling->longestPause + 1);
  for (; turns > 0; --turns)
    polling->poll();
}

/// A thread of a rank's block: makes its part of all launches. Blocks that a
/// launch has not wait for its end.
static void runLaunches(const void *shared) {
  auto &run = *static_cast<RankRun *>(const_cast<void *>(shared));
  Machine &machine = **run.images[0].machine;
  if (machine.poll != pollLate)
    run.poll = std::exchange(machine.poll, pollLate);
  const unsigned rank = machine.thread->blockIdx.y;
  const unsigned block = machine.thread->blockIdx.x;
  const KernelImage &image = run.images[rank * run.blocks + block];
  unsigned long long all = 0;
  for (size_t i = 0; i < run.launches[rank].size(); ++i) {
    const RankLaunch &launch = run.launches[rank][i];
    for (unsigned turn = 0; turn < run.pauses[rank][i]; ++turn)
      machine.poll();
    machine.thread->gridDim = {launch.blocks, 1, 1};
    if (block < launch.blocks)
      image.entry(launch.params.data());
    all += run.blocks * run.threads;
    ++run.ended[rank];
    while (run.ended[rank] < all)
      machine.poll();
  }
}

std::string runRanks(KernelLibrary &library, const RankKernel &kernel,
                     const std::vector<std::vector<RankLaunch>> &launches,
                     unsigned longestPause, unsigned seed) {
  RankRun run{.launches = launches,
              .images = {},
              .threads = kernel.threads,
              .pauses = {},
              .ended = {},
              .longestPause = longestPause,
              .random = std::mt19937(seed)};
  polling = &run;
  std::mt19937 random(seed);
  for (const auto &ofRank : launches) {
    auto &pauses = run.pauses.emplace_back();
    for (const RankLaunch &launch : ofRank) {
      run.blocks = std::max(run.blocks, launch.blocks);
      // Mostly none, so that ranks also run close behind each other.
      pauses.push_back(launch.pause +
                       (random() % 3 ? 0 : random() % (longestPause + 1)));
    }
  }
  const auto ranks = static_cast<unsigned>(launches.size());
  run.ended.resize(ranks);
  auto images = library.images(kernel.text, kernel.entry, run.blocks * ranks);
  if (!images)
    return summarize(images.takeError()).message;
  run.images = *images;
  for (KernelImage &image : *images)
    image.entry = runLaunches;
  KilnFakeLaunch launch = {};
  launch.params = &run;
  launch.grid[0] = run.blocks;
  launch.grid[1] = launch.grid[2] = 1;
  launch.block[0] = kernel.threads;
  launch.block[1] = launch.block[2] = 1;
  return Cluster(launch, *images, {0, 0, 0}, {run.blocks, ranks, 1}, seed,
                 /*unwritten=*/0xff, /*predecessor=*/nullptr)
      .run();
}

} // namespace kiln::emulated
