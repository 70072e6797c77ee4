//===- Sm90MlaAttention.cpp - MLA by wgmma --------------------------------===//
//
// A block has 64 rows and the tensor cores of its SM, whatever the config. The
// choices left are how many blocks load keys together, and the number of splits
// of the keys.
//
//===----------------------------------------------------------------------===//
#include "Families/Attention/AttentionTemplate.h"
#include "Families/Attention/Sm90MlaPlan.h"
#include "Families/Attention/Sm90Pages.h"
#include "Model/MathUtil.h"
#include "Model/RegisterWall.h"

#include <algorithm>

namespace kiln {

namespace {

/// Quarters of a block for each SM: a wave, half of one, and several, for
/// numbers of sequences that fill no whole waves.
constexpr int kMlaFills[] = {4, 2, 8, 12, 16};

class Sm90MlaAttention final : public TiledAttention<Sm90MlaConfig> {
public:
  Sm90MlaAttention()
      : TiledAttention({"attention/Sm90MlaAttention.cuh", "AttentionSignature",
                        "Sm90MlaConfig", "Sm90MlaParams", "sm90MlaAttention",
                        /*archSpecific=*/true}) {}

protected:
  void forEachConfig(const AttentionProblem &problem,
                     const AttentionSignature &signature,
                     const DeviceModel &device,
                     Emit<Sm90MlaConfig> emit) const override;
  void forEachVariant(const AttentionProblem &problem,
                      const AttentionSignature &signature,
                      const Sm90MlaConfig &config, const DeviceModel &device,
                      Emit<Sm90MlaConfig> emit) const override;

  CandidateClass classOfConfig(const Sm90MlaConfig &config) const override {
    return {.key = classKey({3, config.cluster, config.pieces}),
            .rank = config.cluster,
            .ranksByTime = true};
  }

  std::optional<Rejection>
  checkLimits(const AttentionProblem &problem,
              const AttentionSignature &signature, const Sm90MlaConfig &config,
              const DeviceModel &device) const override;

  AttentionTileKernel tileKernel(const AttentionProblem &problem,
                                 const Sm90MlaConfig &config,
                                 const DeviceModel &device) const override;

  AttentionWalls wallsOf(const AttentionSignature &signature,
                         const Sm90MlaConfig &config,
                         const DeviceModel &device) const override;

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
};

} // namespace

AttentionTileKernel
Sm90MlaAttention::tileKernel(const AttentionProblem &problem,
                             const Sm90MlaConfig &config,
                             const DeviceModel &device) const {
  const AttentionSignature signature = signatureOf(problem);
  DecodeGrid grid(problem, blocksOf(config), device.smCount);
  AttentionTileKernel kernel;
  kernel.rows = Sm90MlaConfig::kRows;
  kernel.keys = Sm90MlaConfig::kKeys;
  kernel.packed = problem.group();
  kernel.columnParts = Sm90MlaConfig::kConsumers;
  kernel.boxes = Sm90MlaConfig::keySlabs(signature) *
                 pagesOfStep(problem, config.loadedKeys());
  kernel.boxClocks = kBoxClocks;
  kernel.sharers = config.cluster;
  kernel.stages = Sm90MlaConfig::kStages;
  kernel.loadsAhead = false;
  kernel.takesTurns = false;
  kernel.order = TileOrder::Dynamic;
  kernel.splits = grid.splits;
  kernel.splitKeys = grid.splitKeys;
  kernel.merge =
      grid.splits > 1 ? SplitMerge::DependentLaunch : SplitMerge::None;
  return kernel;
}

AttentionWalls Sm90MlaAttention::wallsOf(const AttentionSignature &signature,
                                         const Sm90MlaConfig &config,
                                         const DeviceModel &device) const {
  using Mla = Sm90MlaConfig;
  // A thread has a part of a row of S, of P and of its consumer's columns.
  constexpr int kThreads = Mla::kWarpgroup, kScores = Mla::kRows * Mla::kKeys;
  return {.registers = {.output = Mla::kRows * Mla::width(signature) / kThreads,
                        .scores = kScores / kThreads,
                        .weights = kScores / kThreads / 2},
          .registerLimit = Mla::kConsumerRegisters,
          .registerRule = "S, P and O of a consumer, whatever the config",
          .tradedRegisters = Mla::kConsumerRegisters,
          .shared = {.stages = Mla::kStages,
                     .bytesA = double(Mla::tileBytes(signature))},
          .block = {config.threads(),
                    registerLimit(device, config.threads(), 1),
                    config.sharedBytes(signature)}};
}

static int64_t rowBlocksOf(const AttentionProblem &problem) {
  return ceilDiv(problem.queries * problem.group(),
                 int64_t(Sm90MlaConfig::kRows));
}

void Sm90MlaAttention::forEachVariant(const AttentionProblem &problem,
                                      const AttentionSignature &,
                                      const Sm90MlaConfig &config,
                                      const DeviceModel &device,
                                      Emit<Sm90MlaConfig> emit) const {
  forEachFill(problem, config, kMlaFills, device.smCount, emit);
}

void Sm90MlaAttention::forEachConfig(const AttentionProblem &problem,
                                     const AttentionSignature &signature,
                                     const DeviceModel &device,
                                     Emit<Sm90MlaConfig> emit) const {
  if (!hasWgmma(device) || !problem.latent)
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

static std::optional<Rejection>
checkTensorMap(const AttentionProblem &problem) {
  if (auto rejection =
          checkTmaExtent(double(std::max({problem.keys, problem.keyRows(),
                                          problem.pageCount, problem.batch})),
                         "tokens"))
    return rejection;
  return checkTmaStrides({2 * double(std::max({problem.k.token, problem.k.batch,
                                               problem.k.head}))});
}

static std::optional<Rejection> checkSplits(const AttentionProblem &problem,
                                            const Sm90MlaConfig &config,
                                            const DeviceModel &device) {
  DecodeGrid grid(problem, blocksOf(config), device.smCount);
  if (auto rejection =
          checkGridYZ({double(problem.batch) * double(problem.kvHeads),
                       double(problem.heads), double(grid.splits)}))
    return rejection;
  return checkGrid(double(grid.rowBlocks));
}

std::optional<Rejection> Sm90MlaAttention::checkLimits(
    const AttentionProblem &problem, const AttentionSignature &signature,
    const Sm90MlaConfig &config, const DeviceModel &device) const {
  if (auto rejection = checkWgmma(device))
    return rejection;
  if ((signature.q != DType::BF16 && signature.q != DType::FP16) ||
      signature.kv != signature.q)
    return Rejection{PruneReason::Type};
  if (auto rejection = checkRate(
          device,
          attentionRate(signature.q, AttentionTileKernel::Instruction::Wgmma)))
    return rejection;
  if (auto rejection = checkAlign(signature.align, kTmaAlign))
    return rejection;
  if (auto rejection = checkShape(problem, signature, config))
    return rejection;
  if (auto rejection =
          checkPages(problem, config.loadedKeys(), "keys of a box"))
    return rejection;
  if (auto rejection = checkTensorMap(problem))
    return rejection;
  return checkSplits(problem, config, device);
}

std::unique_ptr<Template> makeSm90MlaTemplate() {
  return std::make_unique<Sm90MlaAttention>();
}

} // namespace kiln
