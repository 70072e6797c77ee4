//===- FfmaGemm.cpp - the multistage FFMA template ------------------------===//
//
// Exact fp32 products from sm_80 on. The space crosses tiles that differ in
// kind with split-K: large tiles where there is work for all SMs, thin ones
// where m or n is small, whose warps share the steps of k. Blocks of an SM,
// stages and splits are derived: the splits fill a part of one wave, or make
// the last of several fuller.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/GemmTemplate.h"
#include "Families/Gemm/RingTile.h"
#include "Model/MathUtil.h"
#include "gemm/FfmaGemmConfig.h"

#include <algorithm>

namespace kiln {

namespace {

/// A tile, its thread's part of it, how its warps share it out, and whether its
/// K-major operands are transposed where copies are as wide as 16 bytes.
struct FfmaTile {
  int blockM, blockN, blockK, microM, microN, lanesM, warpsK;
  bool transposes = false;

  /// Thin tiles use what they load a few times only: they are for the speed of
  /// memory, and copies of 16 bytes are the fewest.
  bool isThin() const { return std::min(blockM, blockN) <= 16; }
};

/// Best guesses first within a size. 20 tiles were measured for 60 problems
/// (H100); these are the ones without which a problem takes longer. The last
/// four, with sides between the powers of two, are for transposed
/// operands alone.
constexpr FfmaTile kFfmaTiles[] = {
    {128, 128, 32, 16, 8, 4, 1, true}, {256, 128, 32, 16, 8, 4, 1, true},
    {64, 256, 16, 16, 8, 4, 1, true},  {64, 64, 32, 8, 8, 4, 2, true},
    {64, 128, 32, 8, 8, 4, 1},         {32, 64, 32, 8, 8, 4, 4},
    {64, 32, 32, 8, 4, 8, 4},          {16, 128, 32, 8, 8, 2, 4},
    {16, 64, 32, 8, 4, 2, 4},          {128, 16, 32, 8, 8, 16, 4},
    {64, 16, 32, 8, 4, 8, 4},          {8, 128, 32, 8, 4, 1, 4},
    {8, 64, 32, 4, 4, 2, 4},           {128, 8, 32, 8, 4, 16, 4},
    {64, 8, 32, 4, 4, 16, 4},          {4, 128, 32, 4, 4, 1, 4},
    {128, 4, 32, 4, 4, 32, 4},         {192, 128, 32, 12, 8, 4, 1, true},
    {96, 128, 32, 12, 8, 4, 1, true},  {96, 64, 32, 12, 8, 4, 2, true},
    {128, 192, 32, 8, 12, 4, 1, true},
};

class FfmaGemm final : public GemmTemplate<FfmaGemmConfig> {
public:
  FfmaGemm()
      : GemmTemplate({"gemm/FfmaGemm.cuh", "GemmSignature", "FfmaGemmConfig",
                      "GemmParams", "ffmaGemm"}) {}

protected:
  void forEachConfig(const GemmProblem &problem, const DeviceModel &device,
                     Emit<FfmaGemmConfig> emit) const override;
  CandidateClass classOfConfig(const FfmaGemmConfig &config) const override {
    return ringTileClass(6, config);
  }
  std::optional<Rejection>
  checkLimits(const GemmProblem &problem, const GemmSignature &signature,
              const FfmaGemmConfig &config,
              const DeviceModel &device) const override;
  TileKernel tileKernel(const GemmSignature &signature,
                        const FfmaGemmConfig &config,
                        const DeviceModel &device) const override;
};

} // namespace

/// Registers more that narrow copies of rows along an extent take where there
/// is more to keep besides: a range of k, or twice the threads of a tile.
/// (ptxas 13.0 for sm_90, 14 first configs of each layout.)
static int narrowRegisters(const GemmSignature &signature,
                           const FfmaGemmConfig &config) {
  constexpr int kWide = 16, kNarrow = 18, kThreads = 128;
  bool isNarrowA = !signature.isKMajorA() && signature.alignA < kWide;
  bool isNarrowB = !signature.isKMajorB() && signature.alignB < kWide;
  bool isTight = (isNarrowB && config.splits) ||
                 (isNarrowA && isNarrowB && config.groupThreads() > kThreads);
  return isTight ? kNarrow : 0;
}

/// The sums, both sets of a step of B, the vectors of A in flight; the rest is
/// addresses and loop state. ptxas spills below this.
static int64_t registersOf(const GemmSignature &signature,
                           const FfmaGemmConfig &config) {
  // kOfGroups: for a group's place, and the walk over tiles.
  constexpr int kOverhead = 30, kLimit = 255, kOfGroups = 20;
  return (signature.hasGroups() ? kOfGroups : 0) +
         std::min(config.microM * config.microN + 8 * config.microN +
                      4 * config.ahead() + kOverhead,
                  kLimit) +
         narrowRegisters(signature, config);
}

/// Resident blocks, and the deepest ring that they leave memory for.
static void fitOccupancy(FfmaGemmConfig &config, const GemmSignature &signature,
                         const DeviceModel &device) {
  constexpr int64_t kMostStages = 5, kMostBlocks = 6, kLeastStages = 3;
  int64_t stage = config.stageBytes(signature);
  int64_t byRegisters = device.registersPerSm / config.threads() /
                        roundUp(registersOf(signature, config), 8);
  // More blocks are not worth a shallower ring.
  int64_t byMemory = device.sharedBytesPerSm /
                     (stage * kLeastStages + signature.groupTableBytes() +
                      device.sharedBytesReservedPerBlock);
  int64_t blocks =
      std::clamp<int64_t>(std::min(byRegisters, byMemory), 1, kMostBlocks);
  int64_t available = std::min(device.sharedBytesPerSm / blocks -
                                   device.sharedBytesReservedPerBlock,
                               device.sharedBytesPerBlock) -
                      signature.groupTableBytes();
  config.minBlocksPerSm = static_cast<int>(blocks);
  config.stages =
      static_cast<int>(std::clamp<int64_t>(available / stage, 2, kMostStages));
}

/// Emits the splits of \p config that fill a quarter, a half, three quarters or
/// all of one wave, or that make the last of several waves shorter, as far as
/// each has some tiles along k.
static void emitSplits(FfmaGemmConfig config, const GemmProblem &problem,
                       const GemmSignature &signature,
                       const DeviceModel &device, Emit<FfmaGemmConfig> emit) {
  constexpr int64_t kMostSplits = 32, kLeastTiles = 3;
  int64_t tiles = std::max<int64_t>(
      config.grid().blocks(problem.m, problem.n, problem.batch), 1);
  config.splits = 1;
  fitOccupancy(config, signature, device);
  int64_t slots = device.smCount * config.minBlocksPerSm;
  int64_t tilesK = ceilDiv(problem.k, config.blockK);
  int64_t most = std::min(kMostSplits, tilesK / kLeastTiles);
  auto emitSplit = [&](int64_t splits) {
    if (splits <= config.splitK || splits > most)
      return;
    config.splitK = static_cast<int>(splits);
    emit(config);
  };
  constexpr int64_t kQuarters = 4;
  for (int64_t quarter = 1; quarter <= kQuarters; ++quarter)
    emitSplit(std::min(slots * quarter / kQuarters / tiles, most));
  // Tiles behind full waves alone, or all of them where there are none.
  constexpr int64_t kMostToFill = 8;
  constexpr double kShorter = 0.92;
  int64_t rest = tiles > slots ? tiles % slots : tiles;
  if (rest <= slots / 2 && rest == tiles)
    return;
  config.waveBlocks = tiles > slots ? static_cast<int>(slots) : 0;
  double shortest = kShorter;
  for (int64_t splits = 2; rest > 0 && splits <= kMostToFill; ++splits) {
    double waves = double(ceilDiv(rest * splits, slots)) / double(splits);
    if (waves > shortest)
      continue;
    shortest = kShorter * waves;
    emitSplit(splits);
  }
}

/// True for large tiles of which most lies outside of the problem: the space
/// has smaller ones.
static bool isTooLarge(const FfmaTile &tile, const GemmProblem &problem) {
  constexpr int kLarge = 64;
  auto exceeds = [](int block, int64_t extent) {
    return block > kLarge && block >= 2 * extent;
  };
  return exceeds(tile.blockM, problem.m) || exceeds(tile.blockN, problem.n);
}

static bool transposes(const FfmaTile &tile, const GemmSignature &signature) {
  constexpr int kWide = 16;
  bool isNarrow = (signature.isKMajorA() && signature.alignA < kWide) ||
                  (signature.isKMajorB() && signature.alignB < kWide);
  bool hasKMajor = signature.isKMajorA() || signature.isKMajorB();
  return hasKMajor && (tile.transposes || (isNarrow && !tile.isThin()));
}

void FfmaGemm::forEachConfig(const GemmProblem &problem,
                             const DeviceModel &device,
                             Emit<FfmaGemmConfig> emit) const {
  GemmSignature signature = signatureOf(problem);
  for (const FfmaTile &tile : kFfmaTiles) {
    if (isTooLarge(tile, problem))
      continue;
    FfmaGemmConfig config;
    config.blockM = tile.blockM;
    config.blockN = tile.blockN;
    config.blockK = tile.blockK;
    config.microM = tile.microM;
    config.microN = tile.microN;
    config.lanesM = tile.lanesM;
    config.warpsK = tile.warpsK;
    config.transposes = transposes(tile, signature);
    if (!config.isValid(signature)) // a side that only transposition can have
      continue;
    fitOccupancy(config, signature, device);
    emit(config);
    if (!problem.hasGroups())
      emitSplits(config, problem, signature, device, emit);
  }
}

std::optional<Rejection> FfmaGemm::checkLimits(
    const GemmProblem &problem, const GemmSignature &signature,
    const FfmaGemmConfig &config, const DeviceModel &device) const {
  if (auto rejection = checkAmpere(device))
    return rejection;
  if (signature.in != DType::FP32 || signature.compute != ComputeMode::Native)
    return Rejection{PruneReason::Type};
  if (auto rejection = checkAccumulators(double(config.microM) * config.microN))
    return rejection;
  if (!config.isValid(signature))
    return Rejection{PruneReason::InstructionShape};
  if (auto rejection = checkSplits(problem, config.blockK, config.splitK))
    return rejection;
  return checkRegisters(registersOf(signature, config), config.threads(),
                        config.minBlocksPerSm, device);
}

TileKernel FfmaGemm::tileKernel(const GemmSignature &signature,
                                const FfmaGemmConfig &config,
                                const DeviceModel &device) const {
  TileKernel kernel = ringTileKernel(signature, config);
  kernel.stageBytesB = config.stageBytes(signature) - kernel.stageBytesA;
  // Warps that share out k have sums of the whole tile each.
  kernel.tileThreads = config.groupThreads();
  kernel.fragmentsA = 4 * config.ahead();
  kernel.fragmentsB = 8 * config.microN;
  kernel.registersPerThread = static_cast<int>(registersOf(signature, config));
  // The banks deliver each vector that a warp reads to its half warps in
  // passes of 128 bytes: two, or four where all lanes differ.
  auto passes = [](int lanes) { return lanes == 32 ? 4.0 : 2.0; };
  double vectors = config.microM * passes(config.lanesM) +
                   config.microN * passes(config.lanesN());
  constexpr int kPassBytes = 128, kStepK = 4;
  double warpSteps = config.groupThreads() / 32.0 * config.blockK / kStepK;
  kernel.sharedReadBytes = warpSteps * vectors * kPassBytes;
  kernel.rate = &DeviceModel::simdFp32FlopsPerClock;
  // Clocks of a step of four along k: FFMAs, reads of both fragments, addresses
  // and the step's share of copies, barrier and loop. The register file
  // delivers one even and one odd register a clock, and vectors along k have
  // the sums' partners in registers of one kind; with 8 x 8 sums a little more
  // conflicts than with 16 x 8 (counted in SASS, and measured).
  bool isAlongA = signature.isKMajorA() && config.transposes == 0;
  bool isAlongB = signature.isKMajorB() && config.transposes == 0;
  int sums = config.microM * config.microN;
  double slots = isAlongB ? 1.4 : isAlongA ? 1.26 : sums == 64 ? 1.14 : 1.1;
  // Sides of 12 sums are slower than counted, the more those of columns and of
  // warps that share steps out (H200, 5 problems).
  constexpr int kThirds = 12;
  constexpr double kRows = 0.95, kOthers = 0.88;
  bool hasThirds = config.microM == kThirds || config.microN == kThirds;
  double share = !hasThirds                                       ? 1
                 : config.microN != kThirds && config.warpsK == 1 ? kRows
                                                                  : kOthers;
  double ffma = double(kStepK) * sums;
  double reads = config.microM + config.microN;
  // Copies of single elements wait for the load units, too, which take as long
  // for them as for 16 bytes (fitted to 64 problems, H100).
  constexpr double kPerCopy = 1.7, kPerNarrowCopy = 7;
  auto copyClocksOf = [&](int extent, bool isKMajor, int align) {
    int bytes = isKMajor && config.transposes != 0 ? 4 : align;
    double copies =
        double(extent) * config.blockK * 4 / bytes / config.threads();
    return (bytes < 16 ? kPerNarrowCopy : kPerCopy) * copies;
  };
  double copies =
      copyClocksOf(config.blockM, signature.isKMajorA(), signature.alignA) +
      copyClocksOf(config.blockN, signature.isKMajorB(), signature.alignB);
  constexpr double kPerStep = 8, kPerTile = 80;
  double other = kPerStep + (copies + kPerTile) / config.steps();
  kernel.issue = ffmaShare(ffma, slots, reads + other, device);
  kernel.issue.share = share;
  kernel.tensor = false;
  // A warp of a sub-core has enough independent FFMAs to itself (H100: 4 warps
  // reach 0.85 of what 8 do, in 111 measured times; 5 is the whole number that
  // fits best).
  kernel.warpsForPeak = 5;
  return kernel;
}

std::unique_ptr<Template> makeFfmaGemmTemplate() {
  return std::make_unique<FfmaGemm>();
}

} // namespace kiln
