//===- SkinnyGemm.cpp - mma.sync past a few vectors -----------------------===//
//
// The space is a table of rings that differ in kind: how many rows share the
// vectors' traffic, and how the bytes in flight are cut into stages and warps.
// The vectors are padded to what the instructions allow, no further. Splits of
// k across blocks are offered only where whole tiles leave SMs idle.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/ByteRates.h"
#include "Families/Gemm/GemmTemplate.h"
#include "Model/MathUtil.h"
#include "Model/Rates.h"
#include "gemm/SkinnyGemmConfig.h"

#include <algorithm>

namespace kiln {

namespace {

struct Ring {
  int rows, warps, rowBytes, stages;
};

/// Best guesses first: 16 to 64 rows, 512 bytes of k in a stage of four warps
/// and 3 to 6 stages measured best on an H200. Copies of 64 bytes of a row are
/// for a short k.
constexpr Ring kRings[] = {
    {16, 4, 128, 4}, {32, 4, 128, 4}, {16, 4, 128, 6}, {32, 4, 128, 6},
    {64, 4, 128, 4}, {32, 4, 128, 3}, {16, 4, 256, 4}, {32, 4, 256, 3},
    {16, 8, 128, 4}, {32, 8, 128, 4}, {64, 8, 128, 2}, {16, 4, 64, 8},
    {32, 4, 64, 8},  {64, 4, 64, 6},  {64, 8, 64, 3},
};
/// One vector leaves seven of the instruction's eight columns empty. That
/// costs fp8 nothing, whose conversion FMA needs as well.
static int64_t leastVectors(const GemmSignature &signature) {
  return isFp8(signature.in) ? 1 : 2;
}
constexpr int kSkinnySplits[] = {32, 16, 8, 4, 2};

class SkinnyGemm final : public GemmTemplate<SkinnyGemmConfig, StreamedTile> {
public:
  SkinnyGemm()
      : GemmTemplate({"gemm/SkinnyGemm.cuh", "GemmSignature",
                      "SkinnyGemmConfig", "GemmParams", "skinnyGemm"}) {}

protected:
  void forEachConfig(const GemmProblem &problem, const DeviceModel &device,
                     Emit<SkinnyGemmConfig> emit) const override;
  CandidateClass classOfConfig(const SkinnyGemmConfig &config) const override;
  std::optional<Rejection>
  checkLimits(const GemmProblem &problem, const GemmSignature &signature,
              const SkinnyGemmConfig &config,
              const DeviceModel &device) const override;
  StreamedTile tileKernel(const GemmSignature &signature,
                          const SkinnyGemmConfig &config,
                          const DeviceModel &device) const override;
};

} // namespace

/// Sums of a thread: twice as many where those of the tensor core go on to
/// others.
static int64_t sumsOf(const GemmSignature &signature,
                      const SkinnyGemmConfig &config,
                      const DeviceModel &device) {
  bool hasPartials =
      hasPartialSums(signature, static_cast<int>(device.computeCapability()));
  return int64_t(config.accumulators()) * (hasPartials ? 2 : 1);
}

/// Scales of rows of A that a lane needs of each 128 of k.
static int laneScales(const SkinnyGemmConfig &config) {
  return config.streamsA ? config.rows / 8 : config.vectors / 4;
}

/// Two sets of fragments of one step beside the sums, and the conversions of
/// half a step; the rest is addresses and loop state.
static int64_t registersOf(const GemmSignature &signature,
                           const SkinnyGemmConfig &config,
                           const DeviceModel &device) {
  constexpr int kOverhead = 44, kLimit = 255;
  int64_t fragments = 2 * (config.rows + config.vectors) / 4;
  if (conversionClocks(signature, signature.in, device) > 0)
    fragments += config.rows / 4;
  if (signature.hasBlockScales())
    fragments += 2 * laneScales(config) + 8;
  return std::min<int64_t>(
      sumsOf(signature, config, device) + fragments + kOverhead, kLimit);
}

/// More warps split k at a smaller price than blocks, and fewer rows fill as
/// many SMs without splits: splits of 64 rows took 1.06 times as long as the
/// best, or longer (29 problems, H200).
static bool mayHaveSplits(const SkinnyGemmConfig &config) {
  constexpr int kFewWarps = 4, kFewRows = 32;
  return config.warps <= kFewWarps && config.rows <= kFewRows;
}

void SkinnyGemm::forEachConfig(const GemmProblem &problem,
                               const DeviceModel &device,
                               Emit<SkinnyGemmConfig> emit) const {
  GemmSignature signature = signatureOf(problem);
  SkinnyGemmConfig config;
  config.streamsA = problem.m > problem.n;
  int64_t vectors = vectorExtent(problem, config.streamsA);
  config.vectors = paddedVectors(vectors);
  if (vectors < leastVectors(signature) || config.vectors == 0)
    return;
  for (const Ring &ring : kRings) {
    config.rows = ring.rows;
    config.warps = ring.warps;
    config.warpK = ring.rowBytes / bytesOf(signature.in);
    config.stages = ring.stages;
    config.splits = 0;
    config.splitK = 1;
    config.minBlocksPerSm = streamedBlocksPerSm(
        {config.threads(), registersOf(signature, config, device),
         config.sharedBytes(signature)},
        device);
    emit(config);
    if (mayHaveSplits(config))
      forEachStreamedSplit(problem, config, kSkinnySplits, device, emit);
  }
}

CandidateClass SkinnyGemm::classOfConfig(const SkinnyGemmConfig &c) const {
  return {classKey({5, c.vectors, c.rows, c.splitK}), c.splitK};
}

std::optional<Rejection> SkinnyGemm::checkLimits(
    const GemmProblem &problem, const GemmSignature &signature,
    const SkinnyGemmConfig &config, const DeviceModel &device) const {
  if (signature.in == DType::FP32)
    return Rejection{PruneReason::Type};
  if (auto rejection = checkStreamed(problem, signature, config.streamsA,
                                     config.vectors, device))
    return rejection;
  int64_t vectors = vectorExtent(problem, config.streamsA);
  if (vectors < leastVectors(signature))
    return Rejection{PruneReason::Dominated, double(vectors),
                     double(leastVectors(signature)), "vectors"};
  if (auto rejection = checkRate(device, mmaSyncRate(signature, device)))
    return rejection;
  if (auto rejection = checkIntegerSums(problem))
    return rejection;
  if (auto rejection = checkBlockScales(problem))
    return rejection;
  if (auto rejection =
          checkAccumulators(double(sumsOf(signature, config, device))))
    return rejection;
  if (auto rejection =
          checkRegisters(registersOf(signature, config, device),
                         config.threads(), config.minBlocksPerSm, device))
    return rejection;
  return checkSplits(problem, int64_t(config.warpK) * config.warps,
                     config.splitK);
}

StreamedTile SkinnyGemm::tileKernel(const GemmSignature &signature,
                                    const SkinnyGemmConfig &config,
                                    const DeviceModel &device) const {
  StreamedTile tile;
  tile.streamsA = config.streamsA;
  tile.rows = config.rows;
  tile.vectors = config.vectors;
  tile.splitK = config.splitK;
  tile.block = {config.threads(), registersOf(signature, config, device),
                config.sharedBytes(signature)};
  tile.stepK = config.blockK();
  tile.stepsInFlight = config.stages - 1;
  // Clocks of a sub-core for each copy of 512 bytes with its address, each load
  // of fragments and each multiplication of 16 x 8 by 32 bytes, at the tensor
  // cores' rate, and for the conversions ahead of it, each lane its share. The
  // rest of a step is barriers, waits for copies and the loop.
  constexpr double kLoop = 152, kCopy = 4, kFragment = 4, kCopied = 512;
  const int stepK = 32 / bytesOf(signature.in);
  double rows = config.rows, vectors = config.vectors;
  double copies =
      (rows + vectors) * config.warpK * bytesOf(signature.in) / kCopied;
  double fragments = rows / 16 + double(ceilDiv(config.vectors, 16));
  DType typeS = config.streamsA ? signature.in : signature.typeB();
  DType typeV = config.streamsA ? signature.typeB() : signature.in;
  double conversions = rows * conversionClocks(signature, typeS, device) +
                       vectors * conversionClocks(signature, typeV, device);
  tile.step = {
      .loop = kLoop,
      .copies = kCopy * copies,
      .fragments = config.warpK / double(stepK) * kFragment * fragments,
      .decoding = config.warpK * conversions / double(kWarpThreads),
      .sums = promotionClocks(signature, config.accumulators(),
                              laneScales(config), config.warpK, device),
      .flop = 2 * rows * vectors * config.warpK};
  tile.waitClocks = 87;
  tile.tensorRate = mmaSyncRate(signature, device);
  // The loads of a ring queue behind each other.
  tile.latencyShare = 2;
  // SMs that ask for the same line at the same time are answered together.
  tile.vectorShare = 0.5;
  // Copies of 64 bytes of a row ask L2 twice for each line.
  constexpr int kLineBytes = 128;
  constexpr double kHalfLines = 0.53;
  if (config.warpK * bytesOf(signature.in) < kLineBytes)
    tile.l2Share = kHalfLines;
  tile.startNs = 400;
  tile.restartNs = 1650;
  tile.tailNs = 900;
  return tile;
}

std::unique_ptr<Template> makeSkinnyGemmTemplate() {
  return std::make_unique<SkinnyGemm>();
}

} // namespace kiln
