//===- Sm90Gemm.cpp - the wgmma template ----------------------------------===//
//
// The space is a table of tiles, each with the consumers that its sums need,
// crossed with what costs nothing to compile (raster, hints), with clusters of
// two and with split counts. Of the ring's depth there is one choice: as many
// stages as fit, for a deeper ring was never slower. What is left out is
// dominated for the problem at hand: tiles that are mostly padding, rasters
// that order fewer tiles than SMs, splits where whole tiles fill the chip.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/GemmTemplate.h"
#include "Families/Gemm/Sm90Estimate.h"
#include "Families/Gemm/Sm90Plan.h"
#include "Kernel/ClassicRanking.h"
#include "Model/MathUtil.h"
#include "gemm/Sm90GemmConfig.h"

#include <algorithm>

namespace kiln {

namespace {

/// Sides of a tile by what they are to wgmma, and who computes it.
struct Tile {
  int rows, columns, blockK, consumers, pingPong;
};

/// Best guesses first: they win ties.
constexpr Tile kTiles[] = {
    {128, 256, 64, 2, 0}, {128, 192, 64, 2, 1}, {256, 128, 64, 2, 0},
    {128, 128, 64, 2, 1}, {256, 192, 64, 2, 0}, {128, 224, 64, 2, 0},
    {128, 160, 64, 2, 1}, {128, 176, 64, 2, 1}, {192, 176, 64, 3, 0},
    {192, 192, 64, 3, 0}, {192, 128, 64, 3, 0}, {256, 160, 64, 2, 0},
    {256, 112, 64, 2, 0}, {256, 96, 64, 2, 0},  {128, 192, 64, 2, 0},
    {128, 128, 64, 2, 0}, {128, 112, 64, 2, 1}, {128, 96, 64, 2, 1},
    {64, 256, 64, 2, 1},  {64, 192, 64, 2, 1},  {64, 128, 64, 2, 1},
    {64, 256, 64, 1, 0},  {64, 192, 64, 1, 0},  {64, 128, 64, 1, 0},
    {64, 96, 64, 1, 0},   {64, 64, 64, 1, 0},   {64, 64, 128, 1, 0},
    {64, 128, 128, 1, 0}, {128, 64, 64, 1, 0},  {128, 64, 64, 2, 0},
    {64, 112, 64, 1, 0},  {64, 32, 128, 1, 0},  {256, 64, 64, 2, 0},
    {128, 96, 64, 2, 0},
};
/// Tiles with few columns, for swapAB.
constexpr Tile kThinTiles[] = {
    {64, 8, 128, 1, 0},   {64, 16, 128, 1, 0},  {64, 24, 128, 1, 0},
    {64, 32, 128, 1, 0},  {64, 48, 128, 1, 0},  {64, 64, 128, 1, 0},
    {64, 64, 64, 1, 0},   {64, 80, 64, 1, 0},   {64, 96, 64, 1, 0},
    {64, 112, 64, 1, 0},  {64, 128, 64, 1, 0},  {128, 16, 128, 2, 0},
    {128, 32, 128, 2, 0}, {128, 48, 64, 2, 0},  {128, 64, 64, 2, 0},
    {128, 96, 64, 2, 0},  {128, 128, 64, 2, 0}, {256, 64, 64, 2, 0},
    {256, 32, 64, 2, 0},  {256, 128, 64, 2, 0}, {128, 192, 64, 2, 1},
    {128, 256, 64, 2, 0}, {256, 48, 64, 2, 0},  {128, 80, 64, 2, 0},
};
constexpr int kSplits[] = {2, 3, 4, 5, 6, 8, 12, 16, 32};
/// A ring deeper than this holds more than memory has on its way.
constexpr int kMostStages = 12;

/// An order of tiles: how many walk together, along which side.
struct Raster {
  int group, alongN;
};
constexpr Raster kRasters[] = {{8, 0}, {16, 0}, {8, 1}};

class Sm90Gemm final : public GemmTemplate<Sm90GemmConfig, Sm90Kernel>,
                       public ClassicTemplate {
public:
  Sm90Gemm()
      : GemmTemplate({.header = "gemm/Sm90Gemm.cuh",
                      .signatureType = "GemmSignature",
                      .configType = "Sm90GemmConfig",
                      .paramsType = "Sm90GemmParams",
                      .function = "sm90Gemm",
                      .archSpecific = true}) {}

  const ClassicTemplate *classic() const override { return this; }
  ClassicConfig classicConfig(const Record &config) const override;

protected:
  void forEachConfig(
      const GemmProblem &problem, const DeviceModel &device,
      llvm::function_ref<void(const Sm90GemmConfig &)> emit) const override;
  CandidateClass classOfConfig(const Sm90GemmConfig &config) const override;
  std::optional<Rejection>
  checkLimits(const GemmProblem &problem, const GemmSignature &signature,
              const Sm90GemmConfig &config,
              const DeviceModel &device) const override;
  Sm90Kernel tileKernel(const GemmSignature &signature,
                        const Sm90GemmConfig &config,
                        const DeviceModel &) const override {
    return {signature, config};
  }
  int64_t copyBytes(const GemmProblem &problem,
                    const GemmSignature &signature) const override {
    return repackBytes(problem, signature);
  }
  void completePlan(const GemmProblem &problem, const GemmSignature &signature,
                    const Sm90GemmConfig &config, const DeviceModel &device,
                    Plan &plan) const override {
    completeSm90Plan(problem, signature, config, device, plan);
  }
};

/// Emits the useful variations of tiles for one problem.
class Enumeration {
public:
  Enumeration(const GemmProblem &problem, const GemmSignature &signature,
              const DeviceModel &device,
              llvm::function_ref<void(const Sm90GemmConfig &)> emit)
      : problem(problem), signature(signature), device(device), emit(emit) {}

