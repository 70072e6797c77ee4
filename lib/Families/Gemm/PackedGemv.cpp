//===- PackedGemv.cpp - packed weights past a vector ----------------------===//
//
// The space is a short table: how many warps a block has, how many of them
// share rows, and how many of their steps are in flight. Its blocks take the
// tiles in turn, as many of them as the table says run on an SM at once.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/DecodeRates.h"
#include "Families/Gemm/GemmTemplate.h"
#include "Model/MathUtil.h"
#include "gemm/PackedGemvConfig.h"

#include <llvm/ADT/STLExtras.h>

#include <iterator>

namespace kiln {

namespace {

struct TurnStream {
  int warps, warpsK, stages, blocksPerSm;
};

/// Best guesses first (H200).
constexpr TurnStream kTurnStreams[] = {
    {16, 16, 6, 1}, {16, 8, 6, 1},  {16, 16, 4, 1}, {16, 4, 6, 1},
    {24, 12, 4, 1}, {24, 24, 4, 1}, {20, 20, 5, 1}, {8, 8, 6, 2},
    {12, 6, 8, 1},  {28, 14, 4, 1},
};
/// Steps of the largest k of a kernel.
constexpr int kDepths[] = {32, 64, 128, 256, 512};

class PackedGemv final : public GemmTemplate<PackedGemvConfig, StreamedTile> {
public:
  PackedGemv()
      : GemmTemplate({"gemm/PackedGemv.cuh", "GemmSignature",
                      "PackedGemvConfig", "GemmParams", "packedGemv"}) {}

protected:
  void forEachConfig(const GemmProblem &problem, const DeviceModel &device,
                     Emit<PackedGemvConfig> emit) const override;
  CandidateClass classOfConfig(const PackedGemvConfig &config) const override;
  std::optional<Rejection>
  checkLimits(const GemmProblem &problem, const GemmSignature &signature,
              const PackedGemvConfig &config,
              const DeviceModel &device) const override;
  StreamedTile tileKernel(const GemmSignature &signature,
                          const PackedGemvConfig &config,
                          const DeviceModel &device) const override;
};

} // namespace

/// Registers for a step's weights, two sets of products, what is held of the
/// vectors at first, addresses and loop state.
static int64_t registersOf(const PackedGemvConfig &config,
                           const GemmSignature &signature) {
  constexpr int kOverhead = 40, kProducts = 8;
  const int64_t weights = bitsOf(signature.typeB()) * 2;
  return weights + kProducts + kOverhead;
}

void PackedGemv::forEachConfig(const GemmProblem &problem,
                               const DeviceModel &device,
                               Emit<PackedGemvConfig> emit) const {
  if (!problem.isPacked() || problem.hasGroups() || problem.m > 1)
    return;
  PackedGemvConfig config;
  const int64_t steps = ceilDiv(problem.k, config.kStepK);
  const int *depth = llvm::lower_bound(kDepths, steps);
  if (depth == std::end(kDepths))
    return;
  config.depth = *depth;
  for (const TurnStream &stream : kTurnStreams) {
    config.warps = stream.warps;
    config.warpsK = stream.warpsK;
    // Steps of 8 bits are twice as large.
    config.stages =
        bitsOf(problem.typeB) == 4 ? stream.stages : stream.stages / 2 + 1;
    config.minBlocksPerSm = stream.blocksPerSm;
    emit(config);
  }
}

CandidateClass PackedGemv::classOfConfig(const PackedGemvConfig &c) const {
  return {classKey({12, c.depth, c.warps, c.warpsK}), 0};
}

std::optional<Rejection> PackedGemv::checkLimits(
    const GemmProblem &problem, const GemmSignature &signature,
    const PackedGemvConfig &config, const DeviceModel &device) const {
  if (!signature.isPacked() || signature.hasGroups())
    return Rejection{PruneReason::Type};
  if (auto rejection = checkAmpere(device))
    return rejection;
  if (auto rejection = checkRate(device, packedRate(signature)))
    return rejection;
  constexpr int kVectorBytes = 16;
  if (auto rejection = checkAlign(signature.alignA, kVectorBytes))
    return rejection;
  constexpr double kMostVectors = 1;
  if (problem.m > kMostVectors)
    return Rejection{PruneReason::Dominated, double(problem.m), kMostVectors,
                     "vectors"};
  const int64_t steps = ceilDiv(problem.k, config.kStepK);
  if (steps > config.depth)
    return Rejection{PruneReason::InstructionShape, double(steps),
                     double(config.depth), "steps of k"};
  if (!config.isValid(signature))
    return Rejection{PruneReason::InstructionShape};
  // Blocks that the launch counts on run at once.
  const int64_t shared = config.sharedBytes(signature);
  const int64_t limit = sharedBytesLimit(device, config.minBlocksPerSm);
  if (shared > limit)
    return Rejection{PruneReason::SharedMemory, double(shared), double(limit),
                     "B"};
  return checkRegisters(registersOf(config, signature), config.threads(),
                        config.minBlocksPerSm, device);
}

StreamedTile PackedGemv::tileKernel(const GemmSignature &signature,
                                    const PackedGemvConfig &config,
                                    const DeviceModel &device) const {
  StreamedTile tile;
  tile.rows = config.rowsPerBlock();
  tile.vectors = 1;
  tile.turnsPerSm = config.minBlocksPerSm;
  tile.block = {config.threads(), registersOf(config, signature),
                config.sharedBytes(signature)};
  tile.stepK = config.kStepK * config.warpsK;
  tile.stepsInFlight = config.stages - 1;
  tile.streamedShare = packedShare(signature);
  // Clocks of a sub-core for the loop, each load or copy of a warp with its
  // address, and a part whose sums are scaled (H200).
  constexpr double kLoop = 40, kCopy = 6, kFragment = 4, kScaled = 12;
  constexpr int kStepK = 16;
  const double steps = config.kStepK / double(kStepK);
  const double parts = double(config.kStepK) / config.partK(signature);
  const double loads = 2.0 * config.kStepK * bitsOf(signature.typeB()) / 256;
  const double pairs = signature.groupB ? 1 : 0;
  tile.step = {.loop = kLoop,
               .copies = kCopy * (loads + pairs),
               .fragments = steps / 2 * kFragment,
               .decoding = steps * bitClocks(signature),
               .sums = kScaled * parts,
               .flop = 2.0 * config.kUnitRows * 8 * config.kStepK};
  tile.waitClocks = 30;
  tile.tensorRate = packedRate(signature);
  tile.vectorShare = 0.5;
  tile.startNs = 1300;
  tile.tailNs = 900;
  return tile;
}

std::unique_ptr<Template> makePackedGemvTemplate() {
  return std::make_unique<PackedGemv>();
}

} // namespace kiln
