//===- Sm90PackedGemm.cpp - packed weights through wgmma ------------------===//
//
// The space has tiles of 64 to 256 rows of the weight, by all rows of A where
// registers have room for their sums, else by equal parts of them. Fewer parts
// decode less often. Of tiles of 64 rows two consumers share the k: there are
// twice as many of them, for as many SMs. Rings are as deep as fits.
//
// Blocks share the k of a tile where tiles fill less than half of the SMs.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/GemmTemplate.h"
#include "Families/Gemm/Sm90Estimate.h"
#include "Families/Gemm/Sm90Limits.h"
#include "Families/Gemm/Sm90Plan.h"
#include "Model/MathUtil.h"
#include "gemm/Sm90PackedConfig.h"

#include <llvm/ADT/SmallVector.h>

#include <algorithm>

namespace kiln {

namespace {

/// Rows of a tile, and how consumers share out its work.
struct PackedWay {
  int rows, consumers, kShared;
};

/// Best guesses first: they win ties.
constexpr PackedWay kPackedWays[] = {
    {64, 2, 1}, {128, 2, 0}, {192, 3, 0}, {256, 2, 0}};

class Sm90PackedGemm final : public GemmTemplate<Sm90PackedConfig, Sm90Kernel> {
public:
  Sm90PackedGemm()
      : GemmTemplate({.header = "gemm/Sm90PackedGemm.cuh",
                      .signatureType = "GemmSignature",
                      .configType = "Sm90PackedConfig",
                      .paramsType = "Sm90GemmParams",
                      .function = "sm90PackedGemm",
                      .archSpecific = true}) {}

protected:
  void forEachVariant(
      const GemmProblem &problem, const GemmSignature &signature,
      const Sm90PackedConfig &config, const DeviceModel &device,
      llvm::function_ref<void(const Sm90PackedConfig &)> emit) const override;
  void forEachConfig(
      const GemmProblem &problem, const DeviceModel &device,
      llvm::function_ref<void(const Sm90PackedConfig &)> emit) const override;
  CandidateClass classOfConfig(const Sm90PackedConfig &config) const override;
  std::optional<Rejection>
  checkLimits(const GemmProblem &problem, const GemmSignature &signature,
              const Sm90PackedConfig &config,
              const DeviceModel &device) const override;
  Sm90Kernel tileKernel(const GemmSignature &signature,
                        const Sm90PackedConfig &config,
                        const DeviceModel &) const override {
    return {signature, config.frame()};
  }
  int64_t copyBytes(const GemmProblem &problem, const GemmSignature &signature,
                    const Sm90PackedConfig &config) const override {
    return repackBytes(problem, signature, config.frame());
  }
  int copySteps(const GemmSignature &signature,
                const Sm90PackedConfig &config) const override {
    return repackSteps(signature, config.frame());
  }
  void completePlan(const GemmProblem &problem, const GemmSignature &signature,
                    const Sm90PackedConfig &config, const DeviceModel &device,
                    Plan &plan) const override {
    completeSm90Plan(problem, signature, config.frame(), device, plan);
  }
};

/// Emits the useful configs of one problem.
class PackedEnumeration {
public:
  PackedEnumeration(const GemmProblem &problem, const GemmSignature &signature,
                    const DeviceModel &device,
                    llvm::function_ref<void(const Sm90PackedConfig &)> emit)
      : problem(problem), signature(signature), device(device), emit(emit) {}

  void addWay(const PackedWay &way);

private:
  int64_t tilesOf(const Sm90PackedConfig &config) const {
    return config.frame().groups(problem.m, problem.n, problem.batch);
  }
  int stagesThatFit(const Sm90PackedConfig &config) const;
  void deepen(Sm90PackedConfig &config) const;
  void addTile(Sm90PackedConfig config);
  void addSplits(Sm90PackedConfig config);

