//===- MmaAttention.cpp - the mma.sync template ---------------------------===//
//
// The template for every architecture before 9.0, and elsewhere for strides
// that tensor maps cannot describe. The space is a table of tiles for each
// range of head dimensions, each with the ways to load fragments that its
// registers allow. The slower halves of the other decisions (copies through
// registers, plain rows, ...) are left to studies (tools/kiln-bench).
//
// The first wall is the registers of a thread: rows of O and scores, which
// follow from a warp's rows and the head dimension, beside resident fragments
// of Q. The second wall is shared memory: Q, K and V of a tile, (B_r + 2 B_c)
// d.
//
//===----------------------------------------------------------------------===//
#include "Families/Attention/AttentionTemplate.h"
#include "Families/Attention/LaunchedAttention.h"
#include "Model/MathUtil.h"
#include "Model/Occupancy.h"
#include "attention/MmaAttentionConfig.h"

#include <algorithm>

namespace kiln {

using Config = MmaAttentionConfig;

static constexpr int kLeastAlign = 4; // of asynchronous copies

namespace {

struct Tile {
  int rows, keys, warps;
};

/// Large tiles first: they read K and V less often. Warps of 32 rows use each
/// fragment of K and V twice as often, as far as their O fits.
constexpr Tile kSmallHeads[] = {{128, 64, 4}, {128, 32, 4}, {64, 128, 4},
                                {64, 64, 4},  {64, 32, 4},  {128, 128, 8}};
constexpr Tile kMediumHeads[] = {{128, 64, 4}, {128, 32, 4}, {64, 64, 4},
                                 {64, 32, 4},  {128, 64, 8}, {128, 128, 8}};
constexpr Tile kLargeHeads[] = {
    {64, 64, 4}, {64, 32, 4}, {128, 64, 8}, {128, 32, 8}, {64, 16, 4}};

llvm::ArrayRef<Tile> tilesFor(int headDim) {
  if (headDim <= 64)
    return kSmallHeads;
  return headDim <= 128 ? llvm::ArrayRef(kMediumHeads)
                        : llvm::ArrayRef(kLargeHeads);
}

/// Loads of Q, K and V: 0 resident, 2 in steps.
struct Loads {
  int queries, keys, values, doubleBuffer;
};
constexpr Loads kLoads[] = {{0, 2, 2, 0}, {2, 2, 2, 0}, {2, 2, 2, 1},
                            {0, 2, 0, 0}, {2, 2, 0, 0}, {0, 0, 0, 0}};

/// Registers of a thread while S is computed. Fitted to those that ptxas (CUDA
/// 13.0) gives kernels for 9.0 and 8.0: the least `rest` that tells the
/// spilling kernels apart. ptxas loads fragments in excess of a step later.
AttentionRegisters demandOf(const Config &config,
                            const AttentionSignature &signature) {
  constexpr int kRest = 24, kOfGathers = 8, kOfNarrowCopies = 8,
                kOfDoubleBuffers = 8;
  int tiles = std::max(config.rowTiles(), 1);
  int queryDim = config.keyShape(signature).dim;
  return {.output = tiles * config.valueShape(signature).dim / 2,
          .scores = tiles * config.blockKeys / 2,
          .queries = tiles * (config.queryTiles == 0 ? queryDim / 4 : 4),
          .keys = config.blockKeys / 4,
          .rows = 4 * tiles,
          .rest = kRest +
                  (signature.pages != AttentionPages::None ? kOfGathers : 0) +
                  (signature.align < 16 ? kOfNarrowCopies : 0) +
                  (config.doubleBuffer ? kOfDoubleBuffers : 0)};
}

constexpr int64_t kMostRegisters = 255;

BlockResources blockOf(const Config &config,
                       const AttentionSignature &signature) {
  return {config.threads(),
          std::min(demandOf(config, signature).total(), kMostRegisters),
          config.sharedBytes(signature)};
}

/// The wall of registers. A config beyond it would still run, but from memory.
std::optional<Rejection> checkDemand(const Config &config,
                                     const AttentionSignature &signature) {
  int64_t total = demandOf(config, signature).total();
  if (total <= kMostRegisters)
    return std::nullopt;
  return Rejection{PruneReason::Registers, double(total),
                   double(kMostRegisters), "a thread for O, scores and Q"};
}

int64_t rowsOf(const Config &config, const AttentionProblem &problem) {
  return problem.queries *
         config.packedHeads(problem.queries, int(problem.group()));
}

/// Heads of the grid over all sequences; packed heads count once.
int64_t headsOf(const Config &config, const AttentionProblem &problem) {
  return problem.batch * problem.heads /
         config.packedHeads(problem.queries, int(problem.group()));
}

/// Heads whose blocks run side by side, longest rows first (see
/// MmaAttention::locate): as many as keep their K and V in L2. Without a mask
/// rows are equally long, and those of one head follow each other.
int64_t sectionOf(const Config &config, const AttentionProblem &problem,
                  int64_t l2Bytes) {
  int64_t heads = headsOf(config, problem);
  int64_t least = ceilDiv(heads, kMaxGridYZ);
  if (problem.mask == AttentionMask::None)
    return std::max<int64_t>(least, 1);
  // Half of L2, because blocks of the section before are still running.
  int64_t bytes = 2 * problem.keys * (problem.headDim + problem.valueDim);
  int64_t fit = std::max<int64_t>(l2Bytes / 2 / std::max<int64_t>(bytes, 1), 1);
  int64_t shared = config.packedHeads(problem.queries, int(problem.group())) > 1
                       ? 1
                       : problem.group();
  // In a section that is not full, the extra blocks leave at once.
  int64_t section = std::clamp<int64_t>(fit * shared, least, heads);
  return ceilDiv(heads, ceilDiv(heads, section));
}

class MmaAttentionTemplate final : public TiledAttention<Config> {
public:
  MmaAttentionTemplate()
      : TiledAttention({"attention/MmaAttention.cuh", "AttentionSignature",
                        "MmaAttentionConfig", "AttentionParams",
                        "mmaAttention"}) {}

protected:
  void forEachConfig(const AttentionProblem &problem,
                     const AttentionSignature &signature,
                     const DeviceModel &device,
                     Emit<Config> emit) const override;

