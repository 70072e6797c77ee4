//===- Gemv.cpp - the matrix-vector template ------------------------------===//
//
// The space crosses how a lane's loads are spread over rows and k (rowsPerWarp
// times unroll is 16, or 8 where registers are short) with how many of a
// block's warps split k. Splits whose last round of k would be mostly empty
// are left out: they wait a whole latency for little.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/ByteRates.h"
#include "Families/Gemm/GemmTemplate.h"
#include "Model/MathUtil.h"
#include "gemm/GemvConfig.h"

#include <algorithm>
#include <cmath>

namespace kiln {

namespace {

struct Shape {
  int rowsPerWarp, unroll;
};

/// Best guesses first: few rows and all of k in one round measured best on an
/// H200.
constexpr Shape kShapes[] = {{2, 4}, {1, 8}, {2, 8}, {4, 4},
                             {4, 2}, {8, 2}, {8, 1}};
constexpr int kWarpsK[] = {4, 2, 1, 8};
/// Vectors that plain FMA has time for while memory delivers: with five to
/// eight the best took 1.45 to 1.8 times as long as skinny's (5 sweeps, H200).
constexpr int kMaxVectors = 4;

class Gemv final : public GemmTemplate<GemvConfig, StreamedTile> {
public:
  Gemv()
      : GemmTemplate({"gemm/Gemv.cuh", "GemmSignature", "GemvConfig",
                      "GemmParams", "gemv"}) {}

protected:
  void forEachConfig(const GemmProblem &problem, const DeviceModel &device,
                     Emit<GemvConfig> emit) const override;
  CandidateClass classOfConfig(const GemvConfig &config) const override;
  std::optional<Rejection>
  checkLimits(const GemmProblem &problem, const GemmSignature &signature,
              const GemvConfig &config,
              const DeviceModel &device) const override;
  StreamedTile tileKernel(const GemmSignature &signature,
                          const GemvConfig &config,
                          const DeviceModel &device) const override;
};

} // namespace

/// Registers that a thread cannot do without: the vectors in flight, the
/// vectors of the small operand that come with them, values that several
/// vectors use again, sums and addresses. ptxas spills below this.
static int64_t registersOf(const GemmSignature &signature,
                           const GemvConfig &config) {
  constexpr int kOverhead = 24, kEarly = 8, kPerVector = 3;
  int64_t rows = config.rowsPerWarp, vectors = config.vectors;
  bool isEarly = vectors * config.unroll <= kEarly;
  int64_t early = isEarly ? vectors : 1;
  // For elements of one byte: four fp32 of each, or the next loads of vectors.
  int64_t reused = bytesOf(signature.in) == 1
                       ? 4 * (vectors + 1) + (isEarly ? 0 : 8 * (vectors - 1))
                   : vectors > 1 ? 8 * rows
                                 : 0;
  return 4 * config.unroll * (rows + early) + reused + rows * vectors +
         2 * (rows + vectors) + kPerVector * (vectors - 1) + kOverhead;
}

/// Blocks of an SM that its registers hold.
static int minBlocksOf(const GemmSignature &signature, const GemvConfig &config,
                       const DeviceModel &device) {
  constexpr int kUnit = 8;
  int64_t registers = roundUp(registersOf(signature, config), kUnit);
  int64_t blocks = device.registersPerSm / (config.threads() * registers);
  int64_t byWarps = device.maxWarpsPerSm / config.warps;
  return static_cast<int>(std::max<int64_t>(1, std::min(blocks, byWarps)));
}

/// True when the rounds that cover k are well filled, or cannot be shorter.
static bool isUsefulRound(const GemmProblem &problem,
                          const GemvConfig &config) {
  constexpr double kFilled = 0.7;
  int64_t round = config.roundK(problem.dtype);
  int64_t k = std::max<int64_t>(problem.k, 1);
  if (config.unroll == 1 && config.warpsK == 1)
    return true;
  return double(k) / double(roundUp(k, round)) >= kFilled;
}

void Gemv::forEachConfig(const GemmProblem &problem, const DeviceModel &device,
                         Emit<GemvConfig> emit) const {
  const GemmSignature signature = signatureOf(problem);
  GemvConfig config;
  config.streamsA = problem.m > problem.n;
  int64_t vectors = vectorExtent(problem, config.streamsA);
  if (vectors > kMaxVectors)
    return;
  config.vectors = 1;
  while (config.vectors < vectors)
    config.vectors *= 2;
  // Rows that fit into L2 beside the rest may still be there at the next call.
  double bytes = double(streamedExtent(problem, config.streamsA)) *
                 double(problem.k) * bytesOf(problem.dtype);
  config.evictFirst = bytes > double(device.l2Bytes) / 2;
  for (const Shape &shape : kShapes)
    for (int warpsK : kWarpsK) {
      config.rowsPerWarp = shape.rowsPerWarp;
      config.unroll = shape.unroll;
      config.warpsK = warpsK;
      config.warps = std::max(4, warpsK);
      config.minBlocksPerSm = minBlocksOf(signature, config, device);
      // The widest split is for rows of which there are few.
      bool isWide = warpsK == 8 && shape.rowsPerWarp * shape.unroll < 16;
      if (!isWide && isUsefulRound(problem, config))
        emit(config);
    }
}

CandidateClass Gemv::classOfConfig(const GemvConfig &c) const {
  // Among ties skinny is the safer choice from two vectors on.
  return {classKey({4, c.vectors, c.rowsPerWarp, c.warpsK}),
          c.vectors > 1 ? 2 : 0};
}

std::optional<Rejection> Gemv::checkLimits(const GemmProblem &problem,
                                           const GemmSignature &signature,
                                           const GemvConfig &config,
                                           const DeviceModel &device) const {
  if (signature.hasBlockScales())
    return Rejection{PruneReason::Type};
  if (auto rejection = checkStreamed(problem, signature, config.streamsA,
                                     config.vectors, device))
    return rejection;
  if (auto rejection = checkIntegerSums(problem))
    return rejection;
  if (config.warps < config.warpsK)
    return Rejection{PruneReason::InstructionShape};
  return checkRegisters(registersOf(signature, config), config.threads(),
                        config.minBlocksPerSm, device);
}

/// Issue slots of making fp32 of an element of \p type: a widening and, for
/// fp8, half of the conversion of two to fp16.
static double unpackingSlots(DType type, const DeviceModel &device) {
  if (type == DType::FP32 || type == DType::INT8)
    return 0;
  return isFp8(type) ? 1 + halfClocks(type, device) : 1;
}

StreamedTile Gemv::tileKernel(const GemmSignature &signature,
                              const GemvConfig &config,
                              const DeviceModel &device) const {
  StreamedTile tile;
  tile.streamsA = config.streamsA;
  tile.rows = config.rowsPerBlock();
  tile.vectors = config.vectors;
  // The compiler takes what minBlocksPerSm leaves it.
  int64_t registers = registersOf(signature, config);
  tile.block = {config.threads(), registers, config.sharedBytes(signature)};
  tile.stepK = config.roundK(signature.in);
  // A warp reads runs of its rows in turn. Each halving below 4 KiB loses this
  // share (H200, products of one row; with more vectors no loss was seen).
  constexpr double kLost = 0.02;
  constexpr int kLongUnroll = 8;
  if (config.vectors == 1 && config.unroll < kLongUnroll)
    tile.lostShare = kLost * std::log2(double(kLongUnroll) / config.unroll);
  tile.vectorShare = 1.0 / config.minBlocksPerSm; // L1 serves the other blocks
  // Instructions for each 16 bytes of the rows: a load with its address, and a
  // conversion of each element that is not fp32. For each 16 bytes of the
  // vectors: a load and, for fp8, the conversions; other types are converted
  // beside the rows'. For each pair: a multiplication of each element, or of
  // each four of int8 at half the rate. At the end of k every element is
  // compared and selected, or every word of bytes is masked.
  constexpr double kLoop = 20, kLoad = 4;
  double rows = config.rowsPerWarp, vectors = config.vectors;
  double elements = 16.0 / bytesOf(signature.in);
  DType typeS = config.streamsA ? signature.in : signature.typeB();
  DType typeV = config.streamsA ? signature.typeB() : signature.in;
  double conversions = elements * unpackingSlots(typeS, device);
  double others = isFp8(typeV) ? elements * unpackingSlots(typeV, device) : 0.0;
  double products = signature.in == DType::INT8 ? elements / 2 : elements;
  bool isByte = bytesOf(signature.in) == 1;
  double selects =
      config.unroll * (isByte ? 4 : 2 * elements) * (rows + vectors);
  // Few warps with long chains of dependent instructions (H200).
  constexpr double kIssueEfficiency = 0.5;
  double warpsPerClock = device.simdFp32FlopsPerClock / 2 / kWarpThreads /
                         double(device.subCoresPerSm);
  const double clocks = 1 / (warpsPerClock * kIssueEfficiency);
  const double unrolled = config.unroll * clocks;
  tile.step = {.loop = kLoop * clocks,
               .copies = unrolled * kLoad * (rows + vectors),
               .decoding = unrolled * (vectors * others + rows * conversions),
               .products = unrolled * rows * products * vectors};
  tile.partialClocks = selects * clocks;
  tile.startNs = 880;
  tile.restartNs = 400;
  // Every further vector brings shuffles, sums in shared memory and stores.
  tile.tailNs = 330 + 150 * (vectors - 1);
  return tile;
}

std::unique_ptr<Template> makeGemvTemplate() {
  return std::make_unique<Gemv>();
}

} // namespace kiln