  const GemmProblem &problem;
  const GemmSignature &signature;
  const DeviceModel &device;
  llvm::function_ref<void(const Sm90PackedConfig &)> emit;
};

} // namespace

/// Registers of a consumer's thread that sums, those of a group beside them,
/// fragments and words may take: what the epilogue leaves of them holds
/// addresses. With so many ptxas 13.0 spills nothing. It keeps more of them
/// beside what splits exchange, and beside matrices that no box brings.
static int mostRegisters(const GemmSignature &signature,
                         const Sm90PackedConfig &config) {
  constexpr int kBesideSums = 8, kBesideSumsOfThree = 12;
  constexpr int kOfSplits = 24, kOfMatrices = 56, kOfChain = 8;
  const Sm90GemmConfig frame = config.frame();
  const bool hasMatrix =
      signature.readsC || signature.pointwise.contains(PointwiseOp::Residual);
  int most = mostAccumulators(signature, frame) +
             (config.consumers > 2 ? kBesideSumsOfThree : kBesideSums);
  if (signature.pointwise.size() > 0)
    most -= kOfChain;
  if (config.splitK() > 1)
    most -= kOfSplits;
  if (hasMatrix && !frame.storesByTma(signature))
    most -= kOfMatrices;
  return most;
}

/// Names what a config beyond isValid() has that the kernel does not.
static Rejection invalidShape(const GemmSignature &signature,
                              const Sm90PackedConfig &config) {
  auto shape = [](int value, llvm::StringRef unit, llvm::StringRef allowed) {
    return Rejection{PruneReason::InstructionShape, double(value), 0, unit,
                     allowed};
  };
  if (config.consumers < 1 || config.consumers > 3)
    return shape(config.consumers, "consumers", "1 to 3");
  if (config.kShared && config.consumers != 2)
    return shape(config.consumers, "consumers", "2 with turns");
  constexpr int kUnit = 64, kMostRows = 256;
  if (config.kShared ? config.rows != kUnit
                     : config.rows < kUnit || config.rows > kMostRows ||
                           config.rows % (kUnit * config.consumers) != 0)
    return shape(config.rows, "rows",
                 config.kShared         ? "64 with turns"
                 : config.consumers > 2 ? "192"
                 : config.consumers > 1 ? "128 or 256"
                                        : "64 to 256 in steps of 64");
  if (config.vectors < 8 || config.vectors > 256 || config.vectors % 8 != 0)
    return shape(config.vectors, "vectors", "8 to 256 in steps of 8");
  if (config.blockK != 128 && config.blockK != 256)
    return shape(config.blockK, "elements of k a stage", "128 or 256");
  if (config.stages < 2 + config.kShared || config.stages > 16)
    return shape(config.stages, "stages",
                 config.kShared ? "3 to 16" : "2 to 16");
  if (config.staging != 0 && config.frame().fetchedOperands(signature) > 0)
    return shape(config.staging, "staging",
                 "0 where C or a residual comes in by TMA");
  if (signature.hasGroups() && config.splitK() > 1)
    return shape(config.splitK(), "splits", "1 with groups");
  if (config.splitK() > 1)
    return shape(config.vectors, "vectors",
                 signature.columnsPerOutput() == 2
                     ? "multiples of 32 with splits"
                     : "up to 64, or multiples of 16 with splits");
  return Rejection{PruneReason::InstructionShape};
}

int PackedEnumeration::stagesThatFit(const Sm90PackedConfig &config) const {
  constexpr int kMostStages = 12;
  Sm90GemmConfig frame = config.frame();
  frame.stages = 0;
  int64_t rest = frame.sharedBytes(signature);
  int64_t perStage = frame.stageBytes(signature) + 16;
  return static_cast<int>(
      std::clamp<int64_t>((device.sharedBytesPerBlock - rest) / perStage,
                          2 + config.kShared, kMostStages));
}

/// The deepest ring that fits. Short ones take what staging can give.
void PackedEnumeration::deepen(Sm90PackedConfig &config) const {
  constexpr int kShallow = 4;
  config.staging = 0;
  config.stages = stagesThatFit(config);
  Sm90PackedConfig deeper = config;
  deeper.staging = 1;
  deeper.stages = stagesThatFit(deeper);
  if (config.stages <= kShallow && deeper.stages > config.stages &&
      deeper.isValid(signature))
    config = deeper;
}

void PackedEnumeration::addWay(const PackedWay &way) {
  constexpr int kUnit = 64, kWidest = 256, kStep = 8;
  // A lower tile has less padding.
  if (way.rows > kUnit && way.rows >= problem.n + kUnit)
    return;
  Sm90PackedConfig config;
  config.rows = way.rows;
  config.consumers = way.consumers;
  config.kShared = way.kShared;
  // As few tiles along m as registers allow, and one more. Each width is looked
  // at once, with the least count of tiles that has it: there are few widths,
  // and any number of tiles.
  int emitted = 0;
  const int64_t least = ceilDiv(problem.m, kWidest);
  for (int64_t tiles = least; emitted < 2 && tiles <= 64 * least;) {
    const int64_t width = roundUp(ceilDiv(problem.m, tiles), kStep);
    config.vectors = static_cast<int>(width);
    const bool isFirst = tiles == least || ceilDiv(problem.m, width) == tiles;
    if (isFirst && config.isValid(signature) &&
        config.productRegisters(signature) <=
            mostRegisters(signature, config)) {
      addTile(config);
      ++emitted;
    }
    if (width <= kStep)
      break;
    tiles = std::max(tiles + 1, ceilDiv(problem.m, width - kStep));
  }
}

/// Whether activations may stay in L2 by hints.
static bool hasFewTiles(const GemmProblem &problem,
                        const Sm90PackedConfig &config) {
  constexpr int64_t kFewTiles = 2;
  return ceilDiv(problem.m, config.vectors) <= kFewTiles;
}

/// The orders in which \p config, which has no splits, may walk.
static void
addPackedOrders(const GemmProblem &problem, Sm90PackedConfig config,
                llvm::function_ref<void(const Sm90PackedConfig &)> emit) {
  config.hints = 0;
  config.tilesFirst = 0;
  emit(config);
  if (hasFewTiles(problem, config)) {
    config.hints = 1;
    emit(config);
  }
}

/// Whether neighbours are the tiles of one split.
static bool walksTilesFirst(const GemmProblem &problem,
                            const Sm90PackedConfig &config) {
  constexpr int64_t kMany = 4;
  const Sm90GemmConfig frame = config.frame();
  return std::min(frame.tilesM(problem.m), frame.tilesN(problem.n)) >= kMany;
}

void Sm90PackedGemm::forEachVariant(
    const GemmProblem &problem, const GemmSignature &,
    const Sm90PackedConfig &config, const DeviceModel &,
    llvm::function_ref<void(const Sm90PackedConfig &)> emit) const {
  if (config.splits <= 1)
    return addPackedOrders(problem, config, emit);
  Sm90PackedConfig variant = config;
  variant.hints = hasFewTiles(problem, config);
  variant.tilesFirst = walksTilesFirst(problem, config);
  emit(variant);
}

void PackedEnumeration::addTile(Sm90PackedConfig config) {
  // Longer steps where loads are small: half as many barriers.
  constexpr int kSmall = 16 << 10, kShort = 128, kLong = 256;
  config.blockK = kShort;
  if (config.frame().stageBytes(signature) <= kSmall)
    config.blockK = kLong;
  deepen(config);
  addPackedOrders(problem, config, emit);
  addSplits(config);
}

/// As many splits as run at once, and fewer by a quarter.
void PackedEnumeration::addSplits(Sm90PackedConfig config) {
  if (signature.hasGroups())
    return;
  config.hints = hasFewTiles(problem, config);
  constexpr int64_t kMost = 32, kLeastSteps = 4;
  const int64_t tiles = tilesOf(config);
  const int64_t most =
      std::min({device.smCount / tiles, kMost,
                ceilDiv(problem.k, config.blockK) / kLeastSteps});
  const int64_t fewer = most - std::max<int64_t>(1, most / 4);
  for (int64_t splits : {most, fewer})
    if (splits > 1 && 2 * tiles * splits > device.smCount) {
      config.splits = static_cast<int>(splits);
      config.stages = stagesThatFit(config);
      config.tilesFirst = walksTilesFirst(problem, config);
      if (config.isValid(signature) && config.productRegisters(signature) <=
                                           mostRegisters(signature, config))
        emit(config);
    }
}

void Sm90PackedGemm::forEachConfig(
    const GemmProblem &problem, const DeviceModel &device,
    llvm::function_ref<void(const Sm90PackedConfig &)> emit) const {
  if (!hasWgmma(device) || !problem.isPacked())
    return;
  const GemmSignature signature = signatureOf(problem);
  PackedEnumeration enumeration(problem, signature, device, emit);
  for (const PackedWay &way : kPackedWays)
    enumeration.addWay(way);
}

CandidateClass Sm90PackedGemm::classOfConfig(const Sm90PackedConfig &c) const {
  uint64_t key = 7;
  for (int part : {c.rows, c.vectors, c.splitK()})
    key = key * 1024 + static_cast<uint64_t>(part);
  return {key, c.splitK()};
}

std::optional<Rejection> Sm90PackedGemm::checkLimits(
    const GemmProblem &problem, const GemmSignature &signature,
    const Sm90PackedConfig &config, const DeviceModel &device) const {
  if (auto rejection = checkWgmma(device))
    return rejection;
  if (!signature.isPacked())
    return Rejection{PruneReason::Type};
  // The first wall, ahead of what else may be wrong with so large a tile.
  const int registers = config.productRegisters(signature);
  if (const int most = mostRegisters(signature, config); registers > most)
    return Rejection{PruneReason::Registers, double(registers), double(most),
                     "registers of sums and fragments a thread"};
  if (!config.isValid(signature))
    return invalidShape(signature, config);
  // Every split has work, and there is some at all.
  const int64_t ranges = ceilDiv(problem.k, config.blockK);
  if (ranges < config.splitK())
    return Rejection{PruneReason::Dominated, double(config.splitK()),
                     double(ranges), "splits"};
  if (auto rejection = checkResidentSplits(config.splitK(), device))
    return rejection;
  if (auto rejection = checkTensorMaps(problem, signature))
    return rejection;
  const double bytes = double(copyBytes(problem, signature, config));
  if (bytes > kMaxRepackBytes)
    return Rejection{PruneReason::Workspace, bytes, kMaxRepackBytes, "B"};
  return std::nullopt;
}

std::unique_ptr<Template> makeSm90PackedGemmTemplate() {
  return std::make_unique<Sm90PackedGemm>();
}

} // namespace kiln
