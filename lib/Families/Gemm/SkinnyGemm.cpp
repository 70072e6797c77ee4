//===- SkinnyGemm.cpp - mma.sync past a few vectors -----------------------===//
//
// The space is a table of rings that differ in kind: how many rows share the
// vectors' traffic, and how the bytes in flight are cut into stages and warps.
// The vectors are padded to what the instructions allow, no further. Splits of
// k across blocks are offered only where whole tiles leave SMs idle.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/GemmTemplate.h"
#include "Model/MathUtil.h"
#include "gemm/SkinnyGemmConfig.h"

#include <algorithm>

namespace kiln {

namespace {

struct Ring {
  int rows, warps, warpK, stages;
};

/// Best guesses first: 16 to 32 rows, 256 elements of k in a stage of four
/// warps and 4 to 6 stages measured best on an H200.
constexpr Ring kRings[] = {
    {16, 4, 64, 6}, {32, 4, 64, 4}, {16, 4, 64, 4},  {32, 4, 64, 6},
    {16, 8, 64, 4}, {32, 8, 64, 4}, {16, 4, 128, 4}, {32, 4, 128, 3},
    {32, 4, 64, 3}, {16, 8, 32, 6}, {16, 4, 32, 8},  {32, 4, 32, 8},
    {64, 4, 64, 4}, {64, 8, 64, 2}, {64, 4, 32, 6},  {32, 8, 32, 6},
    {64, 8, 32, 3}, {32, 4, 32, 4}, {16, 4, 32, 4},
};
constexpr int kVectors[] = {8, 16, 24, 32, 48, 64};
/// One vector leaves seven of the instruction's eight columns empty.
constexpr int64_t kLeastVectors = 2;
constexpr int kSplits[] = {32, 16, 8, 4, 2};

class SkinnyGemm final : public GemmTemplate<SkinnyGemmConfig, StreamedTile> {
public:
  SkinnyGemm()
      : GemmTemplate({.header = "gemm/SkinnyGemm.cuh",
                      .signatureType = "GemmSignature",
                      .configType = "SkinnyGemmConfig",
                      .paramsType = "GemmParams",
                      .function = "skinnyGemm"}) {}

protected:
  void forEachConfig(
      const GemmProblem &problem, const DeviceModel &device,
      llvm::function_ref<void(const SkinnyGemmConfig &)> emit) const override;
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

/// Two sets of fragments of one step beside the sums; the rest is addresses
/// and loop state.
static int64_t registersOf(const SkinnyGemmConfig &config) {
  constexpr int kOverhead = 44, kLimit = 255;
  int64_t fragments = 2 * (config.rows + config.vectors) / 4;
  return std::min<int64_t>(int64_t(config.rows) * config.vectors / 32 +
                               fragments + kOverhead,
                           kLimit);
}

/// Blocks of an SM that its shared memory and registers hold.
static int minBlocksOf(const SkinnyGemmConfig &config,
                       const GemmSignature &signature,
                       const DeviceModel &device) {
  Occupancy resident =
      occupancy(device, {config.threads(), roundUp(registersOf(config), 8),
                         config.sharedBytes(signature)});
  return static_cast<int>(std::max<int64_t>(resident.blocksPerSm, 1));
}

/// Splits fill SMs that whole tiles leave idle. More warps split k at a smaller
/// price, so there is no need of both.
static bool isUsefulSplit(const GemmProblem &problem,
                          const SkinnyGemmConfig &config, int splitK,
                          const DeviceModel &device) {
  constexpr int kFewWarps = 4, kLeastStages = 2;
  SkinnyGemmConfig whole = config;
  whole.splitK = 1;
  int64_t tiles = whole.blocks(problem.m, problem.n, problem.batch);
  int64_t stages = ceilDiv(problem.k, config.blockK());
  return config.warps <= kFewWarps && tiles < device.smCount &&
         tiles * splitK <= 2 * device.smCount &&
         stages >= kLeastStages * splitK;
}

void SkinnyGemm::forEachConfig(
    const GemmProblem &problem, const DeviceModel &device,
    llvm::function_ref<void(const SkinnyGemmConfig &)> emit) const {
  GemmSignature signature = signatureOf(problem);
  SkinnyGemmConfig config;
  config.streamsA = problem.m > problem.n;
  int64_t vectors = vectorExtent(problem, config.streamsA);
  const int *padded = std::find_if(std::begin(kVectors), std::end(kVectors),
                                   [&](int v) { return v >= vectors; });
  if (vectors < kLeastVectors || padded == std::end(kVectors))
    return;
  config.vectors = *padded;
  for (const Ring &ring : kRings) {
    config.rows = ring.rows;
    config.warps = ring.warps;
    config.warpK = ring.warpK;
    config.stages = ring.stages;
    config.splits = 0;
    config.splitK = 1;
    config.minBlocksPerSm = minBlocksOf(config, signature, device);
    emit(config);
    // The two that fill most: fewer leave SMs idle, which is their point.
    config.splits = 1;
    int emitted = 0;
    for (int splitK : kSplits)
      if (emitted < 2 && isUsefulSplit(problem, config, splitK, device)) {
        config.splitK = splitK;
        emit(config);
        ++emitted;
      }
  }
}

CandidateClass SkinnyGemm::classOfConfig(const SkinnyGemmConfig &c) const {
  uint64_t key = 5;
  for (int part : {c.vectors, c.rows, c.splitK})
    key = key * 1024 + static_cast<uint64_t>(part);
  return {key, c.splitK};
}

std::optional<Rejection> SkinnyGemm::checkLimits(
    const GemmProblem &problem, const GemmSignature &signature,
    const SkinnyGemmConfig &config, const DeviceModel &device) const {
  if (auto rejection = checkStreamed(problem, signature, config.streamsA,
                                     config.vectors, device))
    return rejection;
  int64_t vectors = vectorExtent(problem, config.streamsA);
  if (vectors < kLeastVectors)
    return Rejection{PruneReason::Dominated, double(vectors),
                     double(kLeastVectors), "vectors"};
  if (device.mmaSyncFlopsPerClockPerSm(
          rateTypeOf(signature.in, signature.compute)) == 0)
    return Rejection{PruneReason::Type};
  constexpr double kMaxAccumulators = 128;
  double accumulators = double(config.rows) * config.vectors / 32;
  if (accumulators > kMaxAccumulators)
    return Rejection{PruneReason::Registers, accumulators, kMaxAccumulators,
                     "accumulators a thread"};
  if (auto rejection = checkRegisters(registersOf(config), config.threads(),
                                      config.minBlocksPerSm, device))
    return rejection;
  int64_t ranges = ceilDiv(problem.k, int64_t(config.warpK) * config.warps);
  if (config.splitK > 1 && config.splitK > ranges)
    return Rejection{PruneReason::Dominated, double(config.splitK),
                     double(ranges), "splits"};
  return std::nullopt;
}

StreamedTile SkinnyGemm::tileKernel(const GemmSignature &signature,
                                    const SkinnyGemmConfig &config,
                                    const DeviceModel &device) const {
  StreamedTile tile;
  tile.streamsA = config.streamsA;
  tile.rows = config.rows;
  tile.vectors = config.vectors;
  tile.splitK = config.splitK;
  tile.block = {config.threads(), registersOf(config),
                config.sharedBytes(signature)};
  double rows = config.rows, vectors = config.vectors;
  tile.bytesInFlight = double(config.stages - 1) * rows * config.blockK() *
                       bytesOf(signature.in);
  // Of a warp for each 16 by 16 elements: two copies with their addresses, one
  // load of fragments; the vectors' share of both; the multiplications.
  constexpr double kCopy = 2 * 5, kFragment = 2;
  double share = vectors / rows;
  double instructions = (kCopy + kFragment) * (1 + share) + vectors / 8;
  constexpr double kElements = 16 * 16;
  tile.opsPerElement = 32 * instructions / kElements;
  tile.tensorFlopsPerElement = 2 * vectors;
  tile.tensorFlopsPerClock = device.mmaSyncFlopsPerClockPerSm(
      rateTypeOf(signature.in, signature.compute));
  // H200, 16 vectors: 0.9 to 1.2 us beyond a single vector's time on plain
  // loads, the vectors' traffic included. The sums of the warps and the
  // epilogue are behind the last bytes.
  // A warp that copies 64 bytes of each row at a time leaves the others' parts
  // of DRAM's bursts for later: 16.8 us instead of 14.5 (H200, 16 x 6144 x
  // 4096).
  constexpr int kGoodBytes = 128;
  constexpr double kShortShare = 0.8;
  if (config.warpK * bytesOf(signature.in) < kGoodBytes)
    tile.dramShare = kShortShare;
  constexpr double kTailNs = 600, kSerialNs = 500;
  tile.tailNs = kTailNs;
  tile.serialNs = kSerialNs;
  return tile;
}

std::unique_ptr<Template> makeSkinnyGemmTemplate() {
  return std::make_unique<SkinnyGemm>();
}

} // namespace kiln