  void addTile(const Tile &tile, bool swap);

private:
  bool isWasteful(const Tile &tile, bool swap) const;
  void addClusters(Sm90GemmConfig config);
  void addRuntime(Sm90GemmConfig config);
  void addSplits(Sm90GemmConfig config);
  int stagesThatFit(Sm90GemmConfig config) const;

  const GemmProblem &problem;
  const GemmSignature &signature;
  const DeviceModel &device;
  llvm::function_ref<void(const Sm90GemmConfig &)> emit;
};

} // namespace

/// True where the tile's padding alone makes a smaller one better.
bool Enumeration::isWasteful(const Tile &tile, bool swap) const {
  int64_t rowExtent = swap ? problem.n : problem.m;
  int64_t columnExtent = swap ? problem.m : problem.n;
  constexpr int kUnit = Sm90GemmConfig::kUnit;
  if (tile.rows > kUnit && tile.rows >= rowExtent + kUnit)
    return true;
  // Turns need a second tile to take.
  int64_t tiles = ceilDiv(rowExtent, tile.rows) *
                  ceilDiv(columnExtent, tile.columns) * problem.batch;
  if (tile.pingPong && tiles <= device.smCount)
    return true;
  return tile.columns >= columnExtent + std::max(16, tile.columns / 4) &&
         tile.columns > 16;
}

/// At least two: the pruner then names what does not fit.
int Enumeration::stagesThatFit(Sm90GemmConfig config) const {
  config.stages = 0;
  int64_t rest = config.sharedBytes(signature);
  int64_t perStage = config.stageBytes() + 16;
  return static_cast<int>(std::clamp<int64_t>(
      (device.sharedBytesPerBlock - rest) / perStage, 2, kMostStages));
}

void Enumeration::addTile(const Tile &tile, bool swap) {
  if (isWasteful(tile, swap))
    return;
  Sm90GemmConfig config;
  config.swapAB = swap;
  (swap ? config.blockN : config.blockM) = tile.rows;
  (swap ? config.blockM : config.blockN) = tile.columns;
  config.blockK = tile.blockK;
  config.consumers = tile.consumers;
  config.pingPong = tile.pingPong;
  config.stages = stagesThatFit(config);
  addClusters(config);
  addSplits(config);
}

void Enumeration::addClusters(Sm90GemmConfig config) {
  addRuntime(config);
  // Sharing pays where blocks of a wave would load the same tile twice.
  if (config.tilesM(problem.m) > 1) {
    config.clusterM = 2;
    addRuntime(config);
    config.clusterM = 1;
  }
  if (config.tilesN(problem.n) > 1 && problem.m > 128) {
    config.clusterN = 2;
    addRuntime(config);
  }
}

void Enumeration::addRuntime(Sm90GemmConfig config) {
  int64_t tiles = config.tilesM(problem.m) * config.tilesN(problem.n);
  for (const Raster &raster : kRasters) {
    bool isFirst = &raster == kRasters;
    // One order of what runs at once is as good as another.
    int64_t along =
        raster.alongN ? config.tilesN(problem.n) : config.tilesM(problem.m);
    if (!isFirst && (tiles <= device.smCount || along <= raster.group / 2))
      continue;
    config.rasterGroup = raster.group;
    config.rasterAlongN = raster.alongN;
    config.hints = 0;
    emit(config);
    // Multicast copies take no wishes.
    bool mayHint = config.multicastBlocks() == 1;
    if (isFirst && mayHint && config.tilesM(problem.m) <= 2) {
      config.hints = 1;
      emit(config);
    }
  }
}

void Enumeration::addSplits(Sm90GemmConfig config) {
  if (config.pingPong)
    return;
  int64_t tiles = config.blocks(problem.m, problem.n, problem.batch);
  int64_t ranges = ceilDiv(problem.k, config.blockK);
  int64_t fewer = std::min(config.tilesM(problem.m), config.tilesN(problem.n));
  config.hints = config.tilesM(problem.m) <= 2;
  // Blocks that ask for the same tiles are to be neighbours where both sides
  // have many: on an H200, 256 x 256 x 16384 with 8 splits took 11.4 us,
  // and 9.2 with tiles first; where one side has few it was 0 to 7 % slower.
  constexpr int64_t kMany = 4;
  config.tilesFirst = fewer >= kMany;
  for (int split : kSplits) {
    // Half of the SMs at least, and all at once.
    bool isUseful = tiles * split <= device.smCount &&
                    2 * tiles * split > device.smCount && ranges >= 4 * split;
    if (!isUseful)
      continue;
    config.splits = split;
    config.stages = stagesThatFit(config); // splits stage smaller pieces
    emit(config);
  }
}

void Sm90Gemm::forEachConfig(
    const GemmProblem &problem, const DeviceModel &device,
    llvm::function_ref<void(const Sm90GemmConfig &)> emit) const {
  if (device.computeCapability() != 90)
    return;
  GemmSignature signature = signatureOf(problem);
  Enumeration enumeration(problem, signature, device, emit);
  for (const Tile &tile : kTiles)
    enumeration.addTile(tile, false);
  // With many rows on both sides exchanged tiles are the same once more.
  constexpr int64_t kMostThin = 512;
  bool canSwap = signature.columnsPerOutput() == 1;
  if (canSwap && problem.m <= kMostThin)
    for (const Tile &tile : kThinTiles)
      enumeration.addTile(tile, true);
}

CandidateClass Sm90Gemm::classOfConfig(const Sm90GemmConfig &c) const {
  uint64_t key = 1;
  for (int part : {c.blockM, c.blockN, c.splitK(), c.swapAB, c.pingPong})
    key = key * 1024 + static_cast<uint64_t>(part);
  return {key * 4 + static_cast<uint64_t>(c.multicastBlocks()), c.splitK()};
}

ClassicConfig Sm90Gemm::classicConfig(const Record &config) const {
  Sm90GemmConfig c = fromRecord<Sm90GemmConfig>(config);
  return {c.blockM, c.blockN, c.blockK, c.splitK(), c.threads() / 32, c.stages};
}

/// Sums that a consumer's thread has registers for beside what the epilogue
/// holds: a chain's values, other splits' sums, and rows that are shifted to an
/// unaligned D. Beyond these, most kernels that ptxas 13.0 compiled spilled.
static int mostAccumulators(const GemmSignature &signature,
                            const Sm90GemmConfig &config) {
  const PointwiseChain &chain = signature.pointwise;
  bool isThree = config.consumers > 2;
  int most = config.mostSums();
  auto limit = [&](bool holds, int sumsOfTwo, int sumsOfThree) {
    if (holds)
      most = std::min(most, isThree ? sumsOfThree : sumsOfTwo);
  };
  bool isWide = signature.out == DType::FP32;
  bool shifts = !config.storesByTma(signature);
  bool hasResidual = chain.contains(PointwiseOp::Residual);
  bool hasMatrix = signature.readsC || hasResidual;
  bool hasChain = signature.readsC || chain.size() > 0;
  bool hasErf = chain.contains(PointwiseOp::GeluErf);
  bool hasActivation = hasErf || chain.contains(PointwiseOp::GeluTanh) ||
                       chain.contains(PointwiseOp::Silu);
  limit(isWide && hasChain, 160, 96);
  limit(signature.columnsPerOutput() == 2, 160, 88);
  limit(hasMatrix && hasActivation, 176, 96);
  limit(signature.readsC && hasResidual, 176, 88);
  limit(hasErf, 192, 88);
  limit(shifts, config.pingPong ? 160 : 192, 96);
  limit(shifts && hasMatrix, 160, 88);
  limit(config.swapAB && (isWide || shifts), 160, 96);
  limit(config.swapAB && (hasMatrix || hasErf), 128, 88);
  if (config.splitK() > 1) {
    limit(true, 128, 88);
    limit(signature.columnsPerOutput() == 2, 112, 56);
    limit(shifts && hasChain, 112, 88);
  }
  return most;
}

/// What the columns of one consumer may be, in steps of \p step.
static llvm::StringRef columnsInStepsOf(int step, bool swapAB) {
  switch (step) {
  case 8:
    return swapAB ? "8 to 256 in steps of 8" : "16 to 256 in steps of 8";
  case 16:
    return "16 to 256 in steps of 16";
  case 32:
    return "32 to 256 in steps of 32";
  default:
    return "64 to 256 in steps of 64";
  }
}

/// Names what a config beyond isValid() has that the instruction does not.
static Rejection invalidShape(const GemmSignature &signature,
                              const Sm90GemmConfig &config) {
  auto shape = [](int value, llvm::StringRef unit, llvm::StringRef allowed) {
    return Rejection{PruneReason::InstructionShape, double(value), 0, unit,
                     allowed};
  };
  if (config.blockK != 64 && config.blockK != 128)
    return shape(config.blockK, "elements of k a stage", "64 or 128");
  if (config.stages < 2 || config.stages > 16)
    return shape(config.stages, "stages", "2 to 16");
  if (config.consumers > 3)
    return shape(config.consumers, "consumers", "1 to 3");
  if (config.pingPong && config.consumers != 2)
    return shape(config.consumers, "consumers", "2 with turns");
  if (config.multicastBlocks() > 2)
    return shape(config.multicastBlocks(), "blocks a cluster", "1 or 2");
  if (config.columnShared &&
      (config.consumers < 2 || config.pingPong || config.splitK() > 1))
    return shape(config.columnShared, "columnShared",
                 "0 with one consumer, turns or splits");
  int sharers = config.rowSharers();
  if (config.rows() > config.mostRows() ||
      config.rows() % (Sm90GemmConfig::kUnit * sharers) != 0)
    return shape(config.rows(), "rows",
                 config.columnShared ? "64 to 384 in steps of 64"
                 : sharers > 2       ? "192"
                 : sharers > 1       ? "128 or 256"
                                     : "64 to 256 in steps of 64");
  if (config.columns() > 256)
    return shape(config.columns(), "columns", "up to 256");
  int step = config.columnStep(signature) / config.columnSharers();
  if (config.columns() % config.columnSharers() != 0 ||
      config.consumerColumns() % step != 0 ||
      config.consumerColumns() < (config.swapAB ? 8 : step))
    return shape(config.consumerColumns(), "columns a consumer",
                 columnsInStepsOf(step, config.swapAB));
  if (config.staging != 0 && config.fetchedOperands(signature) > 0)
    return shape(config.staging, "staging",
                 "0 where C or a residual comes in by TMA");
  if (config.staging > 1)
    return shape(config.staging, "staging",
                 "0 or 1 with turns, splits, clusters or a short ring");
  return Rejection{PruneReason::InstructionShape};
}

/// TMA's coordinates are ints, and its strides are below 2^40 bytes.
static std::optional<Rejection>
checkTensorMaps(const GemmProblem &problem, const GemmSignature &signature) {
  // A box that begins with the last element ends behind it.
  constexpr double kMostBox = 256, kMostElements = 2147483647 - kMostBox;
  double most = double(std::max({problem.m, problem.n, problem.k}));
  if (most > kMostElements)
    return Rejection{PruneReason::Grid, most, kMostElements, "elements"};
  constexpr double kMaxStride = double(int64_t(1) << 40);
  double in = bytesOf(signature.in), out = bytesOf(signature.out);
  double rowsA = problem.rowsA(), rowsB = problem.rowsB(), rowsD = problem.m;
  if (problem.batch == 1)
    rowsA = rowsB = rowsD = 1;
  for (double stride : {in * problem.lda * rowsA, in * problem.ldb * rowsB,
                        out * problem.ldd * rowsD, out * problem.ldc * rowsD,
                        out * problem.ldResidual * rowsD})
    if (stride >= kMaxStride)
      return Rejection{PruneReason::Alignment, stride, kMaxStride, "B"};
  return std::nullopt;
}

std::optional<Rejection> Sm90Gemm::checkLimits(
    const GemmProblem &problem, const GemmSignature &signature,
    const Sm90GemmConfig &config, const DeviceModel &device) const {
  constexpr int kCapability = 90; // wgmma is of this architecture alone
  if (device.computeCapability() != kCapability)
    return Rejection{PruneReason::Architecture,
                     double(device.computeCapability()), kCapability};
  if (signature.in != DType::BF16 && signature.in != DType::FP16)
    return Rejection{PruneReason::Type};
  // The first wall, ahead of what else may be wrong with so large a tile.
  int accumulators = mostAccumulators(signature, config);
  if (config.accumulators() > accumulators)
    return Rejection{PruneReason::Registers, double(config.accumulators()),
                     double(accumulators), "accumulators a thread"};
  if (!config.isValid(signature))
    return invalidShape(signature, config);
  int64_t ranges = ceilDiv(problem.k, config.blockK);
  // Every split has work, and there is some at all.
  if (ranges < config.splitK())
    return Rejection{PruneReason::Dominated, double(config.splitK()),
                     double(ranges), "splits"};
  if (config.multicastBlocks() > 1 &&
      device.maxClusters(config.multicastBlocks()) == 0)
    return Rejection{PruneReason::Cluster, double(config.multicastBlocks())};
  // Splits of a tile wait for each other: all of them run at once.
  if (config.splitK() > device.smCount)
    return Rejection{PruneReason::Grid, double(config.splitK()),
                     double(device.smCount), "splits"};
  if (auto rejection = checkTensorMaps(problem, signature))
    return rejection;
  double bytes = double(repackBytes(problem, signature));
  if (bytes > kMaxRepackBytes)
    return Rejection{PruneReason::Workspace, bytes, kMaxRepackBytes, "B"};
  return std::nullopt;
}

std::unique_ptr<Template> makeSm90GemmTemplate() {
  return std::make_unique<Sm90Gemm>();
}

} // namespace kiln