  /// 16 bits for e4m3, whose elements keep their values there, and for rows
  ///    that no copy can read.
  std::optional<DType>
  collectedType(const AttentionProblem &problem,
                const AttentionSignature &signature) const override {
    if (problem.latent ||
        (signature.kv != DType::E4M3 && signature.align >= kLeastAlign))
      return std::nullopt;
    return signature.q == DType::E4M3 ? signature.out : signature.q;
  }

  /// A class is a tile; loads vary within it.
  CandidateClass classOfConfig(const Config &c) const override {
    return {classKey({c.blockRows, c.blockKeys, c.warps}), 0};
  }

  std::optional<Rejection>
  checkLimits(const AttentionProblem &problem,
              const AttentionSignature &signature, const Config &config,
              const DeviceModel &device) const override;

  /// Tiles with equally many keys give a row the same bits.
  std::optional<Rejection>
  checkFixedSplit(const AttentionProblem &problem,
                  const AttentionSignature &signature, const Config &config,
                  const DeviceModel &device) const override {
    if (isServedByDecode(problem, signature, device) ||
        isServedBySm90(problem, signature, device))
      return notForFixedSplit(problem,
                              "problems that decode and sm90 do not serve");
    auto first = firstOfOne(problem, signature, device);
    if (first && first->blockKeys != config.blockKeys)
      return Rejection{PruneReason::Dominated, double(config.blockKeys),
                       double(first->blockKeys), "keys of a tile"};
    if (first && first->optimizedSoftmax != config.optimizedSoftmax)
      return Rejection{PruneReason::Dominated, double(config.optimizedSoftmax),
                       double(first->optimizedSoftmax), "folded scales"};
    return std::nullopt;
  }

  AttentionTileKernel tileKernel(const AttentionProblem &problem,
                                 const Config &config,
                                 const DeviceModel &device) const override;

  AttentionWalls wallsOf(const AttentionSignature &signature,
                         const Config &config,
                         const DeviceModel &) const override {
    const double keys = config.blockKeys;
    return {.registers = demandOf(config, signature),
            .registerLimit = kMostRegisters,
            .registerRule = "live while S is computed; the rest is fitted to "
                            "the kernels that ptxas spills, and the pruner "
                            "has the same rule",
            .shared = {.stages = 1,
                       .bytesA = keys * config.keyShape(signature).pitch(),
                       .bytesB = keys * config.valueShape(signature).pitch()},
            .block = blockOf(config, signature)};
  }

