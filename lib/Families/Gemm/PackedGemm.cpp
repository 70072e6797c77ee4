//===- PackedGemm.cpp - packed weights past a few vectors -----------------===//
//
// The space is a table of ways to keep bytes in flight: how many rows share the
// vectors' traffic, how many warps share k, and how many steps of each are in
// registers. The vectors are padded to what the instructions allow, up to 64;
// more of them are several tiles, each of which decodes the weights again.
// Splits of k across blocks are offered only where whole tiles leave SMs idle.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/DecodeRates.h"
#include "Families/Gemm/GemmTemplate.h"
#include "Model/MathUtil.h"
#include "gemm/PackedGemmConfig.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallVector.h>

#include <algorithm>

namespace kiln {

namespace {

struct Stream {
  int rows, warps, warpK, stages;
};

/// Best guesses first. Steps in registers have 16 bytes a lane for 16 rows and
/// 64 k of 4 bits; steps of 8 bits have twice as many, so that fewer are in
/// flight.
constexpr Stream kStreams[] = {
    {16, 4, 64, 8},  {32, 4, 64, 5},  {16, 8, 64, 8},  {32, 8, 64, 5},
    {16, 4, 128, 5}, {32, 4, 128, 3}, {64, 4, 64, 3},  {64, 8, 64, 3},
    {16, 4, 64, 5},  {32, 4, 64, 3},  {16, 8, 64, 5},  {16, 8, 128, 3},
    {32, 8, 128, 3}, {16, 16, 64, 5}, {32, 16, 64, 3}, {32, 4, 128, 4},
    {64, 4, 64, 4},  {32, 8, 128, 4},
};
constexpr int kPackedSplits[] = {16, 8, 4, 2};

class PackedGemm final : public GemmTemplate<PackedGemmConfig, StreamedTile> {
public:
  PackedGemm()
      : GemmTemplate({"gemm/PackedGemm.cuh", "GemmSignature",
                      "PackedGemmConfig", "GemmParams", "packedGemm"}) {}

protected:
  void forEachConfig(const GemmProblem &problem, const DeviceModel &device,
                     Emit<PackedGemmConfig> emit) const override;
  CandidateClass classOfConfig(const PackedGemmConfig &config) const override;
  std::optional<Rejection>
  checkLimits(const GemmProblem &problem, const GemmSignature &signature,
              const PackedGemmConfig &config,
              const DeviceModel &device) const override;
  StreamedTile tileKernel(const GemmSignature &signature,
                          const PackedGemmConfig &config,
                          const DeviceModel &device) const override;
};

} // namespace

/// Registers for steps in flight, the sums, a group's sums beside them, and
/// vectors' fragments; the rest is addresses, fragments that are decoded and
/// loop state. With so much ptxas 13.0 spills nothing (sm_90).
static int64_t registersOf(const PackedGemmConfig &config,
                           const GemmSignature &signature) {
  // kOfGroups: for a group's place, and the walk over tiles.
  constexpr int kOverhead = 48, kZeros = 10, kOfGroups = 24;
  const int64_t sums = config.accumulators();
  // Addresses of a step's copies, of each step of a turn.
  constexpr int64_t kCopyBytes = 512, kMostAddresses = 40;
  const int64_t addresses = std::min<int64_t>(
      int64_t(config.stages) * config.vectors * config.warpK * 2 / kCopyBytes,
      kMostAddresses);
  int64_t registers = int64_t(config.stages) * config.stepRegisters(signature) +
                      sums + config.vectors / 4 + kOverhead + addresses;
  if (signature.groupB)
    registers += sums;
  // Parts of a step overlap.
  if (config.partK(signature) < config.warpK)
    registers += sums / 2;
  return registers + (signature.zeroB ? kZeros : 0) +
         (signature.hasGroups() ? kOfGroups : 0);
}

/// More warps split k at a smaller price than blocks.
static bool mayHaveSplits(const GemmProblem &problem,
                          const PackedGemmConfig &config) {
  constexpr int kFewWarps = 8;
  return !problem.hasGroups() && config.warps <= kFewWarps;
}

void PackedGemm::forEachConfig(const GemmProblem &problem,
                               const DeviceModel &device,
                               Emit<PackedGemmConfig> emit) const {
  if (!problem.isPacked())
    return;
  GemmSignature signature = signatureOf(problem);
  signature.alignA = 16; // of a copy, where it is not A's
  PackedGemmConfig config;
  // For many vectors, half as many sums a block leave more room for loads.
  constexpr int kMost = 64, kHalf = 32;
  const int padded = paddedVectors(problem.m);
  const int widest = padded ? padded : kMost;
  llvm::SmallVector<PackedGemmConfig, 16> emittedWhole;
  for (int vectors : {widest, widest > kHalf ? kHalf : 0})
    for (const Stream &stream : kStreams) {
      config.vectors = vectors;
      config.rows = stream.rows;
      config.warps = stream.warps;
      config.warpK = stream.warpK;
      // Steps of 8 bits are twice as large.
      config.stages =
          bitsOf(problem.typeB) == 4 ? stream.stages : (stream.stages + 2) / 2;
      // Beside copies of many vectors, ptxas keeps more addresses of them than
      // there are registers.
      constexpr int kFewVectors = 16, kFewStages = 5;
      if (vectors > kFewVectors)
        config.stages = std::min(config.stages, kFewStages);
      config.ringStages = std::min(config.stages, vectors > 16 ? 3 : 4);
      config.splits = 0;
      config.splitK = 1;
      if (vectors == 0 || !config.isValid(signature))
        continue;
      config.minBlocksPerSm =
          streamedBlocksPerSm({config.threads(), registersOf(config, signature),
                               config.sharedBytes(signature)},
                              device);
      // Streams that differ in stages alone may be left with as many.
      if (llvm::is_contained(emittedWhole, config))
        continue;
      emittedWhole.push_back(config);
      emit(config);
      if (mayHaveSplits(problem, config))
        forEachStreamedSplit(problem, config, kPackedSplits, device, emit);
    }
}

CandidateClass PackedGemm::classOfConfig(const PackedGemmConfig &c) const {
  return {classKey({6, c.vectors, c.rows, c.splitK}), c.splitK};
}

std::optional<Rejection> PackedGemm::checkLimits(
    const GemmProblem &problem, const GemmSignature &signature,
    const PackedGemmConfig &config, const DeviceModel &device) const {
  if (!signature.isPacked())
    return Rejection{PruneReason::Type};
  if (auto rejection = checkAmpere(device))
    return rejection;
  if (auto rejection = checkRate(device, packedRate(signature)))
    return rejection;
  constexpr int kVectorBytes = 16;
  if (auto rejection = checkAlign(signature.alignA, kVectorBytes))
    return rejection;
  constexpr double kMostSums = 64;
  if (double sums = double(config.rows) * config.vectors / 32; sums > kMostSums)
    return Rejection{PruneReason::Registers, sums, kMostSums,
                     "accumulators a thread"};
  if (!config.isValid(signature))
    return Rejection{PruneReason::InstructionShape};
  if (auto rejection =
          checkRegisters(registersOf(config, signature), config.threads(),
                         config.minBlocksPerSm, device))
    return rejection;
  return checkSplits(problem, int64_t(config.warpK) * config.warps,
                     config.splitK);
}

StreamedTile PackedGemm::tileKernel(const GemmSignature &signature,
                                    const PackedGemmConfig &config,
                                    const DeviceModel &device) const {
  StreamedTile tile;
  tile.rows = config.rows;
  tile.vectors = config.vectors;
  tile.splitK = config.splitK;
  tile.block = {config.threads(), registersOf(config, signature),
                config.sharedBytes(signature)};
  tile.stepK = config.blockK();
  tile.stepsInFlight = config.stages - 1;
  tile.streamedShare = packedShare(signature);
  // Clocks of a sub-core for the loop, each load or copy of a warp with its
  // address, each load of fragments, and a sum that is scaled. Fitted with
  // packedClocks() (Sm90Estimate.cpp).
  constexpr double kLoop = 85, kCopy = 6, kFragment = 4, kCopied = 512,
                   kScaled = 2.75;
  constexpr int kStepK = 16;
  const double units = config.rows / 16.0, vectors = config.vectors;
  const double steps = config.warpK / double(kStepK);
  const double parts = double(config.warpK) / config.partK(signature);
  double loads = units * config.warpK * bitsOf(signature.typeB()) / 256;
  double pairs = signature.groupB ? units * parts * (1 + signature.zeroB) : 0;
  double copies = vectors * config.warpK * bytesOf(signature.in) / kCopied;
  double fragments = double(ceilDiv(config.vectors, 16));
  // A multiplication for each sum and group, with what it waits for.
  double scaled =
      signature.groupB ? kScaled * parts * config.accumulators() : 0;
  tile.step = {.loop = kLoop,
               .copies = kCopy * (loads + pairs + copies),
               .fragments = steps * kFragment * fragments,
               .decoding = steps * units * decodeClocks(signature),
               .sums = scaled,
               .flop = 2.0 * config.rows * vectors * config.warpK};
  tile.waitClocks = 30;
  tile.tensorRate = packedRate(signature);
  // SMs that ask for the same line at the same time are answered together.
  tile.vectorShare = 0.5;
  tile.startNs = 1100;
  tile.restartNs = 300;
  tile.tailNs = 1050;
  return tile;
}

std::unique_ptr<Template> makePackedGemmTemplate() {
  return std::make_unique<PackedGemm>();
}

} // namespace kiln
