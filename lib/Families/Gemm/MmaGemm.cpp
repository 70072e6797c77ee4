//===- MmaGemm.cpp - the mma.sync template --------------------------------===//
//
// The space is a table of tiles that differ in kind, each with the warp grid
// that keeps a warp's tile as square as it can be (the fragments a warp loads
// grow with the sum of its sides, its arithmetic with their product), crossed
// with what a tile's shape does not decide: depth of k, stages, split-K.
// Split-K is offered only where whole tiles leave SMs idle; raster group is a
// run-time value that the order of tiles alone depends on.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/ByteRates.h"
#include "Families/Gemm/GemmTemplate.h"
#include "Families/Gemm/RingTile.h"
#include "Model/MathUtil.h"
#include "Model/Rates.h"
#include "Model/RegisterWall.h"
#include "gemm/MmaGemmConfig.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>

namespace kiln {

namespace {

struct MmaTile {
  int blockM, blockN, warpsM, warpsN;
};

/// Large first: at equal estimates the larger tile re-reads less.
constexpr MmaTile kMmaTiles[] = {
    {128, 256, 2, 4}, {256, 128, 4, 2}, {128, 128, 2, 2}, {256, 64, 4, 1},
    {64, 256, 1, 4},  {256, 96, 4, 2},  {192, 128, 4, 2}, {128, 192, 2, 4},
    {128, 128, 2, 4}, {128, 64, 2, 2},  {64, 128, 1, 4},  {64, 128, 2, 2},
    {64, 64, 2, 2},   {128, 32, 4, 1},  {32, 128, 1, 4},  {32, 256, 1, 4},
    {32, 64, 2, 2},   {64, 32, 2, 2},   {16, 128, 1, 4},  {16, 64, 1, 4},
    {16, 64, 1, 2},   {16, 256, 1, 4},  {32, 32, 2, 2},   {64, 16, 4, 1},
    {16, 32, 1, 2},
};
/// Bytes of k in a stage: two, four and eight steps of the instruction.
constexpr int kStageRows[] = {128, 64, 256};
constexpr int kStages[] = {3, 4, 2, 5, 6, 8};
/// A split's loop is short, and other blocks hide its waits.
constexpr int kSplitStages[] = {3, 4, 2, 6};
constexpr int kSplits[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
constexpr int kRasterGroups[] = {8, 16};
/// Tiles above this keep to 128 bytes of k: deeper stages leave too few. They
/// are what wgmma is for, where there is any.
constexpr int kLargeTile = 64 * 128;

class MmaGemm final : public GemmTemplate<MmaGemmConfig> {
public:
  MmaGemm()
      : GemmTemplate({"gemm/MmaGemm.cuh", "GemmSignature", "MmaGemmConfig",
                      "GemmParams", "mmaGemm"}) {}

protected:
  void forEachConfig(const GemmProblem &problem, const DeviceModel &device,
                     Emit<MmaGemmConfig> emit) const override;
  void forEachVariant(const GemmProblem &problem,
                      const GemmSignature &signature,
                      const MmaGemmConfig &config, const DeviceModel &device,
                      Emit<MmaGemmConfig> emit) const override;
  CandidateClass classOfConfig(const MmaGemmConfig &config) const override {
    return ringTileClass(1, config);
  }
  std::optional<Rejection>
  checkLimits(const GemmProblem &problem, const GemmSignature &signature,
              const MmaGemmConfig &config,
              const DeviceModel &device) const override;
  TileKernel tileKernel(const GemmSignature &signature,
                        const MmaGemmConfig &config,
                        const DeviceModel &device) const override;
};

} // namespace

/// The least useful side of a tile: the table's or, for an operand that lies
/// across k, whose rows have the side's length, the least that isLoadable()
/// takes.
static int leastSide(bool isKMajor, int least, const GemmSignature &signature) {
  constexpr int kLeastRowBytes = 32;
  return isKMajor ? least
                  : std::max(least, kLeastRowBytes / bytesOf(signature.in));
}

/// False for a tile of which half is padding while one half as tall or as wide
/// computes the same: it could only waste arithmetic and shared memory. The
/// least sides that the operands have are kept.
static bool isUsefulTile(const GemmProblem &problem,
                         const GemmSignature &signature, const MmaTile &tile) {
  const int leastM = leastSide(signature.isKMajorA(), 16, signature);
  const int leastN = leastSide(signature.isKMajorB(), 32, signature);
  return (tile.blockM <= leastM || problem.m > tile.blockM / 2) &&
         (tile.blockN <= leastN || problem.n > tile.blockN / 2);
}

/// Splits worth trying of a block's tile, 1 first. Blocks keep at least four
/// iterations of k, to be worth an epilogue, and whole tiles fill less than two
/// waves. Splits that leave three of four SMs idle give way to larger ones.
static llvm::SmallVector<int, std::size(kSplits)>
usefulSplits(const GemmProblem &problem, const MmaGemmConfig &whole,
             const DeviceModel &device) {
  llvm::SmallVector<int, std::size(kSplits)> useful{1};
  int64_t tiles = std::max<int64_t>(
      whole.grid().blocks(problem.m, problem.n, problem.batch), 1);
  if (tiles > 2 * device.smCount)
    return useful;
  int64_t most = std::min(ceilDiv(problem.k, whole.blockK) / 4,
                          4 * device.smCount / tiles);
  for (auto [i, split] : llvm::enumerate(kSplits)) {
    bool isLast = i + 1 == std::size(kSplits) || kSplits[i + 1] > most;
    bool idles = 4 * tiles * split < device.smCount && !isLast;
    if (split > 1 && split <= most && !idles)
      useful.push_back(split);
  }
  return useful;
}

/// Whether splits are tried with stages of 64 bytes of k too. On 9.0, with room
/// for deep stages, they won no case of aligned operands (H200, CUDA 13.0,
/// benchmarks/results).
static bool usesShallowSplits(const GemmProblem &problem,
                              const DeviceModel &device) {
  GemmSignature signature = signatureOf(problem);
  return device.ccMajor != 9 || signature.alignA < 16 || signature.alignB < 16;
}

/// Whether wgmma takes the problem with its operands as they are. A large tile
/// of mma.sync cannot win then: 2680 flops per clock and SM against 4096, of
/// which it keeps less, for every fragment passes through registers. Small ones
/// stay, to which wgmma has too little to hide its latency behind.
static bool isForWgmma(const GemmProblem &problem, const DeviceModel &device) {
  constexpr int kAligned = 16;
  GemmSignature signature = signatureOf(problem);
  // At least one side of tf32 has to lie along k, and both sides of bytes.
  bool takesAsIs = bytesOf(problem.dtype) == 2 ||
                   (bytesOf(problem.dtype) == 1 && signature.isKMajorA() &&
                    signature.isKMajorB()) ||
                   (problem.compute == ComputeMode::TF32 &&
                    (signature.isKMajorA() || signature.isKMajorB()));
  return hasWgmma(device) && takesAsIs && problem.k > 0 &&
         signature.alignA >= kAligned && signature.alignB >= kAligned;
}

/// False for a ring with stages that no iteration of the loop over k fills, and
/// for one that splits are not worth trying with.
static bool isUsefulRing(const GemmProblem &problem,
                         const MmaGemmConfig &config) {
  constexpr int kLeastStages = 3;
  if (config.splitK > 1 && !llvm::is_contained(kSplitStages, config.stages))
    return false;
  if (config.stages <= kLeastStages)
    return true;
  int64_t iterations =
      ceilDiv(ceilDiv(problem.k, config.blockK), config.splitK);
  return config.stages - 1 <= iterations;
}

/// The raster matters where a column of tiles is longer than a group of it.
static llvm::ArrayRef<int> usefulRasters(const GemmProblem &problem,
                                         int blockM) {
  llvm::ArrayRef<int> groups(kRasterGroups);
  return problem.m > int64_t(blockM) * groups[0] ? groups
                                                 : groups.take_front(1);
}

/// Registers of a thread for the addresses of an operand that lies across k.
/// Words of tf32 are read one by one; and where rows are no multiples of 8
/// bytes a tile has many pieces, or pieces that are shifted in registers. Most
/// kernels with 128 accumulators that do not leave as many spilled; kernels
/// with fewer accumulators have room (ptxas 13.0 for sm_80 and sm_90, 500
/// kernels).
static int addressRegisters(bool isKMajor, int align, DType type) {
  constexpr int kWord = 4, kFew = 12, kMany = 24;
  // Bytes are sorted by another register behind their transposition.
  if (bytesOf(type) == 1)
    return isKMajor ? 0 : align > kWord ? kFew : kMany;
  if (isKMajor || (type != DType::FP32 && align > kWord))
    return 0;
  return type != DType::FP32 && align == kWord ? kFew : kMany;
}
static int addressRegisters(const GemmSignature &signature) {
  // For a group's place, and the walk over tiles.
  constexpr int kOfGroups = 24;
  return (signature.hasGroups() ? kOfGroups : 0) +
         addressRegisters(signature.isKMajorA(), signature.alignA,
                          signature.in) +
         addressRegisters(signature.isKMajorB(), signature.alignB,
                          signature.in);
}

/// Sums of a thread: twice as many where those of the tensor core go on to
/// others.
static double sumsOf(const GemmSignature &signature,
                     const MmaGemmConfig &config, const DeviceModel &device) {
  bool hasPartials =
      hasPartialSums(signature, static_cast<int>(device.computeCapability()));
  return double(config.blockM) * config.blockN / config.threads() *
         (hasPartials ? 2 : 1);
}

/// Scales of rows of A that a lane needs of each 128 of k.
static int laneScales(const MmaGemmConfig &config) {
  return config.warpTileM() / 8;
}

/// Expected registers of a thread: two sets of fragments of one 32-byte step
/// beside the accumulators; the rest is addresses and loop state, and what is
/// converted, which took no more (ptxas 13.0).
static int registersOf(const GemmSignature &signature,
                       const MmaGemmConfig &config, const DeviceModel &device) {
  constexpr int kOverhead = 40, kSets = 2;
  int64_t fragments =
      mmaSyncFragmentRegisters(config.warpTileM(), config.warpTileN(), kSets);
  if (signature.hasBlockScales())
    fragments += 2 * laneScales(config) + 8;
  return static_cast<int>(sumsOf(signature, config, device)) +
         static_cast<int>(fragments) + kOverhead;
}

/// Two blocks an SM where their accumulators leave the registers. Where the
/// addresses of operands across k take them, large tiles are pruned: a tile of
/// many warps then takes their place, one block an SM.
static int minBlocksOf(const GemmSignature &signature,
                       const MmaGemmConfig &config, const DeviceModel &device) {
  constexpr int kTwo = 2, kMostSums = 64;
  int accumulators = config.blockM * config.blockN / config.threads();
  bool isAlone =
      registersOf(signature, config, device) >
          registerLimit(device, config.threads(), /*minBlocks=*/kTwo) &&
      (addressRegisters(signature) > 0 || bytesOf(signature.in) == 1);
  return accumulators <= kMostSums && !isAlone ? kTwo : 1;
}

void MmaGemm::forEachConfig(const GemmProblem &problem,
                            const DeviceModel &device,
                            Emit<MmaGemmConfig> emit) const {
  const GemmSignature signature = signatureOf(problem);
  bool hasShallowSplits = usesShallowSplits(problem, device);
  bool hasLargeTiles = !isForWgmma(problem, device);
  // Beside wgmma splits of mma.sync reached 0.97 of the best at most; stages of
  // 64 bytes and rings of two stages were never best (78 swept problems of 1 to
  // 8192 rows, H200).
  bool besideWgmma = !hasLargeTiles;
  constexpr int kLeastRowBytes = 128, kLeastStages = 3;
  // Nor did whole tiles that fill the chip reach 0.75 past 64 rows.
  constexpr int64_t kFew = 64;
  int64_t fewer = std::min(problem.m, problem.n);
  int64_t largest = ceilDiv(problem.m, 64) * ceilDiv(problem.n, 128);
  if (besideWgmma && fewer > kFew && largest > device.smCount)
    return;
  for (const MmaTile &tile : kMmaTiles) {
    bool isLarge = tile.blockM * tile.blockN > kLargeTile;
    if (!isUsefulTile(problem, signature, tile) || (isLarge && !hasLargeTiles))
      continue;
    MmaGemmConfig config;
    config.blockM = tile.blockM;
    config.blockN = tile.blockN;
    config.warpsM = tile.warpsM;
    config.warpsN = tile.warpsN;
    config.minBlocksPerSm = minBlocksOf(signature, config, device);
    for (int rowBytes : kStageRows) {
      if ((rowBytes > 128 && isLarge) ||
          (rowBytes < kLeastRowBytes && besideWgmma))
        continue;
      config.blockK = rowBytes / bytesOf(problem.dtype);
      config.splitK = 1;
      llvm::SmallVector<int, std::size(kSplits)> splits{1};
      if (!besideWgmma && !problem.hasGroups() &&
          (rowBytes >= 128 || hasShallowSplits))
        splits = usefulSplits(problem, config, device);
      for (int stages : kStages) {
        if (stages < kLeastStages && besideWgmma)
          continue;
        for (int splitK : splits) {
          config.stages = stages;
          config.splitK = splitK;
          config.splits = splitK > 1;
          if (!isUsefulRing(problem, config))
            continue;
          for (int group : usefulRasters(problem, config.blockM)) {
            config.rasterGroup = group;
            emit(config);
          }
        }
      }
    }
  }
}

void MmaGemm::forEachVariant(const GemmProblem &problem, const GemmSignature &,
                             const MmaGemmConfig &config, const DeviceModel &,
                             Emit<MmaGemmConfig> emit) const {
  for (int group : usefulRasters(problem, config.blockM)) {
    MmaGemmConfig variant = config;
    variant.rasterGroup = group;
    emit(variant);
  }
}

std::optional<Rejection> MmaGemm::checkLimits(const GemmProblem &problem,
                                              const GemmSignature &signature,
                                              const MmaGemmConfig &config,
                                              const DeviceModel &device) const {
  if (auto rejection = checkAmpere(device))
    return rejection;
  if (signature.in == DType::FP32 && signature.compute != ComputeMode::TF32)
    return Rejection{PruneReason::Type};
  if (auto rejection = checkAccumulators(sumsOf(signature, config, device)))
    return rejection;
  if (auto rejection = checkRate(device, mmaSyncRate(signature, device)))
    return rejection;
  if (auto rejection = checkIntegerSums(problem))
    return rejection;
  if (auto rejection = checkBlockScales(problem))
    return rejection;
  if (auto rejection = checkRegisters(
          registersOf(signature, config, device) + addressRegisters(signature),
          config.threads(), config.minBlocksPerSm, device))
    return rejection;
  return checkSplits(problem, config.blockK, config.splitK);
}

/// Clocks that the copies of \p bytes keep the load units busy. A warp's
/// instruction moves 32 pieces as wide as the alignment. Measured on an H200 at
/// 4096^3: about 8 clocks an instruction from 4 to 16 bytes; below that vectors
/// of 16 bytes pass through registers and are shifted, at 49 clocks.
static double copyClocks(int bytes, int align) {
  constexpr double kClocks = 8, kShiftedClocks = 49;
  return align >= 4 ? kClocks * bytes / (32 * align)
                    : kShiftedClocks * bytes / (32 * 16);
}

TileKernel MmaGemm::tileKernel(const GemmSignature &signature,
                               const MmaGemmConfig &config,
                               const DeviceModel &device) const {
  int bytes = bytesOf(signature.in);
  int warps = config.warpsM * config.warpsN;
  TileKernel kernel = ringTileKernel(signature, config);
  kernel.tileThreads = config.threads();
  constexpr int kSets = 2; // of fragments, in turn
  kernel.fragmentsA =
      int(mmaSyncFragmentRegisters(config.warpTileM(), 0, kSets));
  kernel.fragmentsB =
      int(mmaSyncFragmentRegisters(0, config.warpTileN(), kSets));
  kernel.registersPerThread = registersOf(signature, config, device);
  // Every warp reads the rows of A and the columns of B of its own tile.
  kernel.sharedReadBytes = double(warps) *
                           (config.warpTileM() + config.warpTileN()) *
                           config.blockK * bytes;
  kernel.loadIssueClocks =
      copyClocks(config.blockM * config.blockK * bytes, signature.alignA) +
      copyClocks(config.blockN * config.blockK * bytes, signature.alignB);
  // Conversions delay the products of their own warp: each lane has its
  // share of the rows and columns of the warp's tile.
  double conversions =
      config.blockK / double(kWarpThreads) * warps /
      double(device.subCoresPerSm) *
      (config.warpTileM() * conversionClocks(signature, signature.in, device) +
       config.warpTileN() *
           conversionClocks(signature, signature.typeB(), device));
  conversions +=
      warps / double(device.subCoresPerSm) *
      promotionClocks(signature,
                      double(config.blockM) * config.blockN / config.threads(),
                      laneScales(config), config.blockK, device);
  kernel.conversionClocks = conversions;
  kernel.rate = mmaSyncRate(signature, device);
  kernel.warpsForPeak = 8;
  return kernel;
}

std::unique_ptr<Template> makeMmaGemmTemplate() {
  return std::make_unique<MmaGemm>();
}

} // namespace kiln
