//===- ShiftedTranspose.cpp - the shifted template ------------------------===//
//
// For rows that begin anywhere. Configs differ in how long the pieces are that
// DRAM sees, in how many blocks an SM has, and in the order of the tiles.
//
//===----------------------------------------------------------------------===//
#include "Families/KernelUnit.h"
#include "Families/LaunchLimits.h"
#include "Families/Stream/StreamTemplate.h"
#include "Families/Transpose/TiledTranspose.h"
#include "Families/Transpose/TransposeFamily.h"
#include "Kernel/ConfigSchema.h"
#include "transpose/ShiftedTransposeConfig.h"

#include <llvm/Support/MathExtras.h>

#include <algorithm>
#include <cassert>

namespace kiln {

namespace {

/// Binds one config of one problem.
class ShiftedBinder final : public Binder {
public:
  ShiftedBinder(const ShiftedTransposeConfig &config,
                const TransposeSignature &signature, int sharedBytes)
      : config(config), signature(signature), sharedBytes(sharedBytes) {}

  void bind(const Arguments &arguments, const LaunchContext &,
            LaunchSpec &spec) const noexcept override {
    TransposeProblem problem = readTransposeProblem(arguments.problem);
    TransposeParams params = makeTransposeParams(problem, arguments);
    const OperandArgument &y = arguments.operands[TransposeOperand::Y];
    bool shifted = ShiftedTransposeConfig::isShifted(signature, y.address,
                                                     y.leadingDimension);
    long long tileRows = config.tileRowCount(signature, problem.rows, shifted);
    params.rasterGroup =
        static_cast<int>(std::min<long long>(config.rasterGroup, tileRows));
    KernelStep &step = spec.addKernel(params);
    step.grid.x =
        static_cast<uint32_t>(tileRows * config.tileColumnCount(problem.cols));
    step.block.x = static_cast<uint32_t>(config.threads());
    step.sharedBytes = static_cast<uint32_t>(sharedBytes);
  }

private:
  ShiftedTransposeConfig config;
  TransposeSignature signature;
  int sharedBytes;
};

class ShiftedTranspose final : public StreamTemplate {
public:
  ShiftedTranspose()
      : schema(makeConfigSchema<ShiftedTransposeConfig>(
            ShiftedTransposeConfig::kName)) {}

  llvm::StringRef name() const override {
    return ShiftedTransposeConfig::kName;
  }
  const RecordSchema &configSchema() const override { return schema; }

  void enumerate(const Problem &problem, const DeviceModel &device,
                 llvm::function_ref<void(Record)> emit) const override;

  /// Tiles are the ideas; threads, hints and rasters vary them.
  CandidateClass classOf(const Problem &, const Record &record) const override {
    auto c = fromRecord<ShiftedTransposeConfig>(record);
    return {static_cast<uint64_t>(c.tileRows) * 1024 +
                static_cast<uint64_t>(c.tileCols),
            0};
  }

  Plan plan(const Problem &problem, const Record &record,
            const DeviceModel &device) const override;

