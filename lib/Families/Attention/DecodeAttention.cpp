//===- DecodeAttention.cpp - few queries against long caches --------------===//
//
// The space is a table of rings, each with splits that a second kernel or a
// cluster merges. The rows of a block follow from the problem: as few as the
// instruction allows, since each row tile costs registers. Q moves to shared
// memory where registers do not hold it; beyond that, warps divide the columns
// of O. MLA, with 512 columns, needs both.
//
//===----------------------------------------------------------------------===//
#include "Families/Attention/AttentionCombine.h"
#include "Families/Attention/AttentionTemplate.h"
#include "Families/Attention/DecodeGrid.h"
#include "Families/Attention/LaunchedAttention.h"
#include "Model/MathUtil.h"
#include "Model/Occupancy.h"

#include <llvm/ADT/SmallVector.h>

#include <algorithm>
#include <limits>

namespace kiln {

namespace {

struct Ring {
  int warps, stages, tile;
};

/// Best guesses first: two blocks of four warps on an SM, 48 KB in flight each
/// at head dim 128, are best, except for a single sequence, which has one block
/// there (H200).
constexpr Ring kRings[] = {{4, 3, 16}, {4, 3, 32}, {4, 6, 16},
                           {8, 3, 16}, {8, 3, 32}, {4, 2, 16},
                           {4, 6, 32}, {8, 2, 16}, {2, 6, 16}};
/// For rows so long that four warps have no room (head dim 256 in 99 KB).
constexpr Ring kLongRings[] = {{2, 3, 16}, {2, 2, 16}};
constexpr int kFills[] = {4, 8};
constexpr int kLeastCopied = 4; ///< bytes of a copy to shared memory
constexpr int kLeastDim = 8;    ///< elements of a row
/// Where lengths differ, more blocks than run at once fill up the end (H200,
/// with the lengths of DecodeGrid.cpp).
constexpr int kRaggedFills[] = {4, 8, 16, 32};
constexpr CombineAttentionConfig kCombine{.warps = 4, .decode = 1};

class DecodeAttentionBinder final : public Binder {
public:
  DecodeAttentionBinder(const DecodeAttentionConfig &config,
                        const AttentionSignature &signature,
                        int64_t partialRows, bool startsEarly)
      : config(config), blocks(config), partialRows(partialRows),
        scaleByDefault(defaultScale(signature.headDim)),
        sharedBytes(static_cast<uint32_t>(config.sharedBytes(signature))),
        startsEarly(startsEarly) {}

  bool usesWorkspace(const Arguments &arguments,
                     int32_t smCount) const noexcept override {
    return gridOf(readLaunchedAttention(arguments.problem), smCount).splits > 1;
  }

  void bind(const Arguments &arguments, const LaunchContext &context,
            LaunchSpec &spec) const noexcept override {
    AttentionProblem problem = readLaunchedAttention(arguments.problem);
    DecodeGrid grid = gridOf(problem, context.smCount);
    KernelStep &step = spec.addKernelOf([&] {
      AttentionParams params =
          makeAttentionParams(problem, arguments, scaleByDefault);
      params.splits = static_cast<int>(grid.splits);
      params.splitKeys = static_cast<int>(grid.splitKeys);
      if (grid.splits > 1)
        placePartials(context.scratch, grid.rows(problem), problem.valueDim,
                      params);
      return params;
    });
    step.grid = {static_cast<uint32_t>(grid.splits),
                 static_cast<uint32_t>(problem.kvHeads * grid.rowBlocks),
                 static_cast<uint32_t>(problem.batch)};
    step.block.x = static_cast<uint32_t>(config.threads());
    step.sharedBytes = sharedBytes;
    if (grid.splits == 1)
      return;
    if (config.cluster)
      step.cluster.x = static_cast<uint32_t>(grid.splits);
    else
      addCombineStep(spec.paramsOf<AttentionParams>(step), kCombine,
                     /*function=*/1, startsEarly, spec);
  }

private:
  [[gnu::always_inline]] DecodeGrid gridOf(const AttentionProblem &problem,
                                           int64_t smCount) const {
    bool isLimited = !config.cluster && problem.fixedSplit == 0;
    return DecodeGrid(problem, blocks, smCount,
                      isLimited ? partialRows : DecodeGrid::kMaxPartialRows);
  }