  void completePlan(const AttentionProblem &,
                    const AttentionSignature &signature, const Config &config,
                    const DeviceModel &device, Plan &plan) const override {
    plan.binder = makeBinder([config,
                              sharedBytes = config.sharedBytes(signature),
                              l2Bytes = device.l2Bytes,
                              scaleByDefault = defaultScale(signature.headDim)](
                                 const Arguments &arguments,
                                 const LaunchContext &, LaunchSpec &spec) {
      AttentionProblem p = readLaunchedAttention(arguments.problem);
      KernelStep &step = spec.addKernelOf(
          [&] { return makeAttentionParams(p, arguments, scaleByDefault); });
      int64_t section = sectionOf(config, p, l2Bytes);
      step.grid.x =
          static_cast<uint32_t>(config.blocksOf(rowsOf(config, p)) * section);
      step.grid.y = static_cast<uint32_t>(ceilDiv(headsOf(config, p), section));
      step.block.x = static_cast<uint32_t>(config.threads());
      step.sharedBytes = static_cast<uint32_t>(sharedBytes);
    });
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// Space
//===----------------------------------------------------------------------===//

void MmaAttentionTemplate::forEachConfig(const AttentionProblem &problem,
                                         const AttentionSignature &signature,
                                         const DeviceModel &,
                                         Emit<Config> emit) const {
  Config config;
  config.dtype = Config::dtypeOf(signature.q);
  if (config.dtype == 0)
    return;
  config.headDim = Config::headDimOf(signature);
  config.asyncCopy = config.eagerLoads = config.swizzled = 1;
  config.optimizedSoftmax = 1;
  for (const Tile &tile : tilesFor(config.headDim)) {
    config.blockRows = tile.rows;
    config.blockKeys = tile.keys;
    config.warps = tile.warps;
    // If rows fill only half of a tile, the tile of half the height wastes
    // less.
    if (tile.rows > 64 && 2 * rowsOf(config, problem) <= tile.rows)
      continue;
    for (const Loads &loads : kLoads) {
      config.queryTiles = loads.queries;
      config.keyTiles = loads.keys;
      config.valueTiles = loads.values;
      config.doubleBuffer = loads.doubleBuffer;
      if (!checkDemand(config, signature))
        emit(config);
    }
  }
}

/// The limits of MmaAttentionConfig::isValid(), by name.
static std::optional<Rejection>
checkShape(const Config &config, const AttentionSignature &signature) {
  auto reject = [](double value, llvm::StringRef unit,
                   llvm::StringRef allowed) {
    return Rejection{PruneReason::InstructionShape, value, 0, unit, allowed};
  };
  constexpr int kMostHeadDim = 256;
  if (Config::headDimOf(signature) > kMostHeadDim)
    return Rejection{PruneReason::InstructionShape,
                     double(Config::headDimOf(signature)), kMostHeadDim,
                     "elements a head"};
  if (config.headDim != Config::headDimOf(signature))
    return reject(config.headDim, "elements a head",
                  "the problem's, a multiple of 16");
  if (config.warps != 4 && config.warps != 8)
    return reject(config.warps, "warps", "4 or 8");
  if (config.blockRows % (16 * config.warps) != 0 || config.blockRows > 256)
    return reject(config.blockRows, "rows a block",
                  "16 or 32 for each warp, up to 256");
  if (config.blockKeys % 16 != 0 || config.blockKeys > 128)
    return reject(config.blockKeys, "keys a step",
                  "a multiple of 16 up to 128");
  if (config.eagerLoads && !config.asyncCopy)
    return reject(config.eagerLoads,
                  "as eager loads without asynchronous copies", "0");
  if (!config.hasSchedule())
    return reject(std::max({config.queryTiles, config.keyTiles,
                            config.valueTiles, config.doubleBuffer}),
                  "as a decision", "0 or 1, tiles 0 or 2");
  return std::nullopt;
}

std::optional<Rejection> MmaAttentionTemplate::checkLimits(
    const AttentionProblem &problem, const AttentionSignature &signature,
    const Config &config, const DeviceModel &device) const {
  if (auto rejection = checkAmpere(device))
    return rejection;
  if (Config::dtypeOf(signature.q) == 0 ||
      Config::dtypeOf(signature.q) != config.dtype ||
      signature.kv != signature.q)
    return Rejection{PruneReason::Type};
  if (auto rejection = checkRate(
          device, attentionRate(signature.q,
                                AttentionTileKernel::Instruction::MmaSync)))
    return rejection;
  if (auto rejection = checkAlign(signature.align, kLeastAlign))
    return rejection;
  if (auto rejection = checkShape(config, signature))
    return rejection;
  if (auto rejection = checkSharedBytes(config.sharedBytes(signature), device))
    return rejection;
  int64_t section = sectionOf(config, problem, device.l2Bytes);
  double blocks = double(config.blocksOf(rowsOf(config, problem)));
  if (auto rejection = checkGrid(blocks * double(section)))
    return rejection;
  // Heads of all sequences are counted in 31 bits.
  if (auto rejection = checkGrid(double(headsOf(config, problem))))
    return rejection;
  return checkDemand(config, signature);
}

AttentionTileKernel
MmaAttentionTemplate::tileKernel(const AttentionProblem &problem,
                                 const Config &config,
                                 const DeviceModel &device) const {
  AttentionSignature signature = signatureOf(problem);
  AttentionTileKernel kernel;
  kernel.instruction = AttentionTileKernel::Instruction::MmaSync;
  kernel.rows = config.blockRows;
  kernel.keys = config.blockKeys;
  kernel.packed = config.packedHeads(problem.queries, int(problem.group()));
  kernel.headDim = config.keyShape(signature).dim;
  kernel.valueDim = config.valueShape(signature).dim;
  kernel.order = problem.mask == AttentionMask::None ? TileOrder::Dynamic
                                                     : TileOrder::LongestFirst;
  kernel.gathers = problem.pages != AttentionPages::None;
  kernel.warps = config.warps;
  kernel.blocksPerSm = std::max<int64_t>(
      occupancy(device, blockOf(config, signature)).blocksPerSm, 1);
  kernel.asyncCopy = config.asyncCopy != 0;
  kernel.eagerLoads = config.eagerLoads != 0;
  kernel.swizzled = config.swizzled != 0;
  kernel.residentQueries = config.queryTiles == 0;
  kernel.foldedScale = config.optimizedSoftmax != 0;
  return kernel;
}

std::unique_ptr<Template> makeMmaAttentionTemplate() {
  return std::make_unique<MmaAttentionTemplate>();
}

} // namespace kiln
