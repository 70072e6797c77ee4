//===- ClassicModel.cpp ---------------------------------------------------===//
#include "kiln-bench/ClassicModel.h"

#include "Model/MathUtil.h"
#include "Support/Format.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <map>

namespace kiln::cli {

//===----------------------------------------------------------------------===//
// Constants of the model
//===----------------------------------------------------------------------===//

/// Tensor cores and schedulers of an SM; a warp beyond the fourth of a block
/// adds nothing.
static constexpr int64_t kSubCoresPerSm = 4;

/// Flops of a sub-core's tensor cores in a clock: on capability 7 of fp16, from
/// 8 on by width: 32 bits (as tf32), 16 bits, 8 bits.
static constexpr double kTensorFlops7 = 256;
static constexpr double kTensorFlops8Of32Bits = 256;
static constexpr double kTensorFlops8Of16Bits = 512;
static constexpr double kTensorFlops8Of8Bits = 1024;

/// Blocks that reach kDramShareOfFew of the DRAM bandwidth; the rest comes
/// linearly up to kBlocksForAll, the SMs of an A100, on any GPU.
static constexpr double kBlocksForMost = 32;
static constexpr double kBlocksForAll = 108;
static constexpr double kDramShareOfFew = 0.95;
static constexpr double kDramShareOfRest = 0.05;

/// Bytes of an element of D while it is zeroed ahead of a split-K sum, whatever
/// its type.
static constexpr double kZeroBytes = 2;

/// The pruner's mma: 16x8x16 in 8 cycles of a sub-core, and the latency of an
/// asynchronous copy that stages hide.
static constexpr double kMmaOps = 16 * 8 * 16;
static constexpr double kMmaCycles = 8;
static constexpr double kCopyLatencyCycles = 300;

/// Too few stages count as this much further off than too many.
static constexpr double kTooFewPenalty = 10;
static constexpr size_t kKeptPerGroup = 2;
static constexpr int64_t kStages7 = 2;

//===----------------------------------------------------------------------===//
// Estimate
//===----------------------------------------------------------------------===//

/// The peak of the units that \p config multiplies with; fp32 has no tensor
/// cores on capability 7.
static double flopsPerSubCore(const DeviceModel &device, DType type,
                              const ClassicConfig &config) {
  if (!config.tensor || (device.ccMajor < 8 && type == DType::FP32))
    return device.simdFp32FlopsPerClock / static_cast<double>(kSubCoresPerSm);
  if (device.ccMajor < 8)
    return kTensorFlops7;
  switch (bitsOf(type)) {
  case 8:
    return kTensorFlops8Of8Bits;
  case 16:
    return kTensorFlops8Of16Bits;
  default:
    return kTensorFlops8Of32Bits;
  }
}

/// The peak, and the share of the sub-cores that the blocks keep active.
static void addArithmetic(const DeviceModel &device, DType type,
                          const ClassicConfig &config,
                          ClassicEstimate &result) {
  result.subCores = device.smCount * kSubCoresPerSm;
  int64_t warps = result.blocks * std::min(config.numWarps, kSubCoresPerSm);
  result.activeWarps = std::min(result.subCores, warps);
  result.activeShare = static_cast<double>(result.activeWarps) /
                       static_cast<double>(result.subCores);
  result.peakTflops = static_cast<double>(result.subCores) * device.smClockMHz *
                      1e3 * flopsPerSubCore(device, type, config) * 1e-9;
}

/// DRAM bandwidth that the blocks reach.
static void addBandwidth(const DeviceModel &device, ClassicEstimate &result) {
  auto blocks = static_cast<double>(result.blocks);
  double few = std::min(1.0, blocks / kBlocksForMost);
  double rest = std::clamp(
      (blocks - kBlocksForMost) / (kBlocksForAll - kBlocksForMost), 0.0, 1.0);
  result.dramPeakGBs = device.dramPeakBytesPerNs();
  result.shareOfFew = few * kDramShareOfFew;
  result.shareOfRest = rest * kDramShareOfRest;
  result.dramGBs =
      result.dramPeakGBs * (result.shareOfFew + result.shareOfRest);
}

ClassicEstimate estimateClassic(const DeviceModel &device, DType type,
                                int64_t m, int64_t n, int64_t k,
                                const ClassicConfig &config) {
  assert(m > 0 && n > 0 && config.splitK > 0 && config.numWarps > 0 &&
         "nothing to estimate");
  ClassicEstimate result;
  result.tilesM = ceilDiv(m, config.blockM);
  result.tilesN = ceilDiv(n, config.blockN);
  result.blocks = result.tilesM * result.tilesN * config.splitK;
  // A tile is computed and moved in full, even if the problem is smaller.
  double rows = static_cast<double>(std::max(m, config.blockM));
  double columns = static_cast<double>(std::max(n, config.blockN));
  double depth = static_cast<double>(k);
  double elementBytes = bytesOf(type);

  addArithmetic(device, type, config, result);
  result.operations = 2 * rows * columns * depth;
  result.computeMs = result.operations / kClassicGibi /
                     (result.activeShare * result.peakTflops);

  // The first tile that wants a row or column loads it from DRAM.
  addBandwidth(device, result);
  double bytesA = rows * depth * elementBytes;
  double bytesB = columns * depth * elementBytes;
  double repeatsA = static_cast<double>(result.tilesN - 1);
  double repeatsB = static_cast<double>(result.tilesM - 1);
  constexpr double kHitShare = 1 - kClassicMissShare;
  result.dramBytes = bytesA * (1 + kClassicMissShare * repeatsA) +
                     bytesB * (1 + kClassicMissShare * repeatsB);
  result.l2Bytes =
      bytesA * kHitShare * repeatsA + bytesB * kHitShare * repeatsB;
  result.loadMs =
      result.dramBytes / kClassicMebi / result.dramGBs +
      result.l2Bytes / kClassicMebi / (result.dramGBs * kClassicL2OverDram);

  result.storedBytes =
      rows * columns * elementBytes * static_cast<double>(config.splitK);
  result.zeroedBytes = config.splitK == 1 ? 0 : rows * columns * kZeroBytes;
  result.storeMs = (result.storedBytes + result.zeroedBytes) / kClassicMebi /
                   (result.dramGBs * kClassicStoreShare);
  result.totalMs = std::max(result.computeMs, result.loadMs) + result.storeMs;
  return result;
}

//===----------------------------------------------------------------------===//
// Pruning
//===----------------------------------------------------------------------===//

/// Positions of configs that differ in numStages alone, in input order.
using Siblings = std::vector<size_t>;

/// Stages at which the math of the others hides one copy.
static double optimalStages(const ClassicConfig &config) {
  double mmas = static_cast<double>(config.blockM) *
                static_cast<double>(config.blockN) *
                static_cast<double>(config.blockK) / kMmaOps;
  double cycles =
      mmas / static_cast<double>(std::min(config.numWarps, kSubCoresPerSm)) *
      kMmaCycles;
  return kCopyLatencyCycles / cycles;
}

/// Keeps the two siblings nearest to the optimum, the nearest first.
static void keepNearest(llvm::ArrayRef<ClassicConfig> configs,
                        Siblings siblings, ClassicPruning &pruning) {
  double optimum = optimalStages(configs[siblings.front()]);
  auto distance = [&](size_t index) {
    double excess = static_cast<double>(configs[index].numStages) - optimum;
    return excess < 0 ? kTooFewPenalty - excess : excess;
  };
  std::stable_sort(siblings.begin(), siblings.end(), [&](size_t a, size_t b) {
    return distance(a) < distance(b);
  });
  for (size_t rank = 0; rank < siblings.size(); ++rank) {
    size_t index = siblings[rank];
    if (rank < kKeptPerGroup)
      pruning.kept.push_back({configs[index], index});
    else
      pruning.rejected.push_back(
          {index, ClassicReason::Stages, 0, 0,
           fmt::format("{} stages, the optimum is {:.2f} and {} others are "
                       "nearer",
                       configs[index].numStages, optimum, kKeptPerGroup)});
  }
}

/// Keeps the first sibling, with the two stages that capability 7 has.
static void keepFirst(llvm::ArrayRef<ClassicConfig> configs,
                      llvm::ArrayRef<size_t> siblings,
                      ClassicPruning &pruning) {
  ClassicConfig config = configs[siblings.front()];
  config.numStages = kStages7;
  pruning.kept.push_back({config, siblings.front()});
  for (size_t index : siblings.drop_front())
    pruning.rejected.push_back(
        {index, ClassicReason::TwoStages, 0, 0,
         fmt::format("capability 7 has {} stages, another config stands for it",
                     kStages7)});
}

/// Checks one config by itself; true when it stays.
static bool passesAlone(const DeviceModel &device, DType type,
                        const ClassicConfig &config, size_t index,
                        ClassicPruning &pruning) {
  int64_t bytes = (config.blockM + config.blockN) * config.blockK *
                  config.numStages * bytesOf(type);
  if (bytes > device.sharedBytesPerBlock) {
    pruning.rejected.push_back(
        {index, ClassicReason::SharedMemory, bytes, device.sharedBytesPerBlock,
         fmt::format("needs {} B of shared memory, limit {}", bytes,
                     device.sharedBytesPerBlock)});
    return false;
  }
  bool canAdd = type == DType::FP16 || type == DType::FP32;
  if (config.splitK != 1 && !canAdd) {
    pruning.rejected.push_back(
        {index, ClassicReason::SplitKType, config.splitK, 1,
         fmt::format("split-K {} needs atomic addition, which only fp16 and "
                     "fp32 have",
                     config.splitK)});
    return false;
  }
  return true;
}

ClassicPruning pruneClassic(const DeviceModel &device, DType type,
                            llvm::ArrayRef<ClassicConfig> configs) {
  ClassicPruning pruning;
  std::vector<Siblings> groups;
  std::map<std::array<int64_t, 5>, size_t> groupOf;
  for (size_t index = 0; index < configs.size(); ++index) {
    const ClassicConfig &config = configs[index];
    if (!passesAlone(device, type, config, index, pruning))
      continue;
    auto [it, isNew] =
        groupOf.try_emplace({config.blockM, config.blockN, config.blockK,
                             config.splitK, config.numWarps},
                            groups.size());
    if (isNew)
      groups.emplace_back();
    groups[it->second].push_back(index);
  }
  for (const Siblings &siblings : groups) {
    if (device.ccMajor >= 8)
      keepNearest(configs, siblings, pruning);
    else
      keepFirst(configs, siblings, pruning);
  }
  return pruning;
}

} // namespace kiln::cli
