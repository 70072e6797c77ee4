//===- Ranks.h - GPUs whose kernels run at the same time ------------------===//
//
// Several ranks launch kernels that read and write each other's memory. All
// blocks of all ranks run together, as if they were one cluster, while each
// rank has a stream of its own: a launch begins when all blocks of the rank's
// last one have ended, whatever the other ranks do. Ranks pause at random
// before launches and polls, so that now one of them is ahead and now another.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Emulator/KernelLibrary.h"

#include <cstddef>
#include <string>
#include <vector>

namespace kiln::emulated {

/// One launch of one rank. It has to have a block at least.
struct RankLaunch {
  std::vector<std::byte> params; ///< the kernel's parameter
  unsigned blocks = 1;
  unsigned pause = 0; ///< turns before it, beside the random ones
};

/// Kernels of one text that all ranks launch.
struct RankKernel {
  std::string text, entry;
  unsigned threads = 32; ///< of a block
};

/// Runs the launches of each rank, in their order; a rank may have fewer than
/// others. A rank pauses for up to \p longestPause turns before a launch, and
/// its threads before some polls. \p seed decides pauses and turns. Returns the
/// fault of a kernel; "" if all ended well.
std::string runRanks(KernelLibrary &library, const RankKernel &kernel,
                     const std::vector<std::vector<RankLaunch>> &launches,
                     unsigned longestPause, unsigned seed);

} // namespace kiln::emulated
