//===- Sm90PackedSpace.cpp - derives the configs of packed weights --------===//
//
// The space has tiles of 64 to 256 rows of the weight, by all rows of A where
// registers have room for their sums, else by equal parts of them. Fewer parts
// decode less often. Two consumers share the k of tiles of 64 rows: there are
// twice as many of these, for as many SMs. Rings are as deep as fits.
//
// Blocks share the k of a tile where tiles fill less than half of the SMs.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/Sm90PackedSpace.h"

#include "Families/Gemm/Sm90Limits.h"
#include "Families/Gemm/Sm90Space.h"
#include "Model/MathUtil.h"

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

/// Emits the useful configs of one problem.
class PackedEnumeration {
public:
  PackedEnumeration(const GemmProblem &problem, const GemmSignature &signature,
                    const DeviceModel &device, Emit<Sm90PackedConfig> emit)
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
  Emit<Sm90PackedConfig> emit;
};

} // namespace

int mostSm90PackedRegisters(const GemmSignature &signature,
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

int PackedEnumeration::stagesThatFit(const Sm90PackedConfig &config) const {
  return sm90StagesThatFit(config.frame(), signature, 2 + config.kShared,
                           device);
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
            mostSm90PackedRegisters(signature, config)) {
      addTile(config);
      ++emitted;
    }
    if (width <= kStep)
      break;
    tiles = std::max(tiles + 1, ceilDiv(problem.m, width - kStep));
  }
}

/// The orders in which \p config, which has no splits, may walk.
static void addPackedOrders(const GemmProblem &problem, Sm90PackedConfig config,
                            Emit<Sm90PackedConfig> emit) {
  config.hints = 0;
  config.tilesFirst = 0;
  emit(config);
  if (hasFewTilesAlongM(problem, config.frame())) {
    config.hints = 1;
    emit(config);
  }
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

void PackedEnumeration::addSplits(Sm90PackedConfig config) {
  if (signature.hasGroups())
    return;
  config.hints = hasFewTilesAlongM(problem, config.frame());
  const int64_t tiles = tilesOf(config);
  for (int64_t splits :
       sm90Splits(tiles, ceilDiv(problem.k, config.blockK), device))
    if (splits > 1 && 2 * tiles * splits > device.smCount) {
      config.splits = static_cast<int>(splits);
      config.stages = stagesThatFit(config);
      config.tilesFirst = walksTilesFirst(problem, config.frame());
      if (config.isValid(signature) &&
          config.productRegisters(signature) <=
              mostSm90PackedRegisters(signature, config))
        emit(config);
    }
}

void forEachSm90PackedVariant(const GemmProblem &problem,
                              const Sm90PackedConfig &config,
                              Emit<Sm90PackedConfig> emit) {
  if (config.splits <= 1)
    return addPackedOrders(problem, config, emit);
  Sm90PackedConfig variant = config;
  variant.hints = hasFewTilesAlongM(problem, config.frame());
  variant.tilesFirst = walksTilesFirst(problem, config.frame());
  emit(variant);
}

void forEachSm90PackedConfig(const GemmProblem &problem,
                             const GemmSignature &signature,
                             const DeviceModel &device,
                             Emit<Sm90PackedConfig> emit) {
  PackedEnumeration enumeration(problem, signature, device, emit);
  for (const PackedWay &way : kPackedWays)
    enumeration.addWay(way);
}

} // namespace kiln