  DecodeAttentionConfig config;
  DecodeBlocks blocks;
  int64_t partialRows;
  double scaleByDefault;
  uint32_t sharedBytes;
  bool startsEarly;
};

class DecodeAttention final : public AttentionTemplate<DecodeAttentionConfig> {
public:
  DecodeAttention()
      : AttentionTemplate({"attention/DecodeAttention.cuh",
                           "AttentionSignature", "DecodeAttentionConfig",
                           "AttentionParams", "decodeAttention"}) {}

protected:
  /// 16 bits for rows that begin at any element, which no copy can read, or
  ///    that are shorter than an instruction's operand.
  std::optional<DType>
  collectedType(const AttentionProblem &problem,
                const AttentionSignature &signature) const override {
    const bool isRead = signature.align >= kLeastCopied &&
                        signature.headDim >= kLeastDim &&
                        signature.valueDim >= kLeastDim;
    if (problem.latent || problem.fixedSplit > 0 || isRead)
      return std::nullopt;
    return signature.q == DType::E4M3 ? signature.out : signature.q;
  }
  void forEachConfig(const AttentionProblem &problem,
                     const AttentionSignature &signature,
                     const DeviceModel &device,
                     Emit<DecodeAttentionConfig> emit) const override;
  void forEachVariant(const AttentionProblem &problem,
                      const AttentionSignature &signature,
                      const DecodeAttentionConfig &config,
                      const DeviceModel &device,
                      Emit<DecodeAttentionConfig> emit) const override;
  CandidateClass
  classOfConfig(const DecodeAttentionConfig &config) const override;
  std::optional<Rejection>
  checkLimits(const AttentionProblem &problem,
              const AttentionSignature &signature,
              const DecodeAttentionConfig &config,
              const DeviceModel &device) const override;
  /// The space has one config.
  std::optional<Rejection> checkFixedSplit(const AttentionProblem &problem,
                                           const AttentionSignature &signature,
                                           const DecodeAttentionConfig &,
                                           const DeviceModel &) const override;
  Estimate predict(const AttentionProblem &problem,
                   const DecodeAttentionConfig &config,
                   const DeviceModel &device) const override;
  Prediction<Figure> derive(const AttentionProblem &problem,
                            const DecodeAttentionConfig &config,
                            const DeviceModel &device,
                            Derivation &steps) const override;
  WorkspaceLayout workspaceOf(const AttentionProblem &problem,
                              const DecodeAttentionConfig &config,
                              const DeviceModel &device) const override;
  void completePlan(const AttentionProblem &problem,
                    const AttentionSignature &signature,
                    const DecodeAttentionConfig &config,
                    const DeviceModel &device, Plan &plan) const override;

public:
  using AttentionTemplate::firstOfOne;
};

} // namespace

/// Registers of a thread that are live for the whole loop or for a tile: sums,
/// Q where it is resident, scores, and addresses of copies. ptxas takes some 50
/// more, 90 with pages, masks and slopes.
static AttentionRegisters heldRegisters(const AttentionSignature &signature,
                                        const DecodeAttentionConfig &config) {
  const int64_t tiles = config.rowTiles();
  return {.output = tiles * (config.partCols(signature) / 2),
          .scores = tiles * (config.tile / 2),
          .queries =
              config.sharedQueries ? 0 : tiles * config.keySteps(signature) * 4,
          .rest = std::max(config.copies(signature.headDim, signature),
                           config.copies(signature.valueDim, signature))};
}
/// Kernels spill above this: 160 (head dim 128, 32 rows, 32 keys) and 200 (head
/// dim 256 with resident Q) spill, 152 (head dim 256, shared Q) does not.
static constexpr int64_t kMostHeld = 156;

static BlockResources blockOf(const AttentionSignature &signature,
                              const DecodeAttentionConfig &config) {
  constexpr int64_t kOverhead = 50, kPaged = 30, kLimit = 255, kUnit = 8;
  const int64_t paged = signature.pages == AttentionPages::None ? 0 : kPaged;
  const int64_t registers =
      heldRegisters(signature, config).total() + kOverhead + paged;
  return {config.threads(), roundUp(std::min(registers, kLimit), kUnit),
          config.sharedBytes(signature)};
}

/// Rows of a block: as few as hold all rows of a head of K, at most 32.
static int rowsFor(const AttentionProblem &problem) {
  int64_t rows = problem.queries * problem.group();
  return rows <= 8 ? 8 : rows <= 16 ? 16 : 32;
}

/// Moves Q to shared memory, and divides the columns of O, as far as registers
/// need it.
static void fitRegisters(const AttentionSignature &signature,
                         DecodeAttentionConfig &config) {
  config.parts = 0;
  for (int shared : {0, 1}) {
    config.sharedQueries = shared;
    if (heldRegisters(signature, config).total() <= kMostHeld)
      return;
  }
  for (int parts : {2, 4, 8}) {
    config.parts = parts;
    if (heldRegisters(signature, config).total() <= kMostHeld)
      return;
  }
}

/// Whether tiles of `mma` and `sm90`, which have 16-bit types and heads up to
/// 256, may read K and V less often: they do if a head of K has more rows than
/// this. (64 sequences of 128 queries and keys, 32 heads over 8, causal, on an
/// H200: 403 us, `sm90` about 60 us.)
static bool isForTiles(const AttentionProblem &problem,
                       const AttentionSignature &signature) {
  constexpr int64_t kMostRows = 64, kMostTiledDim = 256;
  return problem.queries * problem.group() > kMostRows &&
         problem.headDim <= kMostTiledDim && bytesOf(signature.kv) == 2;
}

/// The most blocks of rows that may read the same K and V, where tiles would
/// read them once; all but the first read them from L2. If no tiles split the
/// keys, estimates decide.
static int64_t mostRowBlocks(const DeviceModel &device) {
  constexpr int kSplittingTiles = 90; // the architecture of `sm90`
  return device.computeCapability() == kSplittingTiles
             ? 16
             : std::numeric_limits<int32_t>::max();
}

/// Whether the space is empty for a problem. If the smallest tiles of all heads
/// of K leave SMs idle, splits of the keys may save more than fewer reads, and
/// estimates decide. With a fixed split the batch must not decide.
static bool isLeftOut(const AttentionProblem &problem,
                      const AttentionSignature &signature,
                      const DeviceModel &device) {
  if (!isForTiles(problem, signature))
    return false;
  if (problem.fixedSplit > 0)
    return true;
  constexpr int64_t kTileRows = 64, kMostBlockRows = 32;
  int64_t rows = problem.queries * problem.group();
  double tiles = double(problem.batch) * double(problem.kvHeads) *
                 double(ceilDiv(rows, kTileRows));
  return rows > mostRowBlocks(device) * kMostBlockRows ||
         tiles >= double(device.smCount);
}

void DecodeAttention::forEachVariant(const AttentionProblem &problem,
                                     const AttentionSignature &,
                                     const DecodeAttentionConfig &config,
                                     const DeviceModel &device,
                                     Emit<DecodeAttentionConfig> emit) const {
  llvm::ArrayRef<int> fills(kFills);
  // Clusters of mostly empty splits stay resident (16 sequences of up to 8192
  // keys, 2000 usually, on an H200: 49 us, 41 us with clusters of two).
  if (problem.isRagged() && !config.cluster)
    fills = kRaggedFills;
  forEachFill(problem, config,
              fills.take_front(problem.fixedSplit > 0 ? 1 : fills.size()),
              device.smCount, emit);
}

void DecodeAttention::forEachConfig(const AttentionProblem &problem,
                                    const AttentionSignature &signature,
                                    const DeviceModel &device,
                                    Emit<DecodeAttentionConfig> emit) const {
  if (isLeftOut(problem, signature, device))
    return;
  auto configOf = [&](int rows, const Ring &ring) {
    DecodeAttentionConfig config{.rows = rows,
                                 .tile = ring.tile,
                                 .stages = ring.stages,
                                 .warps = ring.warps};
    fitRegisters(signature, config);
    return config;
  };
  for (int rows = rowsFor(problem); rows >= 8; rows = rows == 32 ? 16 : 0) {
    llvm::SmallVector<Ring, 12> rings(std::begin(kRings), std::end(kRings));
    constexpr Ring kLeast = {4, 2, 16};
    if (configOf(rows, kLeast).sharedBytes(signature) >
        device.sharedBytesPerBlock)
      rings.append(std::begin(kLongRings), std::end(kLongRings));
    for (const Ring &ring : rings) {
      DecodeAttentionConfig config = configOf(rows, ring);
      if (config.warps % config.partCount() != 0)
        continue;
      // Results that do not depend on the batch need one config for all
      // batches.
      bool fits = config.isValid(signature) &&
                  config.sharedBytes(signature) <= device.sharedBytesPerBlock &&
                  heldRegisters(signature, config).total() <= kMostHeld;
      if (problem.fixedSplit > 0 && !fits)
        continue;
      for (int cluster = 0; cluster <= (device.hasClusters() ? 1 : 0);
           ++cluster) {
        config.cluster = cluster;
        forEachVariant(problem, signature, config, device, emit);
        if (problem.fixedSplit > 0)
          return;
      }
    }
  }
}

CandidateClass
DecodeAttention::classOfConfig(const DecodeAttentionConfig &c) const {
  return {.key = classKey({2, c.rows, c.cluster, c.warps}),
          .rank = c.cluster,
          .ranksByTime = true};
}

/// The limits of copies and of the instruction on rows and addresses.
static std::optional<Rejection>
checkShape(const AttentionSignature &signature,
           const DecodeAttentionConfig &config) {
  constexpr int kMostDim = 576;
  if (auto rejection = checkAlign(signature.align, kLeastCopied))
    return rejection;
  int dim = std::max(signature.headDim, signature.valueDim);
  if (dim > kMostDim)
    return Rejection{PruneReason::InstructionShape, double(dim), kMostDim,
                     "elements of a row"};
  if (config.warps % config.partCount() != 0)
    return Rejection{PruneReason::Dominated, double(config.warps),
                     double(config.partCount()), "warps"};
  if (!config.isValid(signature))
    return Rejection{PruneReason::InstructionShape};
  return std::nullopt;
}

/// The limits of the grid. Blocks must not read K and V much more often than
/// other templates do.
static std::optional<Rejection> checkGridOf(const AttentionProblem &problem,
                                            const AttentionSignature &signature,
                                            const DecodeGrid &grid,
                                            const DeviceModel &device) {
  if (auto rejection =
          checkGridYZ({double(problem.batch), double(problem.heads),
                       double(problem.kvHeads * grid.rowBlocks)}))
    return rejection;
  if (grid.rowBlocks > mostRowBlocks(device) && isForTiles(problem, signature))
    return Rejection{PruneReason::Dominated, double(grid.rowBlocks),
                     double(mostRowBlocks(device)), "blocks of rows"};
  return checkGrid(double(grid.splits));
}

/// Refuses partial results beyond the room of a plan. Only fixed splits can
/// exceed it: their number is given, while other splits become longer instead
/// (DecodeGrid).
static std::optional<Rejection>
checkPartialBytes(const AttentionProblem &problem,
                  const DecodeAttentionConfig &config, const DecodeGrid &grid) {
  if (problem.fixedSplit == 0 || grid.splits == 1 || config.cluster)
    return std::nullopt;
  // A double, because such splits may be absurdly many.
  double bytes = double(grid.splits) * double(partialRowsOf(problem)) *
                 double(partialBytes(1, problem.valueDim));
  constexpr double kMost = double(kMostFixedPartialBytes);
  if (bytes <= kMost)
    return std::nullopt;
  return Rejection{PruneReason::Workspace, bytes, kMost, "B"};
}

std::optional<Rejection> DecodeAttention::checkLimits(
    const AttentionProblem &problem, const AttentionSignature &signature,
    const DecodeAttentionConfig &config, const DeviceModel &device) const {
  if (auto rejection = checkAmpere(device))
    return rejection;
  if (auto rejection = checkRate(device, decodeRate(signature.q, signature.kv)))
    return rejection;
  if (auto rejection = checkShape(signature, config))
    return rejection;
  int64_t held = heldRegisters(signature, config).total();
  if (held > kMostHeld)
    return Rejection{PruneReason::Registers, double(held), double(kMostHeld),
                     "sums, scores and addresses a thread"};
  if (config.cluster && !device.hasClusters())
    return Rejection{PruneReason::Cluster, double(config.kMaxCluster), 1,
                     "blocks"};
  DecodeGrid grid(problem, config, device.smCount);
  if (auto rejection = checkGridOf(problem, signature, grid, device))
    return rejection;
  if (auto rejection = checkPartialBytes(problem, config, grid))
    return rejection;
  if (!config.cluster)
    return std::nullopt;
  if (grid.splits > config.kMaxCluster)
    return Rejection{PruneReason::Cluster, double(grid.splits),
                     double(config.kMaxCluster), "splits"};
  // Without splits a cluster is just a block.
  if (grid.splits < 2)
    return Rejection{PruneReason::Dominated, double(grid.splits), 2, "splits"};
  return std::nullopt;
}

/// Whether tiles serve a problem with a fixed split, including those of e4m3.
static bool isLeftToTiles(const AttentionProblem &problem,
                          const AttentionSignature &signature,
                          const DeviceModel &device) {
  constexpr int64_t kMostRows = 64;
  return isForTiles(problem, signature) ||
         (problem.queries * problem.group() > kMostRows &&
          isServedBySm90(problem, signature, device));
}

std::optional<Rejection> DecodeAttention::checkFixedSplit(
    const AttentionProblem &problem, const AttentionSignature &signature,
    const DecodeAttentionConfig &, const DeviceModel &device) const {
  if (isLeftToTiles(problem, signature, device))
    return notForFixedSplit(problem, "few rows of queries");
  return std::nullopt;
}

bool isServedByDecode(const AttentionProblem &problem,
                      const AttentionSignature &signature,
                      const DeviceModel &device) {
  static const DecodeAttention &decode = *new DecodeAttention;
  return !isLeftToTiles(problem, signature, device) &&
         decode.firstOfOne(problem, signature, device);
}

/// The kernel in the form that its estimate needs.
static AttentionDecodeKernel kernelOf(const AttentionProblem &problem,
                                      const DecodeAttentionConfig &config,
                                      const DeviceModel &device) {
  AttentionSignature signature = signatureOf(problem);
  DecodeGrid grid(problem, config, device.smCount);
  Occupancy resident = occupancy(device, blockOf(signature, config));
  AttentionDecodeKernel kernel;
  kernel.rows = config.rows;
  kernel.warps = config.rings();
  kernel.parts = config.partCount();
  kernel.stages = config.stages;
  kernel.pieceKeys = config.tile;
  kernel.copyBytes = DecodeAttentionConfig::copyBytes(signature);
  kernel.blocksPerSm = std::max<int64_t>(resident.blocksPerSm, 1);
  kernel.splits = grid.splits;
  kernel.splitKeys = grid.splitKeys;
  if (grid.splits > 1)
    kernel.merge = config.cluster               ? SplitMerge::Cluster
                   : hasDependentLaunch(device) ? SplitMerge::DependentLaunch
                                                : SplitMerge::Launch;
  return kernel;
}

Estimate DecodeAttention::predict(const AttentionProblem &problem,
                                  const DecodeAttentionConfig &config,
                                  const DeviceModel &device) const {
  return estimateAttentionDecode(problem, kernelOf(problem, config, device),
                                 device);
}

Prediction<Figure> DecodeAttention::derive(const AttentionProblem &problem,
                                           const DecodeAttentionConfig &config,
                                           const DeviceModel &device,
                                           Derivation &steps) const {
  const AttentionSignature signature = signatureOf(problem);
  const double rings = config.rings();
  const int keyBytes = config.keyTileBytes(signature);
  addAttentionWalls(
      {.registers = heldRegisters(signature, config),
       .registerLimit = kMostHeld,
       .registerRule = "live for the whole loop; kernels with more spill, and "
                       "the pruner has the same rule",
       .shared = {.stages = config.stages,
                  .bytesA = rings * keyBytes,
                  .bytesB = rings * (config.stageBytes(signature) - keyBytes)},
       .block = blockOf(signature, config)},
      device, steps);
  return explainAttentionDecode(problem, kernelOf(problem, config, device),
                                device, steps);
}

WorkspaceLayout
DecodeAttention::workspaceOf(const AttentionProblem &problem,
                             const DecodeAttentionConfig &config,
                             const DeviceModel &device) const {
  int64_t rows = partialRowsOfPlan(problem, config, device.smCount);
  return {.scratchBytes = uint64_t(partialBytes(rows, problem.valueDim))};
}

void DecodeAttention::completePlan(const AttentionProblem &problem,
                                   const AttentionSignature &signature,
                                   const DecodeAttentionConfig &config,
                                   const DeviceModel &device,
                                   Plan &plan) const {
  if (!config.cluster) {
    plan.kernels.push_back(makeCombineUnit(signature, kCombine, device));
    plan.sharedBytes.push_back(0);
  }
  plan.binder = std::make_shared<DecodeAttentionBinder>(
      config, signature, partialRowsOfPlan(problem, config, device.smCount),
      /*startsEarly=*/hasDependentLaunch(device));
}

std::unique_ptr<Template> makeDecodeAttentionTemplate() {
  return std::make_unique<DecodeAttention>();
}

} // namespace kiln
