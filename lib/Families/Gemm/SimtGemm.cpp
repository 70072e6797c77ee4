//===- SimtGemm.cpp - the FFMA template -----------------------------------===//
//
// Exact fp32 products on any architecture, layout and alignment: the path of
// fp32 data below sm_80, and the one that never refuses.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/GemmTemplate.h"
#include "gemm/SimtGemmConfig.h"

#include <llvm/ADT/ArrayRef.h>

#include <algorithm>

namespace kiln {

namespace {

struct SimtTile {
  int blockM, blockN, blockK, microM, microN, minBlocks;
};

constexpr SimtTile kSimtTiles[] = {
    {256, 128, 16, 16, 8, 1}, {128, 128, 8, 8, 8, 2},  {128, 128, 16, 8, 8, 2},
    {128, 64, 16, 8, 8, 3},   {64, 128, 16, 8, 8, 3},  {64, 64, 16, 8, 4, 4},
    {64, 64, 16, 4, 4, 2},    {32, 128, 16, 4, 8, 4},  {128, 32, 16, 8, 4, 4},
    {32, 64, 16, 4, 4, 4},    {64, 32, 16, 4, 4, 4},   {32, 32, 16, 4, 4, 8},
    {16, 64, 16, 4, 4, 8},    {256, 128, 8, 16, 8, 1}, {128, 256, 8, 8, 16, 1},
};

/// The tiles that remain where ffma takes the problem, which is faster: for a
/// caller that wants a generic kernel.
constexpr SimtTile kGenericTiles[] = {
    {128, 128, 16, 8, 8, 2}, {64, 64, 16, 8, 4, 4}, {32, 32, 16, 4, 4, 8}};
constexpr int kFfmaCapability = 80;

class SimtGemm final : public GemmTemplate<SimtGemmConfig> {
public:
  SimtGemm()
      : GemmTemplate({"gemm/SimtGemm.cuh", "GemmSignature", "SimtGemmConfig",
                      "GemmParams", "simtGemm"}) {}

  bool isGeneric() const override { return true; }

protected:
  void forEachConfig(const GemmProblem &problem, const DeviceModel &device,
                     Emit<SimtGemmConfig> emit) const override {
    bool isFfmas = problem.dtype == DType::FP32 &&
                   device.computeCapability() >= kFfmaCapability;
    for (const SimtTile &tile : isFfmas
                                    ? llvm::ArrayRef<SimtTile>(kGenericTiles)
                                    : llvm::ArrayRef<SimtTile>(kSimtTiles)) {
      SimtGemmConfig config;
      config.blockM = tile.blockM;
      config.blockN = tile.blockN;
      config.blockK = tile.blockK;
      config.microM = tile.microM;
      config.microN = tile.microN;
      config.minBlocksPerSm = tile.minBlocks;
      emit(config);
    }
  }

  CandidateClass classOfConfig(const SimtGemmConfig &config) const override {
    return {classKey({2, config.blockM, config.blockN}), 100};
  }

  std::optional<Rejection>
  checkLimits(const GemmProblem &problem, const GemmSignature &signature,
              const SimtGemmConfig &config,
              const DeviceModel &device) const override {
    if (signature.compute != ComputeMode::Native || bytesOf(signature.in) == 1)
      return Rejection{PruneReason::Type};
    if (auto rejection =
            checkAccumulators(double(config.microM) * config.microN))
      return rejection;
    // A micro-tile larger than the tile leaves no threads to share anything.
    if (!config.isValid(signature))
      return Rejection{PruneReason::InstructionShape};
    return checkRegisters(
        tileKernel(signature, config, device).registersPerThread,
        config.threads(), config.minBlocksPerSm, device);
  }

  TileKernel tileKernel(const GemmSignature &signature,
                        const SimtGemmConfig &config,
                        const DeviceModel &device) const override {
    TileKernel kernel;
    kernel.blockM = config.blockM;
    kernel.blockN = config.blockN;
    kernel.blockK = config.blockK;
    kernel.stages = 2;
    kernel.threads = config.threads();
    kernel.rasterGroup = config.rasterGroup;
    kernel.sharedBytes = config.sharedBytes(signature);
    kernel.tileThreads = config.threads();
    // Two buffers of fp32, whose rows have a pitch.
    kernel.stageBytesA = int64_t(config.blockK) * config.pitchM() * 4;
    kernel.stageBytesB = int64_t(config.blockK) * config.pitchN() * 4;
    // Two sets of a column of A and a row of B, and the staged global loads.
    constexpr int kOverhead = 24;
    int loads =
        (config.blockM + config.blockN) * config.blockK / config.threads();
    kernel.registersPerThread =
        std::min(config.microM * config.microN +
                     (config.microM + config.microN) + loads + kOverhead,
                 255);
    kernel.fragmentsA = config.microM;
    kernel.fragmentsB = config.microN;
    // Lanes lie 4 x 8 over a warp's tile and share values by broadcast.
    kernel.sharedReadBytes = config.threads() / 32.0 * config.blockK *
                             (4 * config.microM + 8 * config.microN) * 4;
    kernel.rate = &DeviceModel::simdFp32FlopsPerClock;
    // Issue slots of one step of k: the FFMAs, 16-byte reads of both fragments,
    // and the step's share of staging and loop instructions.
    double ffma = double(config.microM) * config.microN;
    double reads = (config.microM + config.microN) / 4.0;
    double staging = 3.0 * loads / config.blockK + 1;
    // In SASS seven of ten FFMAs read two even or two odd registers.
    constexpr double kSlots = 1.7;
    kernel.issue = ffmaShare(ffma, kSlots, reads + staging, device);
    kernel.tensor = false;
    kernel.warpsForPeak = 8;
    return kernel;
  }
};

} // namespace

std::unique_ptr<Template> makeSimtGemmTemplate() {
  return std::make_unique<SimtGemm>();
}

} // namespace kiln
