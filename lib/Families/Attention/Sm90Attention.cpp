//===- Sm90Attention.cpp - the wgmma template of attention ----------------===//
//
// Registers and shared memory decide the keys of a tile: loops over wide and
// narrow blocks take nearly the same time for a key (H200). So each number of
// consumers has the widest block that fits, and a few narrower ones for lengths
// and windows that would waste a part of it.
//
//===----------------------------------------------------------------------===//
#include "Families/Attention/AttentionTemplate.h"
#include "Families/Attention/Sm90AttentionPlan.h"
#include "Families/Attention/Sm90Pages.h"
#include "Model/MathUtil.h"
#include "Model/RegisterWall.h"
#include "attention/Sm90AttentionConfig.h"

#include <algorithm>
#include <cmath>

namespace kiln {

namespace {

/// Configs with larger partial results are pruned: others have less traffic.
constexpr double kMaxPartialBytes = double(int64_t(1) << 30);

class Sm90Attention final : public TiledAttention<Sm90AttentionConfig> {
public:
  Sm90Attention()
      : TiledAttention({"attention/Sm90Attention.cuh", "AttentionSignature",
                        "Sm90AttentionConfig", "Sm90AttentionParams",
                        "sm90Attention", /*archSpecific=*/true}) {}

protected:
  void forEachConfig(const AttentionProblem &problem,
                     const AttentionSignature &signature,
                     const DeviceModel &device,
                     Emit<Sm90AttentionConfig> emit) const override;
  void forEachVariant(const AttentionProblem &problem,
                      const AttentionSignature &signature,
                      const Sm90AttentionConfig &config,
                      const DeviceModel &device,
                      Emit<Sm90AttentionConfig> emit) const override;

  std::optional<DType>
  collectedType(const AttentionProblem &problem,
                const AttentionSignature &signature) const override;

  CandidateClass
  classOfConfig(const Sm90AttentionConfig &config) const override {
    return {.key =
                classKey({1, config.consumers, config.packed, config.splits}),
            .rank = config.splits,
            .ranksByTime = true};
  }

  std::optional<Rejection>
  checkLimits(const AttentionProblem &problem,
              const AttentionSignature &signature,
              const Sm90AttentionConfig &config,
              const DeviceModel &device) const override;

  std::optional<Rejection>
  checkFixedSplit(const AttentionProblem &problem,
                  const AttentionSignature &signature,
                  const Sm90AttentionConfig &config,
                  const DeviceModel &device) const override;

  AttentionTileKernel tileKernel(const AttentionProblem &problem,
                                 const Sm90AttentionConfig &config,
                                 const DeviceModel &device) const override;

  AttentionWalls wallsOf(const AttentionSignature &signature,
                         const Sm90AttentionConfig &config,
                         const DeviceModel &device) const override;

  WorkspaceLayout workspaceOf(const AttentionProblem &problem,
                              const Sm90AttentionConfig &config,
                              const DeviceModel &device) const override {
    return sm90AttentionWorkspace(problem, config, device);
  }

