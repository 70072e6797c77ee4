//===- DerivationSteps.h - steps of explain that GEMM kernels share -------===//
#pragma once

#include "Families/Gemm/GemmProblem.h"
#include "Kernel/Derivation.h"
#include "Model/Occupancy.h"
#include "Model/Pipeline.h"

#include "Device/DeviceModel.h"

namespace kiln {

/// A step of k of a kernel with tiles, with the limits that explain the rest.
struct TilePace {
  int number = 0; ///< of the step that tells the pace
  /// Names of its terms of arithmetic and L2, and what sets the pace.
  llvm::StringRef arithmetic, l2, pacer;
  double mathNs = 0, l2Ns = 0;
  double flops = 0, bytes = 0; ///< of a block's step
  /// The limit that the estimate names, and its name for the kernel's
  /// arithmetic.
  llvm::StringRef bound, arithmeticBound;
  /// Behind the titles: " of the last wave", of which nothing is said that
  /// holds for the whole kernel. Empty: the wave that names the bound.
  llvm::StringRef suffix = {};
};

/// Appends how many stages \p ring needs at the estimate's rate, and the
/// latency that it leaves exposed. Returns the step's number.
int explainLatency(const Pipeline &ring, const TilePace &pace,
                   Derivation &steps);

/// Appends what a tile of \p rows x \p columns asks of L2 for its arithmetic,
/// at the rates that the pace comes from.
void explainTileIntensity(int64_t rows, int64_t columns, DType type,
                          const TilePace &pace, Derivation &steps);

/// Appends what the problem asks of DRAM where its arithmetic runs at
/// \p flopsPerNs.
void explainProblemIntensity(const GemmProblem &problem, double flopsPerNs,
                             const DeviceModel &device, const TilePace &pace,
                             Derivation &steps);

/// Appends blocks of an SM by each resource.
void explainOccupancy(const Occupancy &occupancy, const DeviceModel &device,
                      Derivation &steps);

} // namespace kiln
