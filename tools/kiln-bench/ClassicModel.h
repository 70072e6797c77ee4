//===- ClassicModel.h - the classic matmul performance model --------------===//
//
// The roofline-like model that Triton's matmul shipped with: time =
// max(compute, load) + store, where 80 % of repeated loads hit L2, L2 is four
// times as fast as DRAM, and 32 blocks all but saturate DRAM. It is kept, with
// its constants, as the baseline that the estimate must beat. It ranks tile
// templates; numWarps is threads / 32. Its tensor peaks are its own: by
// capability 7 or 8 and up, so that it knows no wgmma. Kernels of ordinary
// arithmetic have a function of their own (get_simd_tflops), with the same
// share of active sub-cores. That function's figure of 32 flops a sub-core
// holds for 7.x and 8.0; from 8.6 on there are twice as many lanes. So the
// device's rate is used, which equals the figure where that holds.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"

#include <llvm/ADT/ArrayRef.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::cli {

/// One config, in the terms of the classic model.
struct ClassicConfig {
  int64_t blockM = 0, blockN = 0, blockK = 0;
  int64_t splitK = 1;
  int64_t numWarps = 0;
  int64_t numStages = 0;
  bool tensor = true; ///< false: it multiplies by FFMA, in fp32

  friend bool operator==(const ClassicConfig &,
                         const ClassicConfig &) = default;
};

/// Share of the repeated loads of a tile that miss L2; the others hit.
inline constexpr double kClassicMissShare = 0.2;
/// L2 over DRAM bandwidth, and write over read bandwidth of DRAM.
inline constexpr double kClassicL2OverDram = 4;
inline constexpr double kClassicStoreShare = 0.6;
/// Units of the model: operations count in 2^30 against rates in 10^12 per
/// second, bytes in 2^20 against 10^9 per second, and both are read as
/// milliseconds.
inline constexpr double kClassicGibi = 1024.0 * 1024 * 1024;
inline constexpr double kClassicMebi = 1024.0 * 1024;

/// A predicted time, its terms in milliseconds, and the inputs of these.
struct ClassicEstimate {
  double computeMs = 0;
  double loadMs = 0;
  double storeMs = 0;
  double totalMs = 0; ///< max(compute, load) + store

  int64_t tilesM = 0, tilesN = 0, blocks = 0;
  int64_t subCores = 0;    ///< of the chip
  int64_t activeWarps = 0; ///< that feed one each, at most as many
  double activeShare = 0;  ///< activeWarps / subCores
  double peakTflops = 0;   ///< of all sub-cores
  double operations = 0;   ///< of whole tiles
  double dramPeakGBs = 0;  ///< of the pins
  /// Share of it that the first blocks reach, and the share that later ones
  /// add.
  double shareOfFew = 0, shareOfRest = 0;
  double dramGBs = 0; ///< reached by all blocks
  double dramBytes = 0, l2Bytes = 0;
  double storedBytes = 0, zeroedBytes = 0;

  bool isComputeBound() const { return computeMs >= loadMs; }
};

/// Predicts the time of D[m, n] = A[m, k] B[k, n] with \p type for all of them.
/// fp32 on tensor cores is tf32, from capability 8.0 on; before, and for
/// configs without tensor cores, it is FFMA. m, n and all of \p config must be
/// at least 1. Reads of \p device only the capability, SMs, maximum clocks, the
/// FFMA rate and the memory bus. Pure, constant time.
ClassicEstimate estimateClassic(const DeviceModel &device, DType type,
                                int64_t m, int64_t n, int64_t k,
                                const ClassicConfig &config);

/// Why the classic pruner rejects a config.
enum class ClassicReason : int32_t {
  SharedMemory = 0, ///< its stages do not fit
  SplitKType = 10,  ///< partial sums of this type cannot be added atomically
  Stages = 20,      ///< two siblings are nearer to the optimal stages
  TwoStages = 30,   ///< capability 7: one config stands for all its siblings
};

/// A config that survives, and its position in the input. On capability 7
/// numStages became 2, so that it need not be equal to that of the input.
struct ClassicSurvivor {
  ClassicConfig config;
  size_t index = 0;
};

/// A rejected config, and why.
struct ClassicRejection {
  size_t index = 0; ///< in the input
  ClassicReason reason = ClassicReason::SharedMemory;
  /// The figure that broke a limit: bytes of shared memory or splits; both 0
  /// where a sibling was merely better.
  int64_t value = 0, limit = 0;
  std::string text; ///< with the figures, e.g. "needs 262144 B, limit 232448"
};

/// Outcome of the pruner: every index of the input is in exactly one list.
struct ClassicPruning {
  std::vector<ClassicSurvivor> kept;      ///< in the pruner's order
  std::vector<ClassicRejection> rejected; ///< lone faults first, then siblings
};

/// Prunes \p configs: shared memory, then types without atomic addition, then
/// of the configs that differ in numStages alone, the two nearest to the
/// optimum (capability 8 and up) or the first with 2 stages (7). Groups come in
/// the order of their first config. O(n log n).
ClassicPruning pruneClassic(const DeviceModel &device, DType type,
                            llvm::ArrayRef<ClassicConfig> configs);

} // namespace kiln::cli