  void completePlan(const AttentionProblem &problem,
                    const AttentionSignature &signature,
                    const Sm90AttentionConfig &config,
                    const DeviceModel &device, Plan &plan) const override {
    completeSm90AttentionPlan(problem, signature, config, device, plan);
  }

public:
  using AttentionTemplate::firstOfOne;
};

} // namespace

AttentionTileKernel Sm90Attention::tileKernel(const AttentionProblem &problem,
                                              const Sm90AttentionConfig &config,
                                              const DeviceModel &device) const {
  AttentionSignature signature = signatureOf(problem);
  Sm90AttentionGrid grid(problem, config, device.smCount, device.l2Bytes);
  AttentionTileKernel kernel;
  kernel.rows = config.consumers * Sm90AttentionConfig::kUnit;
  kernel.keys = config.blockN;
  kernel.packed = config.packed;
  kernel.filledRows = config.consumers * config.boxRows();
  kernel.headDim = Sm90AttentionConfig::keyDepth(signature);
  kernel.valueDim = Sm90AttentionConfig::valueWidth(signature);
  kernel.order = config.dynamic  ? TileOrder::LongestFirst
                 : grid.isPaired ? TileOrder::Pairs
                                 : TileOrder::Static;
  kernel.isDrawn = config.dynamic;
  kernel.splits = grid.splits;
  kernel.splitKeys = grid.splitKeys;
  kernel.merge =
      grid.splits > 1 ? SplitMerge::DependentLaunch : SplitMerge::None;
  kernel.takesTurns = config.ordered;
  kernel.stages = config.stages;
  kernel.keepsOrigins = !signature.softcap && !signature.alibi;
  // With one buffer Q is given back before the last block's weights are made.
  kernel.raisesLast = config.queryBuffers(signature) == 1;
  // K and V have as many each.
  kernel.boxes = 2 * pagesOfStep(problem, config.blockN);
  kernel.boxClocks = kPageClocks;
  return kernel;
}

//===----------------------------------------------------------------------===//
// The space
//===----------------------------------------------------------------------===//

/// Tiles without splits; a double, because problems may be absurdly large.
static double tilesOf(const AttentionProblem &problem,
                      const Sm90AttentionConfig &config) {
  return std::ceil(double(problem.queries) / config.tileTokens()) *
         double(problem.batch) * double(problem.kvHeads) *
         double(config.groupTiles(problem.group()));
}

static bool isUnevenAt(const AttentionSignature &signature) {
  return signature.mask != AttentionMask::None ||
         signature.queryLengths != AttentionLengths::Uniform ||
         signature.keyLengths != AttentionLengths::Uniform;
}

/// Whether turns balance badly: some blocks would get nearly all tiles behind
/// the ends of short sequences (64 sequences of 1 to 1024 on an H200: 311 us,
/// drawn 153 us).
static bool isRaggedAt(const AttentionSignature &signature) {
  return signature.queryLengths != AttentionLengths::Uniform;
}

/// Calls \p emit with numbers of splits up to the one that fills the device
/// with tiles. With a causal mask half of the splits are short or empty.
static void forEachSplits(const AttentionProblem &problem,
                          const Sm90AttentionConfig &config,
                          const DeviceModel &device,
                          llvm::function_ref<void(int)> emit) {
  emit(1);
  if (problem.fixedSplit > 0)
    return;
  double filling = double(device.smCount) / tilesOf(problem, config);
  if (problem.mask == AttentionMask::Causal)
    filling *= 2;
  double most =
      std::min({filling, double(problem.keys) / double(2 * config.blockN),
                double(kMaxKnob)});
  for (int splits = 2; splits <= most; splits *= 2) {
    emit(splits);
    if (splits / 2 * 3 <= most)
      emit(splits / 2 * 3);
  }
}

/// Three stages if Q keeps its two buffers beside them (head dim 64, s = 512 to
/// 2048, on an H200: 3 to 12 % less time than with two; four are no better).
static int stagesOf(const AttentionSignature &signature,
                    Sm90AttentionConfig config) {
  config.stages = 3;
  return config.queryBuffers(signature) > 1 ? 3 : 2;
}

/// The type of Q, or of O if wgmma cannot take the rows of e4m3 either.
std::optional<DType>
Sm90Attention::collectedType(const AttentionProblem &problem,
                             const AttentionSignature &signature) const {
  // A box for each page is cheap where pages are larger.
  constexpr int64_t kMostPage = 32;
  if (problem.latent)
    return std::nullopt;
  const bool isE4M3 = signature.q == DType::E4M3;
  if (isE4M3 && signature.align < kTmaAlign)
    return signature.out;
  const bool isPlain = signature.kv == signature.q &&
                       signature.align >= kTmaAlign &&
                       (!problem.isPaged() || problem.pageSize > kMostPage);
  return isPlain ? std::nullopt : std::optional(signature.q);
}

void Sm90Attention::forEachVariant(const AttentionProblem &problem,
                                   const AttentionSignature &signature,
                                   const Sm90AttentionConfig &config,
                                   const DeviceModel &device,
                                   Emit<Sm90AttentionConfig> emit) const {
  const bool isUneven = isUnevenAt(signature), isRagged = isRaggedAt(signature);
  forEachSplits(problem, config, device, [&](int splits) {
    // With at most one tile for each SM there is nothing to draw. The splits of
    // a masked problem are too unequal for turns (one head of 3955 queries on
    // an H200: 36 us, drawn 23 us).
    bool isOneTurn =
        tilesOf(problem, config) * splits <= double(device.smCount);
    if (!isRagged && isUneven && isOneTurn && config.dynamic)
      return;
    if (splits > 1 && signature.mask != AttentionMask::None && !isOneTurn &&
        !config.dynamic)
      return;
    Sm90AttentionConfig split = config;
    split.splits = splits;
    emit(split);
  });
}

void Sm90Attention::forEachConfig(const AttentionProblem &problem,
                                  const AttentionSignature &signature,
                                  const DeviceModel &device,
                                  Emit<Sm90AttentionConfig> emit) const {
  if (!hasWgmma(device))
    return;
  static constexpr int kBlocks[] = {128, 176, 160, 144, 112, 96, 80, 64},
                       kBlocksOfE4M3[] = {224, 128, 192, 160, 96, 64};
  llvm::ArrayRef<int> blocks(kBlocks);
  if (signature.q == DType::E4M3)
    blocks = kBlocksOfE4M3;
  const bool isUneven = isUnevenAt(signature), isRagged = isRaggedAt(signature);
  int64_t group = problem.group();
  auto forms = [&](Sm90AttentionConfig config) {
    for (config.ordered = 0; config.ordered <= (config.consumers > 1);
         ++config.ordered)
      for (config.dynamic = isRagged; config.dynamic <= isUneven;
           ++config.dynamic)
        forEachVariant(problem, signature, config, device, emit);
  };
  for (int consumers : {2, 3, 1})
    for (int block : blocks) {
      Sm90AttentionConfig config;
      config.consumers = consumers;
      config.blockN = block;
      config.stages = stagesOf(signature, config);
      forms(config);
      if (group > 1) {
        // The same number of tiles, with nearly equal shares of the heads.
        int64_t tiles = ceilDiv(group, int64_t(Sm90AttentionConfig::kUnit));
        config.packed = static_cast<int>(ceilDiv(group, tiles));
        config.ragged = group % config.packed != 0;
        forms(config);
      }
    }
}

//===----------------------------------------------------------------------===//
// Limits
//===----------------------------------------------------------------------===//

/// Names the setting of a config beyond isValid() that the kernel lacks.
static std::optional<Rejection> checkShape(const AttentionProblem &problem,
                                           const AttentionSignature &signature,
                                           const Sm90AttentionConfig &config) {
  auto shape = [](int64_t value, llvm::StringRef unit,
                  llvm::StringRef allowed) {
    return Rejection{PruneReason::InstructionShape, double(value), 0, unit,
                     allowed};
  };
  for (int dim : {signature.headDim, signature.valueDim})
    if (dim % 8 != 0 || dim > 256)
      return shape(dim, "elements of a row", "8 to 256 in steps of 8");
  if (config.consumers > 3)
    return shape(config.consumers, "consumers", "1 to 3");
  if (config.blockN % Sm90AttentionConfig::stepDepth(signature) != 0 ||
      config.blockN > 256)
    return shape(config.blockN, "keys of a block",
                 signature.q == DType::E4M3 ? "32 to 256 in steps of 32"
                                            : "16 to 256 in steps of 16");
  if (config.stages < 2 || config.stages > 4)
    return shape(config.stages, "stages", "2 to 4");
  bool divides = problem.group() % config.packed == 0;
  if (config.packed > Sm90AttentionConfig::kUnit ||
      (!divides && !config.ragged))
    return shape(config.packed, "heads of a tile",
                 "divisors of the heads of a head of K, up to 64");
  if (config.ragged && (divides || config.packed > problem.group()))
    return shape(config.packed, "heads of a ragged tile",
                 "fewer than the heads of a head of K, and not a divisor");
  return std::nullopt;
}

/// Registers of scores, probabilities and sums with which ptxas 13.0 compiles
/// without spills. Three consumers have 160 registers a thread, their producer
/// 32. A softcap and ALiBi take registers of their own, and so do tiles of
/// several heads with three consumers, except under a causal mask. e4m3 has
/// half as many probabilities, which leaves room for other values, unless
/// scores need further work, or turns or pages keep the mask's values in
/// registers.
static int mostRegisterUse(const AttentionSignature &signature,
                           const Sm90AttentionConfig &config) {
  bool isE4M3 = signature.q == DType::E4M3;
  bool changesScores = signature.softcap || signature.alibi;
  bool isWide = signature.valueDim > 128;
  if (config.consumers > 2) {
    bool hasIdleRows = config.hasIdleRows();
    if (config.packed > 1 && signature.mask != AttentionMask::Causal) {
      if (isE4M3)
        return 100;
      bool isWindow = signature.mask == AttentionMask::Window;
      return isWindow && !hasIdleRows ? 124 : 116;
    }
    if (!changesScores)
      return 128;
    if (!isE4M3)
      return 116;
    bool isShort = signature.valueDim <= 64;
    return isShort || signature.mask != AttentionMask::None ? 112 : 100;
  }
  bool doesBoth = signature.softcap && signature.alibi;
  if (!isE4M3) {
    if (doesBoth)
      return isWide ? 176 : 160;
    bool masksPages = signature.pages != AttentionPages::None &&
                      signature.mask != AttentionMask::None;
    return changesScores && masksPages && isWide ? 184 : 196;
  }
  if (doesBoth && signature.mask == AttentionMask::Window && !isWide)
    return 148;
  if (doesBoth)
    return isWide ? 168 : 164;
  bool masks = signature.mask != AttentionMask::None &&
               (config.ordered || signature.pages != AttentionPages::None);
  return changesScores || masks ? 188 : 204;
}

static std::optional<Rejection>
checkRegisterUse(const AttentionSignature &signature,
                 const Sm90AttentionConfig &config) {
  auto three = [](llvm::StringRef allowed) {
    return Rejection{PruneReason::Registers, 3, 0, "consumers", allowed};
  };
  if (config.consumers > 2) {
    if (signature.pages != AttentionPages::None)
      return three("1 or 2 with pages");
    if (signature.softcap && signature.alibi)
      return three("1 or 2 with a softcap and ALiBi");
    if (config.packed > 1 && (signature.softcap || signature.alibi))
      return three("1 or 2 with several heads and a softcap or ALiBi");
  }
  int most = mostRegisterUse(signature, config);
  int registers = config.registerUse(signature);
  if (registers <= most)
    return std::nullopt;
  return Rejection{PruneReason::Registers, double(registers), double(most),
                   "registers of scores, probabilities and sums"};
}

AttentionWalls Sm90Attention::wallsOf(const AttentionSignature &signature,
                                      const Sm90AttentionConfig &config,
                                      const DeviceModel &device) const {
  AttentionRegisters use{.scores = config.blockN / 2,
                         .weights = config.blockN * bytesOf(signature.q) / 8};
  use.output = config.registerUse(signature) - use.total();
  return {.registers = use,
          .registerLimit = mostRegisterUse(signature, config),
          .registerRule = "S, P and O of a consumer; with more ptxas spills, "
                          "and the pruner has the same rule",
          .tradedRegisters =
              config.tradesRegisters() ? config.consumerRegisters() : 0,
          .shared = {.stages = config.stages,
                     .bytesA = double(config.keyBytes(signature)),
                     .bytesB = double(config.valueBytes(signature) +
                                      config.transposedBytes(signature))},
          .block = {config.threads(),
                    registerLimit(device, config.threads(), 1),
                    config.sharedBytes(signature)}};
}

static std::optional<Rejection>
checkTensorMaps(const AttentionProblem &problem) {
  if (auto rejection = checkTmaExtent(
          double(std::max({problem.queries, problem.keys, problem.queryRows(),
                           problem.keyRows(), problem.pageCount})),
          "tokens"))
    return rejection;
  auto mostOf = [&](const HeadStrides &strides) {
    return bytesOf(problem.dtype) *
           double(std::max(
               {strides.token, strides.batch, strides.head * problem.group()}));
  };
  return checkTmaStrides({mostOf(problem.q), mostOf(problem.k),
                          mostOf(problem.v), mostOf(problem.o)});
}

/// Splits are whole blocks of keys, and none more than there are blocks.
static std::optional<Rejection> checkSplits(const AttentionProblem &problem,
                                            const Sm90AttentionConfig &config,
                                            const DeviceModel &device) {
  // This comes before sizes are computed in integers.
  if (auto rejection = checkGrid(tilesOf(problem, config) * config.splits))
    return rejection;
  int64_t blocks =
      std::max<int64_t>(1, (problem.keys + config.blockN - 1) / config.blockN);
  if (config.splits > blocks)
    return Rejection{PruneReason::Dominated, double(config.splits),
                     double(blocks), "splits"};
  double bytes =
      double(sm90AttentionWorkspace(problem, config, device).scratchBytes);
  if (bytes > kMaxPartialBytes)
    return Rejection{PruneReason::Workspace, bytes, kMaxPartialBytes, "B"};
  if (config.splits == 1)
    return std::nullopt;
  // The kernel that merges splits has such a grid.
  return checkGridYZ({double(problem.heads), double(problem.batch)});
}

std::optional<Rejection> Sm90Attention::checkLimits(
    const AttentionProblem &problem, const AttentionSignature &signature,
    const Sm90AttentionConfig &config, const DeviceModel &device) const {
  if (auto rejection = checkWgmma(device))
    return rejection;
  if ((signature.q != DType::BF16 && signature.q != DType::FP16 &&
       signature.q != DType::E4M3) ||
      signature.kv != signature.q || signature.out == DType::FP32)
    return Rejection{PruneReason::Type};
  if (auto rejection = checkRate(
          device,
          attentionRate(signature.q, AttentionTileKernel::Instruction::Wgmma)))
    return rejection;
  if (auto rejection = checkAlign(signature.align, kTmaAlign))
    return rejection;
  if (auto rejection = checkShape(problem, signature, config))
    return rejection;
  if (auto rejection = checkRegisterUse(signature, config))
    return rejection;
  if (auto rejection = checkPages(problem, config.blockN, "keys of a block"))
    return rejection;
  if (auto rejection = checkTensorMaps(problem))
    return rejection;
  return checkSplits(problem, config, device);
}

std::optional<Rejection> Sm90Attention::checkFixedSplit(
    const AttentionProblem &problem, const AttentionSignature &signature,
    const Sm90AttentionConfig &config, const DeviceModel &device) const {
  if (isServedByDecode(problem, signature, device))
    return notForFixedSplit(problem, "problems that decode does not serve");
  if (config.splits > 1)
    return Rejection{PruneReason::Dominated, double(config.splits), 1,
                     "splits"};
  auto first = firstOfOne(problem, signature, device);
  if (!first)
    return std::nullopt;
  std::optional<Rejection> rejection;
  auto has = [&](int Sm90AttentionConfig::*knob, llvm::StringRef unit) {
    if (!rejection && config.*knob != (*first).*knob)
      rejection = Rejection{PruneReason::Dominated, double(config.*knob),
                            double((*first).*knob), unit};
  };
  has(&Sm90AttentionConfig::blockN, "keys of a block");
  has(&Sm90AttentionConfig::consumers, "consumers");
  has(&Sm90AttentionConfig::packed, "heads of a tile");
  has(&Sm90AttentionConfig::stages, "stages");
  has(&Sm90AttentionConfig::collected, "as collected rows");
  return rejection;
}

bool isServedBySm90(const AttentionProblem &problem,
                    const AttentionSignature &signature,
                    const DeviceModel &device) {
  static const Sm90Attention &sm90 = *new Sm90Attention;
  return sm90.firstOfOne(problem, signature, device).has_value();
}

std::unique_ptr<Template> makeSm90AttentionTemplate() {
  return std::make_unique<Sm90Attention>();
}

} // namespace kiln
