//===- LaneGather.cpp - the template of lanes that share rows -------------===//
//
// Every config moves the same bytes. Configs differ in the bytes that a thread
// has in flight, in how these divide into rows and vectors of a row, and in the
// number of blocks. Little's law ranks them; see Model/MemoryPass.h.
//
//===----------------------------------------------------------------------===//
#include "Families/Gather/GatherFamily.h"
#include "Families/MemoryPass/MemoryPassTemplate.h"
#include "gather/LaneGatherConfig.h"

#include <llvm/Support/MathExtras.h>

#include <algorithm>
#include <cassert>
#include <cmath>

namespace kiln {

namespace {

class LaneGather final
    : public MemoryPassTemplate<LaneGather, LaneGatherConfig> {
public:
  LaneGather()
      : MemoryPassTemplate({"gather/LaneGather.cuh", "GatherSignature",
                            "LaneGatherConfig", "LaneGatherParams",
                            "laneGather"}) {}

  void enumerate(const Problem &problem, const DeviceModel &device,
                 llvm::function_ref<void(Values)> emit) const override;

  /// A class is the vectors of a thread and their places; threads and hints
  /// vary within it.
  CandidateClass classOfConfig(const LaneGatherConfig &c) const override {
    return {classKey({c.lanes - 1, c.items, c.rows, c.access}), 0};
  }

  Plan plan(const Problem &problem, const Values &values,
            const DeviceModel &device) const override;

  /// Vectors of one element serve every problem.
  bool isGeneric() const override { return true; }

  template <Number N>
  MemoryPass<N> pass(const Problem &problem, const LaneGatherConfig &config,
                     const DeviceModel &device) const;

protected:
  std::optional<Rejection>
  checkConfig(const Problem &problem, const LaneGatherConfig &config,
              const DeviceModel &device) const override;

private:
  static GatherProblem read(const Problem &problem) {
    return readGatherProblem(problem.values.array().data());
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// Space
//===----------------------------------------------------------------------===//

namespace {
/// The vectors of a row that a thread has, and its rows.
struct Share {
  int items, rows;
};
} // namespace

/// Best guesses first: 64 bytes a thread, of one row where that is long.
static constexpr Share kShares[] = {{4, 1}, {2, 2}, {1, 4}, {2, 1}, {1, 2},
                                    {8, 1}, {4, 2}, {2, 4}, {1, 8}, {1, 1}};
/// Narrow accesses need more of them in flight.
static constexpr Share kNarrowShares[] = {{8, 2}, {16, 1}, {4, 4}, {2, 8}};

/// The power of two that is not less than \p count.
static int64_t powerAbove(int64_t count) {
  return static_cast<int64_t>(
      llvm::PowerOf2Ceil(static_cast<uint64_t>(std::max<int64_t>(count, 1))));
}

namespace {
/// Rows of \p vectors accesses of \p access bytes, and the hints to try.
struct RowShape {
  int64_t vectors;
  int access;
  llvm::ArrayRef<int> hints;
};
} // namespace

/// Emits the configs of \p share: with as many lanes as a row takes, and with
/// half as many if that leaves fewer idle.
static void emitShare(Share share, const RowShape &row,
                      Emit<LaneGatherConfig> emit) {
  const int64_t wanted =
      powerAbove((row.vectors + share.items - 1) / share.items);
  constexpr int kThreads[] = {256, 128, 512, 1024};
  for (int threads : kThreads) {
    // The most threads only where a row is as long.
    if (threads > 512 && wanted < threads)
      continue;
    LaneGatherConfig config{
        .blockThreads = threads,
        .lanes = static_cast<int>(std::min<int64_t>(wanted, threads)),
        .items = share.items,
        .rows = share.rows,
        .access = row.access};
    auto idle = [&] {
      return config.pieces(row.vectors) * config.pieceVectors() - row.vectors;
    };
    auto emitHints = [&] {
      for (int hint : row.hints) {
        config.hint = hint;
        emit(config);
      }
    };
    emitHints();
    constexpr int kWarp = 32;
    const int64_t idleVectors = idle();
    if (config.lanes > kWarp) {
      config.lanes /= 2;
      if (idle() < idleVectors)
        emitHints();
    }
  }
}

/// Emits all shares that suit rows of this shape.
static void emitShares(const RowShape &row, Emit<LaneGatherConfig> emit) {
  auto emitSuitable = [&](Share share) {
    // Accesses of a row at once are a sector at least, unless the row is less.
    constexpr int64_t kLeastPiece = 32;
    const int64_t piece =
        powerAbove((row.vectors + share.items - 1) / share.items) * row.access;
    if (share.items == 1 || piece >= kLeastPiece)
      emitShare(share, row, emit);
  };
  constexpr int kNarrow = 4;
  if (row.access <= kNarrow)
    for (Share share : kNarrowShares)
      emitSuitable(share);
  for (Share share : kShares)
    emitSuitable(share);
}

void LaneGather::enumerate(const Problem &problem, const DeviceModel &device,
                           llvm::function_ref<void(Values)> emit) const {
  const GatherProblem p = read(problem);
  const GatherSignature signature = readGatherSignature(problem.signature);
  const auto least = static_cast<int>(p.widerBytes());
  // A result that L2 holds is read from there by the next kernel, so it is not
  // marked for early eviction.
  const double bytes = p.elements() * bytesOf(p.out);
  static constexpr int kLarge[] = {1, 0}, kSmall[] = {0, 1}, kPlain[] = {0};
  const llvm::ArrayRef<int> hints =
      bytes > double(device.l2Bytes) ? kLarge : kSmall;
  auto take = [&](const LaneGatherConfig &config) { emit(valuesOf(config)); };
  const int64_t rowBytes = p.cols * p.widerBytes();
  emitShares({rowBytes / signature.align, signature.align, hints}, take);
  // Vectors of one element serve every problem of the same types.
  if (signature.align > least)
    emitShare(kNarrowShares[0], {rowBytes / least, least, kPlain}, take);
}

//===----------------------------------------------------------------------===//
// Limits
//===----------------------------------------------------------------------===//

/// The rejection of \p value unless it is a power of two from \p least to
/// \p most; \p unit and \p allowed are literals.
static std::optional<Rejection> checkKnob(int value, int64_t least,
                                          int64_t most, llvm::StringRef unit,
                                          llvm::StringRef allowed) {
  if (llvm::isPowerOf2_32(static_cast<uint32_t>(value)) && value >= least &&
      value <= most)
    return std::nullopt;
  return Rejection{PruneReason::InstructionShape, double(value), 0, unit,
                   allowed};
}

std::optional<Rejection>
LaneGather::checkConfig(const Problem &problem, const LaneGatherConfig &config,
                        const DeviceModel &device) const {
  const GatherProblem p = read(problem);
  const GatherSignature signature = readGatherSignature(problem.signature);
  if (auto rejection = checkThreads(config.threads(), device))
    return rejection;
  if (config.access > signature.align)
    return Rejection{PruneReason::Alignment, double(config.access),
                     double(signature.align), "B"};
  if (auto rejection =
          checkKnob(config.access, p.widerBytes(), 16, "bytes a vector",
                    "an element to 16, a power of two"))
    return rejection;
  if (auto rejection =
          checkKnob(config.blockThreads, 32, 1024, "threads a block",
                    "a power of two from 32 to 1024"))
    return rejection;
  if (auto rejection =
          checkKnob(config.lanes, 1, config.blockThreads, "lanes a row",
                    "a power of two up to the threads of a block"))
    return rejection;
  constexpr int kMost = LaneGatherConfig::kMostVectors;
  if (auto rejection = checkKnob(config.items, 1, kMost, "vectors of a row",
                                 "a power of two up to 16"))
    return rejection;
  if (auto rejection = checkKnob(config.rows, 1, LaneGatherConfig::kMostRows,
                                 "rows a thread", "a power of two up to 8"))
    return rejection;
  if (config.vectors() > kMost)
    return Rejection{PruneReason::Registers, double(config.vectors()),
                     double(kMost), "vectors a thread"};
  if (config.hint > 1)
    return Rejection{PruneReason::InstructionShape, double(config.hint), 0,
                     "as the hint", "0 or 1"};
  assert(config.isValid(signature) && "each limit of isValid has a message");
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Estimate
//===----------------------------------------------------------------------===//

/// Bytes of the sectors that a row of \p bytes touches on average, if rows lie
/// anywhere at multiples of \p pitch bytes behind an address of alignment
/// \p align.
static double sectorBytes(double bytes, int64_t pitch, int64_t align) {
  constexpr int64_t kSector = 32, kMostAlign = 16;
  // Operands that promise the most begin with a sector.
  const int64_t start = align >= kMostAlign ? kSector : align;
  const int64_t common = kSector | start | pitch;
  const int64_t step = common & -common;
  if (step == kSector)
    return std::ceil(bytes / kSector) * kSector;
  return bytes + double(kSector - step);
}

/// Instructions of an element that is converted and scaled.
static double conversionCost(const GatherSignature &signature,
                             const DeviceModel &device) {
  if (signature.moves())
    return 0;
  // As FlatEstimate.cpp counts them.
  const bool hasFp8 = device.computeCapability() >= 89;
  const bool hasPairs = device.computeCapability() >= 80;
  auto unpack = [&](DType type) {
    if (type == DType::FP32)
      return 0.0;
    return type != DType::E4M3 ? 1 : hasFp8 ? 1.5 : 12;
  };
  auto pack = [&](DType type) {
    if (type == DType::FP32)
      return 0.0;
    if (type == DType::INT8)
      return 4.0;
    if (type == DType::E4M3)
      return hasFp8 ? 0.5 : 16;
    return hasPairs ? 0.5 : 2;
  };
  return unpack(signature.in) + 1 + pack(signature.out);
}

template <Number N>
MemoryPass<N> LaneGather::pass(const Problem &problem,
                               const LaneGatherConfig &config,
                               const DeviceModel &device) const {
  const GatherProblem p = read(problem);
  const GatherSignature signature = readGatherSignature(problem.signature);
  const int inBytes = bytesOf(p.dtype), outBytes = bytesOf(p.out);
  const int64_t rowVectors = p.cols * p.widerBytes() / config.access;
  const double batch = double(p.batch), moved = batch * double(p.rows); // rows
  const double different = batch * double(p.differentRows());
  const int64_t pieces = std::max<int64_t>(config.pieces(rowVectors), 1);
  MemoryPass<N> kernel;
  kernel.tasks =
      std::max<int64_t>(pieces * config.rowTiles(p.rows) * p.batch, 1);
  kernel.block = {config.threads(), config.registers(signature), 0};
  // Rows of the side with an array lie anywhere, so sectors at their ends are
  // moved for each.
  auto rowBytes = [&](int bytes, int64_t ld, bool isAnywhere) {
    const double row = double(p.cols) * bytes;
    return isAnywhere ? sectorBytes(row, ld * bytes, p.align) : row;
  };
  const double xRowBytes = rowBytes(inBytes, p.ldx, p.hasIndices());
  kernel.readBytes = different * xRowBytes + p.arrayBytes();
  kernel.writeBytes = moved * rowBytes(outBytes, p.ldy, p.hasTargets());
  // Indices that share a row find it in L2.
  kernel.sharedBytesPerTask =
      (moved - different) * xRowBytes / double(kernel.tasks);
  const int xBytes = config.xBytes(signature);
  kernel.loads = {.vectors = double(config.vectors()),
                  .elements = xBytes / inBytes,
                  .elementBytes = inBytes,
                  .registers =
                      config.vectors() * config.vectorWords(signature)};
  // As counted in the kernel's SASS (sm_90). A vector takes both accesses,
  // their conditions and zeros; a row an index, its checks and two addresses,
  // in each of its lanes.
  constexpr double kPerVector = 10, kPerRow = 40, kPerThread = 60;
  // By accesses of 4 bytes and less: as FlatEstimate.cpp has it.
  constexpr int kNarrowBytes = 4;
  constexpr double kPerNarrow = 24, kNarrowLoss = 0.07;
  const bool isNarrow =
      std::min(xBytes, config.yBytes(signature)) <= kNarrowBytes;
  const double vectors = moved * double(rowVectors);
  kernel.simdOps = vectors * (kPerVector + (isNarrow ? kPerNarrow : 0)) +
                   p.elements() * conversionCost(signature, device) +
                   double(kernel.tasks) * config.threads() *
                       (kPerThread + kPerRow * config.rows);
  if (isNarrow)
    kernel.lostShare += fitted<N>(kNarrowLoss, "lost by narrow accesses");
  // A task waits for its indices before it knows its rows.
  kernel.serialNs = named(deviceValue<N>(device, &DeviceModel::dramLatencyNs),
                          "wait for the indices", "ns");
  return kernel;
}

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

Plan LaneGather::plan(const Problem &problem, const Values &values,
                      const DeviceModel &device) const {
  const auto config = fromValues<LaneGatherConfig>(values);
  // The least alignment that the kernel needs, so that better aligned problems
  // share it.
  GatherSignature least = readGatherSignature(problem.signature);
  least.align = config.access;
  Plan plan = planWithoutBinder(problem, values, least, config,
                                /*sharedBytes=*/0, device);
  plan.binder = makeBinder([config](const Arguments &arguments,
                                    const LaunchContext &, LaunchSpec &spec) {
    const GatherProblem p = readGatherProblem(arguments.problem);
    LaneGatherParams params;
    params.operands = makeGatherParams(p, arguments);
    const GatherParams &given = params.operands;
    params.xPitch = given.ldx * bytesOf(p.dtype);
    params.yPitch = given.ldy * bytesOf(p.out);
    params.xBatchPitch = given.xStride * bytesOf(p.dtype);
    params.yBatchPitch = given.yStride * bytesOf(p.out);
    config.fillTiles(params, static_cast<int>(p.widerBytes()));
    KernelStep &step = spec.addKernel(params);
    step.grid.x = static_cast<uint32_t>(LaneGatherConfig::blocks(params.tiles));
    step.block.x = static_cast<uint32_t>(config.threads());
  });
  return plan;
}

std::unique_ptr<Template> makeLaneGatherTemplate() {
  return std::make_unique<LaneGather>();
}

} // namespace kiln
