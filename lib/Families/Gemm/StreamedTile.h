//===- StreamedTile.h - GEMM kernels for one small extent -----------------===//
//
// The common host code of the templates for small m or n: which operand they
// stream, and how long that takes. The rows of one operand, once each, set the
// time.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Gemm/GemmProblem.h"
#include "Kernel/Derivation.h"
#include "Kernel/Estimate.h"
#include "Kernel/FastestVariant.h"

#include "Device/DeviceModel.h"
#include "Model/MathUtil.h"
#include "Model/Occupancy.h"

#include <llvm/ADT/ArrayRef.h>

#include <optional>

namespace kiln {

/// Numbers of vectors that kernels with tensor cores are compiled for; a
/// product takes the next one up.
inline constexpr int kStreamedVectors[] = {8, 16, 24, 32, 48, 64};

/// The least of kStreamedVectors that holds \p vectors; 0: none does.
int paddedVectors(int64_t vectors);

/// Clocks that a warp's instructions of a step take on its sub-core.
struct StreamedClocks {
  double loop = 0;
  double copies = 0; ///< loads and copies with their addresses
  double fragments = 0;
  double decoding = 0; ///< of packed weights, and conversions of elements
  double sums = 0;     ///< scaling and promotion of sums
  double products = 0; ///< by ordinary instructions
  double flop = 0;     ///< of products by tensor cores, at the device's rate
};

/// A kernel that streams rows past vectors, as the estimate sees it. Its warps
/// walk along k in steps: the loads of a step are issued, awaited and used.
struct StreamedTile {
  bool streamsA = false; ///< A is streamed past the rows of B, else B past A's
  int rows = 0, vectors = 0; ///< of a block
  int splitK = 1;
  /// Blocks of an SM that take all tiles in turn; 0: each tile has a block.
  int turnsPerSm = 0;
  BlockResources block;
  int stepK = 1; ///< elements of k that all warps of a block cover in a step
  int stepsInFlight = 1; ///< steps whose loads are in flight at a time
  StreamedClocks step;
  double partialClocks = 0; ///< further ones where k ends within the step
  double waitClocks = 0;    ///< waits of a step that only other warps cover
  double latencyShare = 1;  ///< latency of the loads, in those of an idle DRAM
  /// The rate of the tensor cores, where most of the instructions use them.
  double DeviceModel::*tensorRate = nullptr;
  double vectorShare = 1; ///< part of the vectors' reads that reach L2
  /// Bytes of a streamed element, with its share of scales, in those of A's.
  double streamedShare = 1;
  /// Part of the DRAM's rate that is lost because a block reads short runs of
  /// many rows in turn.
  double lostShare = 0;
  double l2Share = 1; ///< part of L2's bandwidth that the loads' width reaches
  double startNs = 0; ///< of a block, from its start to its first step
  /// The cost, once, of the first wave's blocks ending together: nothing is in
  /// flight while the next ones start.
  double restartNs = 0;
  double tailNs = 0; ///< from the last bytes' arrival to the end of the kernel
};

/// The extent that is streamed, and the other one.
int64_t streamedExtent(const GemmProblem &problem, bool streamsA);
int64_t vectorExtent(const GemmProblem &problem, bool streamsA);

/// Blocks that an SM holds of a kernel that needs \p block, at least 1. The
/// compiler is told this number, so that it takes no more registers.
int streamedBlocksPerSm(BlockResources block, const DeviceModel &device);

/// Whether \p splitK blocks that share the \p steps along k of each tile fill
/// SMs that \p tiles whole ones leave idle.
bool fillsIdleSms(int64_t tiles, int64_t steps, int splitK,
                  const DeviceModel &device);

/// Calls \p emit with \p config and those of \p splits, largest first, that
/// fill idle SMs: two, as fewer blocks leave SMs idle, which is their point.
template <class Config>
void forEachStreamedSplit(const GemmProblem &problem, Config config,
                          llvm::ArrayRef<int> splits, const DeviceModel &device,
                          Emit<Config> emit) {
  constexpr int kMost = 2;
  config.splits = config.splitK = 1;
  const int64_t tiles =
      config.grid().blocks(problem.m, problem.n, problem.batch);
  const int64_t steps = ceilDiv(problem.k, config.blockK());
  int emitted = 0;
  for (int splitK : splits)
    if (emitted < kMost && fillsIdleSms(tiles, steps, splitK, device)) {
      config.splitK = splitK;
      emit(config);
      ++emitted;
    }
}

/// The limits that all such kernels have: capability 8.0, operands stored NT
/// with rows aligned to 16 bytes, and at most \p vectors vectors.
std::optional<Rejection> checkStreamed(const GemmProblem &problem,
                                       const GemmSignature &signature,
                                       bool streamsA, int vectors,
                                       const DeviceModel &device);

/// Predicted time of \p kernel on \p problem:
///   launch + ramp + stream + restarts + tail + reduction,
/// with stream, for each wave, the 4-norm of what DRAM, L2, the SMs' ports, a
/// block's own path along k and the instructions take; the largest names the
/// bound. About a microsecond.
Estimate estimateTile(const GemmProblem &problem, const StreamedTile &kernel,
                      const DeviceModel &device);

/// The same with its derivation, which is added to \p steps.
Prediction<Figure> explainTile(const GemmProblem &problem,
                               const StreamedTile &kernel,
                               const DeviceModel &device, Derivation &steps);

} // namespace kiln