  bool isGeneric() const override { return true; }

protected:
  std::optional<Rejection>
  checkConfig(const Problem &problem, const Record &record,
              const DeviceModel &device) const override;
  StreamKernel streamKernel(const Problem &problem, const Record &record,
                            const DeviceModel &device) const override;

private:
  RecordSchema schema;
};

/// Shared memory that a launch asks for: what a block needs, or so much that
/// only config.blocksPerSm of them fit an SM.
int askedBytes(const ShiftedTransposeConfig &config,
               const TransposeSignature &signature, const DeviceModel &device) {
  int needed = config.sharedBytes(signature);
  if (config.blocksPerSm == 0)
    return needed;
  int64_t share = device.sharedBytesPerSm / config.blocksPerSm -
                  device.sharedBytesReservedPerBlock;
  share = std::min(share, device.sharedBytesPerBlock) / 16 * 16;
  return std::max(needed, static_cast<int>(share));
}

/// Whether rows of y begin between two multiples of a grain, in all that the
/// problem says: a pointer of the greatest alignment hardly ever does.
bool isShifted(const TransposeProblem &p, const TransposeSignature &signature) {
  constexpr int64_t kMostAlign = 16;
  return p.align < kMostAlign ||
         ShiftedTransposeConfig::isShifted(signature, 0, p.ldy);
}

int64_t blocksOf(const ShiftedTransposeConfig &config,
                 const TransposeSignature &signature, const TransposeProblem &p,
                 bool isShifted) {
  return config.tileRowCount(signature, p.rows, isShifted) *
         config.tileColumnCount(p.cols);
}

} // namespace

//===----------------------------------------------------------------------===//
// Space
//===----------------------------------------------------------------------===//

namespace {
/// A tile as bytes of a row of x and of a row of y, and how many an SM has.
struct ShiftedTile {
  int xBytes, yBytes, threads, blocksPerSm;
};
} // namespace

/// Best guesses first. H100, bf16 and fp32: three of these on an SM are 2 %
/// faster than as many as fit.
static constexpr ShiftedTile kShiftedTiles[] = {
    {256, 256, 256, 3}, {512, 256, 256, 3}, {512, 128, 256, 3},
    {256, 128, 256, 4}, {256, 256, 256, 0}, {256, 128, 256, 0},
    {256, 256, 512, 2}, {128, 256, 256, 4}, {128, 128, 128, 0},
    {128, 64, 64, 0}};

void ShiftedTranspose::enumerate(const Problem &problem, const DeviceModel &,
                                 llvm::function_ref<void(Record)> emit) const {
  TransposeProblem p = readTransposeProblem(problem.record.values().data());
  TransposeSignature signature = readTransposeSignature(problem.signature);
  // Down the longer side, so that what neighbours share is still in L2.
  constexpr int kAll = ShiftedTransposeConfig::kAllRows;
  int raster = p.rows > 8 * p.cols ? 1 : kAll;
  constexpr int kVaried = 4;
  int number = 0;
  for (const ShiftedTile &tile : kShiftedTiles) {
    ShiftedTransposeConfig config;
    config.tileCols = tile.xBytes / signature.elementBytes;
    config.tileRows = tile.yBytes / signature.elementBytes;
    config.blockThreads = tile.threads;
    config.blocksPerSm = tile.blocksPerSm;
    if (!config.isValid(signature))
      continue;
    config.rasterGroup = raster;
    emit(toRecord(config, schema));
    if (number++ >= kVaried)
      continue;
    config.rasterGroup = raster == 1 ? kAll : 1;
    emit(toRecord(config, schema));
  }
}

/// The limits of ShiftedTransposeConfig::isValid() by name.
static std::optional<Rejection>
checkShape(const ShiftedTransposeConfig &config,
           const TransposeSignature &signature) {
  auto reject = [](double value, llvm::StringRef unit,
                   llvm::StringRef allowed) {
    return Rejection{PruneReason::InstructionShape, value, 0, unit, allowed};
  };
  auto isPower = [](int value, int least, int most) {
    return llvm::isPowerOf2_32(static_cast<uint32_t>(value)) &&
           value >= least && value <= most;
  };
  constexpr llvm::StringLiteral kSides = "32, 64, 128, 256 or 512";
  if (!isPower(config.tileRows, 32, 512))
    return reject(config.tileRows, "rows a tile", kSides);
  if (!isPower(config.tileCols, 32, 512))
    return reject(config.tileCols, "columns a tile", kSides);
  if (!isPower(config.blockThreads, 32, 1024))
    return reject(config.blockThreads, "threads a block",
                  "a power of two from 32 to 1024");
  // Threads store whole rows of y, of all kinds within the tile's columns.
  int perRow = config.chunksPerRow(signature);
  auto threads = static_cast<double>(config.blockThreads);
  if (config.blockThreads < perRow)
    return Rejection{PruneReason::InstructionShape, double(perRow), threads,
                     "threads a row of y"};
  if (config.rowStep(signature) > config.tileCols)
    return Rejection{PruneReason::InstructionShape,
                     double(config.rowStep(signature)), double(config.tileCols),
                     "rows of y at a time"};
  return std::nullopt;
}

std::optional<Rejection>
ShiftedTranspose::checkConfig(const Problem &problem, const Record &record,
                              const DeviceModel &device) const {
  auto config = fromRecord<ShiftedTransposeConfig>(record);
  TransposeProblem p = readTransposeProblem(problem.record.values().data());
  TransposeSignature signature = readTransposeSignature(problem.signature);
  if (auto rejection = checkThreads(config.threads(), device))
    return rejection;
  if (auto rejection = checkShape(config, signature))
    return rejection;
  assert(config.isValid(signature) && "each limit of isValid has its words");
  if (auto rejection = checkSharedBytes(config.sharedBytes(signature), device))
    return rejection;
  return checkGrid(blocksOf(config, signature, p, /*isShifted=*/true));
}

//===----------------------------------------------------------------------===//
// Estimate
//===----------------------------------------------------------------------===//

StreamKernel ShiftedTranspose::streamKernel(const Problem &problem,
                                            const Record &record,
                                            const DeviceModel &device) const {
  auto config = fromRecord<ShiftedTransposeConfig>(record);
  TransposeProblem p = readTransposeProblem(problem.record.values().data());
  TransposeSignature signature = readTransposeSignature(problem.signature);
  StreamKernel kernel;
  bool shifted = isShifted(p, signature);
  kernel.tasks = blocksOf(config, signature, p, shifted);
  kernel.block = {config.threads(), config.registers(signature),
                  askedBytes(config, signature, device)};
  kernel.readBytes = p.bytes();
  kernel.writeBytes = p.bytes();
  // H100, 8192 x 8192 bf16: 96.6 us where tiled takes 95.1.
  constexpr double kLost = 0.015;
  kernel.lostShare = kLost +
                     lostToPieces(config.tileRows * signature.elementBytes) +
                     lostToPieces(config.tileCols * signature.elementBytes);
  // Rows of the tile before, and vectors at both ends that neighbours read too.
  double rows = shifted ? config.sharedRows(signature) : config.tileRows;
  double moved =
      config.tileRows * double(config.tileCols) * signature.elementBytes;
  double loaded = rows * config.rowVectors(signature) * 16;
  kernel.sharedBytesPerTask = std::max(0.0, loaded - moved);
  // Instructions of a vector on its way in, and of a chunk on its way out: a
  // load and its part of packing for each element.
  constexpr double kPerVector = 30, kPerChunk = 12;
  double vector = config.vector(signature);
  double chunks = moved / 16;
  kernel.simdOps =
      (loaded / 16 * kPerVector + chunks * (kPerChunk + 1.75 * vector)) *
      double(kernel.tasks);
  // Into shared memory as it comes, and out of it by elements: of a bank's
  // four bytes each lane takes one.
  constexpr double kBarrierClocks = 60;
  double clocks = (loaded + moved * std::max(1, 4 / signature.elementBytes)) /
                      device.sharedBytesPerClockPerSm +
                  kBarrierClocks;
  kernel.serialNs = clocks * 1e3 / double(device.smClockMHz);
  return kernel;
}

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

Plan ShiftedTranspose::plan(const Problem &problem, const Record &record,
                            const DeviceModel &device) const {
  auto config = fromRecord<ShiftedTransposeConfig>(record);
  TransposeSignature signature = readTransposeSignature(problem.signature);
  // So that better aligned problems share the kernel.
  signature.align = signature.elementBytes;
  Plan plan;
  plan.problem = problem.record;
  plan.config = record;
  plan.kernels.push_back(
      makeKernelUnit({.header = "transpose/ShiftedTranspose.cuh",
                      .signatureType = "TransposeSignature",
                      .configType = "ShiftedTransposeConfig",
                      .paramsType = "TransposeParams",
                      .function = "shiftedTranspose"},
                     instanceOf("kiln_transpose2d_shifted", signature, config,
                                /*maySpill=*/true),
                     device));
  int sharedBytes = askedBytes(config, signature, device);
  plan.sharedBytes.push_back(static_cast<uint32_t>(sharedBytes));
  plan.takesDependentLaunch = device.ccMajor >= 9;
  plan.binder = std::make_shared<ShiftedBinder>(config, signature, sharedBytes);
  return plan;
}

std::unique_ptr<Template> makeShiftedTransposeTemplate() {
  return std::make_unique<ShiftedTranspose>();
}

} // namespace kiln
