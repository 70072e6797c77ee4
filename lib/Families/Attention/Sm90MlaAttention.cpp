//===- Sm90MlaAttention.cpp - MLA by wgmma --------------------------------===//
//
// A block has 64 rows and the tensor cores of its SM, whatever the config. The
// choices left are how many blocks load keys together, and the number of splits
// of the keys.
//
//===----------------------------------------------------------------------===//
#include "Families/Attention/AttentionEstimate.h"
#include "Families/Attention/AttentionTemplate.h"
#include "Families/Attention/Sm90MlaPlan.h"
#include "Model/MathUtil.h"

#include <algorithm>

namespace kiln {

namespace {

constexpr int kMlaCapability = 90; // the only architecture with wgmma
/// Quarters of a block for each SM: a wave, half of one, and several, for
/// numbers of sequences that fill no whole waves.
constexpr int kMlaFills[] = {4, 2, 8, 12, 16};

class Sm90MlaAttention final : public AttentionTemplate<Sm90MlaConfig> {
public:
  Sm90MlaAttention()
      : AttentionTemplate({.header = "attention/Sm90MlaAttention.cuh",
                           .signatureType = "AttentionSignature",
                           .configType = "Sm90MlaConfig",
                           .paramsType = "Sm90MlaParams",
                           .function = "sm90MlaAttention",
                           .archSpecific = true}) {}

protected:
  void forEachConfig(
      const AttentionProblem &problem, const AttentionSignature &signature,
      const DeviceModel &device,
      llvm::function_ref<void(const Sm90MlaConfig &)> emit) const override;
  void forEachVariant(
      const AttentionProblem &problem, const AttentionSignature &signature,
      const Sm90MlaConfig &config, const DeviceModel &device,
      llvm::function_ref<void(const Sm90MlaConfig &)> emit) const override;

  CandidateClass classOfConfig(const Sm90MlaConfig &config) const override {
    uint64_t key = 3;
    for (int part : {config.cluster, config.pieces})
      key = key * 1024 + static_cast<uint64_t>(part);
    return {.key = key, .rank = config.cluster, .ranksByTime = true};
  }

  std::optional<Rejection>
  checkLimits(const AttentionProblem &problem,
              const AttentionSignature &signature, const Sm90MlaConfig &config,
              const DeviceModel &device) const override;

  Estimate predict(const AttentionProblem &problem, const Sm90MlaConfig &config,
                   const DeviceModel &device, Detail detail) const override {
    return estimateAttentionTiles(problem, tileKernel(problem, config, device),
                                  device, detail);
  }
  Derivation derive(const AttentionProblem &problem,
                    const Sm90MlaConfig &config,
                    const DeviceModel &device) const override {
    return explainAttentionTiles(problem, tileKernel(problem, config, device),
                                 device);
  }

  WorkspaceLayout workspaceOf(const AttentionProblem &problem,
                              const Sm90MlaConfig &config,
                              const DeviceModel &device) const override {
    return sm90MlaWorkspace(problem, config, device);
  }

