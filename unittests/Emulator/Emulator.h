//===- Emulator.h - kernels that run without a GPU ------------------------===//
//
// Makes the stand-in driver run kernels, where it else only notes that they
// were launched: kernel_src compiled for the host, its instructions (common's
// Ptx.cuh, PtxSm90.cuh, Wgmma.cuh, WgmmaRegisters.cuh) replaced by functions
// that do the same. A kernel computes the results of an H200, except for the
// last bits of approximations and the order of sums within an instruction. It
// proves that kernels are right, not that they are fast: some 0.3 GFLOP/s.
//
// Cluster.h says how it runs threads, and which faults it cannot see.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Emulator/KernelLibrary.h"
#include "Fakes/FakeCuda.h"

#include <map>
#include <mutex>
#include <string>

namespace kiln::emulated {

/// While it lives, launches of the stand-in driver run. One at a time.
class Emulator {
public:
  /// \p seed: a number that decides the order in which threads take turns.
  explicit Emulator(unsigned seed = 1);
  ~Emulator();
  Emulator(const Emulator &) = delete;
  Emulator &operator=(const Emulator &) = delete;

  /// The fault of the first kernel that failed: a deadlock, an address beyond
  /// shared memory, a misuse of an instruction. The launch of such a kernel
  /// kills its context. "": none failed.
  std::string fault() const { return firstFault; }

  /// The memory that the grid ahead of each dependent launch shares with it,
  /// from now on: see Predecessor. Other launches share nothing.
  void setPredecessor(std::vector<SharedMemoryOfGrids> memory) {
    predecessor = Predecessor(std::move(memory));
  }
  /// Launches that ran as dependent ones.
  int dependentLaunches() const { return dependent; }

private:
  void launch(KilnFakeLaunch &launch);

  std::mutex mutex;
  KernelLibrary library;
  std::map<std::string, unsigned> launches; ///< of each function so far
  unsigned seed;
  Predecessor predecessor{{}};
  int dependent = 0;
  std::string firstFault;
};

} // namespace kiln::emulated
