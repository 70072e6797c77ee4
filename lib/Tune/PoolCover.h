//===- PoolCover.h - the kernels that serve all sizes of a signature ------===//
#pragma once

#include "Compile/TranslationUnit.h"
#include "Kernel/Family.h"
#include "Kernel/PoolDraws.h"

#include <llvm/Support/Error.h>

#include <atomic>
#include <vector>

namespace kiln {

/// The regret of a pool, by the estimate, against the best of a problem's
/// space: 0.01 is 1 %.
struct PoolGoal {
  double mean = 0.003, p99 = 0.02, most = 0.05;
};

struct PoolOptions {
  PoolGoal goal;
  size_t maxKernels = 800; ///< that differ in tiles, rings and splits
  /// The layers that kernels are chosen for. While the goal is not reached they
  /// are doubled, up to `mostLayers`.
  size_t layers = 256, mostLayers = 4096;
  /// Other layers that kernels are judged on: the layers of a set, and the
  /// number of sets. Each set has to reach the goal.
  size_t judges = 64, judgeSets = 4;
  /// The values of the first extent, and how many of them each layer has.
  size_t gridValues = 64, valuesOfLayer = 16;
  /// The limit of a plan's workspace.
  uint64_t workspaceBytes = Allowance::kUnlimited;
  uint64_t seed = 1;
  unsigned threads = 0; ///< 0: as many as this process has CPUs
  const std::atomic<bool> *cancel = nullptr;
};

/// One kernel, with the configs that differ in run-time knobs alone.
struct PoolKernel {
  const Template *tmpl = nullptr;
  std::vector<Values> configs; ///< the most useful first
  /// All kernels of its plans, as far as the samples show, its own first.
  std::vector<TranslationUnit> units;
};

/// The regret of the first `kernels` kernels on the judges.
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
  /// By number of kernels: a few numbers, and at the end that of the whole
  /// pool.
  std::vector<PoolPoint> curve;
  size_t samples = 0, judged = 0; ///< problems
  bool reachesGoal = false;
};

/// Finds the fewest kernels that reach the goal for \p subject, by a greedy
/// search (PoolCover.cpp). Needs no GPU, no driver and no compiler, and gives
/// the same kernels in all processes. Takes 20 to 100 CPU seconds and up to 1
/// GB of memory for GEMM. Errors: NoCandidate (nothing runs), Cancelled.
llvm::Expected<PoolCover> coverSignature(const PoolSubject &subject,
                                         const DeviceModel &device,
                                         const PoolOptions &options = {});

} // namespace kiln