  void completePlan(const AttentionProblem &problem,
                    const AttentionSignature &signature,
                    const Sm90MlaConfig &config, const DeviceModel &device,
                    Plan &plan) const override {
    completeSm90MlaPlan(problem, signature, config, device, plan);
  }

private:
  /// The kernel in the form that its estimate needs.
  static AttentionTileKernel tileKernel(const AttentionProblem &problem,
                                        const Sm90MlaConfig &config,
                                        const DeviceModel &device);
};

} // namespace

/// Clocks for which a box of a page occupies the loading thread, in addition to
/// two divisions a block of keys. 128 sequences of 4096 keys, 128 heads (H200):
/// 267 us with pages of 64, 245 us without; 16 sequences, pages of 16: 62 us,
/// 50 us without.
static constexpr double kBoxClocks = 55;

/// Boxes of pages that a block of the grid loads in a step.
static int64_t boxesOfStep(const AttentionProblem &problem,
                           const Sm90MlaConfig &config) {
  if (!problem.isPaged())
    return 0;
  const int64_t keys = config.loadedKeys();
  return Sm90MlaConfig::keySlabs(signatureOf(problem)) *
         ceilDiv(keys, std::min(keys, problem.pageSize));
}

AttentionTileKernel
Sm90MlaAttention::tileKernel(const AttentionProblem &problem,
                             const Sm90MlaConfig &config,
                             const DeviceModel &device) {
  DecodeGrid grid(problem, blocksOf(config), device.smCount);
  AttentionTileKernel kernel;
  kernel.rows = Sm90MlaConfig::kRows;
  kernel.keys = Sm90MlaConfig::kKeys;
  kernel.packed = problem.group();
  kernel.columnParts = Sm90MlaConfig::kConsumers;
  kernel.pageClocks = kBoxClocks * double(boxesOfStep(problem, config));
  kernel.sharers = config.cluster;
  kernel.takesTurns = false;
  kernel.order = TileOrder::Dynamic;
  kernel.splits = grid.splits;
  kernel.splitKeys = grid.splitKeys;
  kernel.merge =
      grid.splits > 1 ? SplitMerge::DependentLaunch : SplitMerge::None;
  kernel.sharedBytes = config.sharedBytes(signatureOf(problem));
  return kernel;
}

static int64_t rowBlocksOf(const AttentionProblem &problem) {
  return ceilDiv(problem.queries * problem.group(),
                 int64_t(Sm90MlaConfig::kRows));
}

void Sm90MlaAttention::forEachVariant(
    const AttentionProblem &problem, const AttentionSignature &,
    const Sm90MlaConfig &config, const DeviceModel &device,
    llvm::function_ref<void(const Sm90MlaConfig &)> emit) const {
  int64_t lastSplits = 0;
  for (int fill : kMlaFills) {
    Sm90MlaConfig filled = config;
    filled.fill = fill;
    DecodeGrid grid(problem, blocksOf(filled), device.smCount);
    // A fill with the same splits is the same choice.
    if (grid.splits == lastSplits)
      continue;
    lastSplits = grid.splits;
    emit(filled);
  }
}

void Sm90MlaAttention::forEachConfig(
    const AttentionProblem &problem, const AttentionSignature &signature,
    const DeviceModel &device,
    llvm::function_ref<void(const Sm90MlaConfig &)> emit) const {
  if (device.computeCapability() != kMlaCapability || !problem.latent)
    return;
  for (int cluster = 1; cluster <= Sm90MlaConfig::kMostCluster; cluster *= 2) {
    // Idle blocks occupy an SM like others.
    if (rowBlocksOf(problem) % cluster != 0)
      continue;
    for (int pieces : {2, 1})
      forEachVariant(problem, signature, {cluster, pieces}, device, emit);
  }
}

//===----------------------------------------------------------------------===//
// Limits
//===----------------------------------------------------------------------===//

/// The limits of the kernel's instructions and shared memory on rows.
static std::optional<Rejection> checkShape(const AttentionProblem &problem,
                                           const AttentionSignature &signature,
                                           const Sm90MlaConfig &config) {
  auto shape = [](int64_t value, llvm::StringRef unit,
                  llvm::StringRef allowed) {
    return Rejection{PruneReason::InstructionShape, double(value), 0, unit,
                     allowed};
  };
  if (!problem.latent)
    return Rejection{PruneReason::InstructionShape, 2, 1,
                     "operands that are K and V"};
  if (signature.valueDim != 256 && signature.valueDim != 512)
    return shape(signature.valueDim, "elements of a row of V", "256 or 512");
  if (signature.headDim % 16 != 0 || signature.headDim <= signature.valueDim ||
      signature.headDim > signature.valueDim + Slab::kElements)
    return shape(signature.headDim, "elements of a row of K",
                 "16 to 64 more than of V, in steps of 16");
  if (!config.isValid(signature))
    return Rejection{PruneReason::InstructionShape};
  return std::nullopt;
}

/// Boxes are whole pages or lie within one.
static std::optional<Rejection> checkPages(const AttentionProblem &problem,
                                           const Sm90MlaConfig &config) {
  if (!problem.isPaged())
    return std::nullopt;
  constexpr int64_t kLeast = Sm90MlaConfig::kLeastBoxRows;
  if (problem.pageSize % kLeast != 0)
    return Rejection{PruneReason::Alignment, double(problem.pageSize),
                     double(kLeast), "tokens of a page"};
  int64_t loaded = config.loadedKeys();
  if (loaded % problem.pageSize != 0 && problem.pageSize % loaded != 0)
    return Rejection{PruneReason::InstructionShape, double(loaded), 0,
                     "keys of a box",
                     "whole pages, or a part of one that divides it"};
  return std::nullopt;
}

/// TMA's coordinates are ints, and its strides are below 2^40 bytes.
static std::optional<Rejection>
checkTensorMap(const AttentionProblem &problem) {
  constexpr double kMostElements = 2147483647;
  double most = double(std::max(
      {problem.keys, problem.keyRows(), problem.pageCount, problem.batch}));
  if (most > kMostElements)
    return Rejection{PruneReason::Grid, most, kMostElements, "tokens"};
  constexpr double kMaxStride = double(int64_t(1) << 40);
  double stride =
      2 * double(std::max({problem.k.token, problem.k.batch, problem.k.head}));
  if (stride >= kMaxStride)
    return Rejection{PruneReason::Alignment, stride, kMaxStride, "B"};
  return std::nullopt;
}

static std::optional<Rejection> checkSplits(const AttentionProblem &problem,
                                            const Sm90MlaConfig &config,
                                            const DeviceModel &device) {
  constexpr double kMaxGridYZ = 65535;
  DecodeGrid grid(problem, blocksOf(config), device.smCount);
  for (double blocks : {double(problem.batch) * double(problem.kvHeads),
                        double(problem.heads), double(grid.splits)})
    if (blocks > kMaxGridYZ)
      return Rejection{PruneReason::Grid, blocks, kMaxGridYZ, "blocks"};
  return checkGrid(double(grid.rowBlocks));
}

std::optional<Rejection> Sm90MlaAttention::checkLimits(
    const AttentionProblem &problem, const AttentionSignature &signature,
    const Sm90MlaConfig &config, const DeviceModel &device) const {
  if (device.computeCapability() != kMlaCapability)
    return Rejection{PruneReason::Architecture,
                     double(device.computeCapability()), kMlaCapability};
  if ((signature.q != DType::BF16 && signature.q != DType::FP16) ||
      signature.kv != signature.q)
    return Rejection{PruneReason::Type};
  constexpr int kAlign = 16; // TMA
  if (signature.align != kAlign)
    return Rejection{PruneReason::Alignment, double(signature.align), kAlign,
                     "B"};
  if (auto rejection = checkShape(problem, signature, config))
    return rejection;
  if (auto rejection = checkPages(problem, config))
    return rejection;
  if (auto rejection = checkTensorMap(problem))
    return rejection;
  return checkSplits(problem, config, device);
}

std::unique_ptr<Template> makeSm90MlaTemplate() {
  return std::make_unique<Sm90MlaAttention>();
}

} // namespace kiln
