//===- PoolCover.h - the kernels that serve all sizes of a signature ------===//
#pragma once

#include "Compile/TranslationUnit.h"
#include "Kernel/Family.h"
#include "Kernel/PoolDraws.h"

#include <llvm/Support/Error.h>

#include <atomic>
#include <vector>

namespace kiln {

/// How far a pool may be behind the best of a problem's space, by the estimate:
/// 0.01 is 1 %.
struct PoolGoal {
  double mean = 0.003, p99 = 0.02, most = 0.05;
};

struct PoolOptions {
  PoolGoal goal;
  size_t maxKernels = 800; ///< that tiles, rings and splits tell apart
  /// Layers that kernels are chosen for, and where the goal is not reached,
  /// twice as many of them, up to most.
  size_t layers = 256, mostLayers = 4096;
  /// Other layers that kernels are judged on: those of a set, and sets, of
  /// which each has to reach the goal.
  size_t judges = 64, judgeSets = 4;
  /// Values of the first extent, of which each layer has some.
  size_t gridValues = 64, valuesOfLayer = 16;
  /// Of the workspace of a plan.
  uint64_t workspaceBytes = Allowance::kUnlimited;
  uint64_t seed = 1;
  unsigned threads = 0; ///< 0: as many as this process has CPUs
  const std::atomic<bool> *cancel = nullptr;
};

/// One kernel, with the configs that differ in run-time knobs alone.
struct PoolKernel {
  const Template *tmpl = nullptr;
  std::vector<Values> configs; ///< the most useful first
  /// All kernels that its plans have, as far as samples tell, its own first.
  std::vector<TranslationUnit> units;
};

/// How near the first so many kernels come on the judges.
struct PoolPoint {
  size_t kernels = 0;
  double mean = 0, p99 = 0, most = 0;

  bool reaches(const PoolGoal &goal) const {
    return mean <= goal.mean && p99 <= goal.p99 && most <= goal.most;
  }
};

struct PoolCover {
  /// The generic one first, then the most valuable first.
  std::vector<PoolKernel> kernels;
  /// By number of kernels: a few, and at the end all that the pool has.
  std::vector<PoolPoint> curve;
  size_t samples = 0, judged = 0; ///< problems
  bool reachesGoal = false;
};

/// The fewest kernels that reach the goal for \p subject, as far as a greedy
/// search finds them; PoolCover.cpp says how. Needs no GPU, no driver and no
/// compiler, and gives the same kernels in all processes. For GEMM 20 to 100
/// CPU seconds and up to 1 GB of memory. Errors: NoCandidate (nothing runs),
/// Cancelled.
llvm::Expected<PoolCover> coverSignature(const PoolSubject &subject,
                                         const DeviceModel &device,
                                         const PoolOptions &options = {});

} // namespace kiln
