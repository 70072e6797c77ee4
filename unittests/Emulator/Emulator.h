//===- Emulator.h - kernels that run without a GPU ------------------------===//
//
// Makes the stand-in driver run kernels, where it else only notes that they
// were launched: kernel_src compiled for the host, its instructions (common's
// Ptx.cuh, PtxSm90.cuh, Wgmma.cuh, WgmmaRegisters.cuh) replaced by functions
// that do the same. What a kernel computes is what an H200 computes, but for
// the last bits of approximations and the order of sums within an instruction.
// It proves that kernels are right, not that they are fast: some 0.3 GFLOP/s.
//
// How it runs threads, and what it cannot see: Cluster.h.
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
  /// \p seed: of the order in which threads take turns.
  explicit Emulator(unsigned seed = 1);
  ~Emulator();
  Emulator(const Emulator &) = delete;
  Emulator &operator=(const Emulator &) = delete;

  /// What the first kernel that failed did: a deadlock, an address beyond
  /// shared memory, a misuse of an instruction. The launch of such a kernel
  /// kills its context. "": none did.
  std::string fault() const { return firstFault; }

  /// What the grid ahead of each dependent launch shares with it, from now on:
  /// see Predecessor. Of launches that do not depend nothing.
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
