//===- TiledTranspose.cpp - the tiled template ----------------------------===//
//
// The one template of the family. Every config moves the same bytes; they
// differ in how long the pieces are that DRAM sees, in how many bytes are on
// the way, and in the order of the tiles.
//
//===----------------------------------------------------------------------===//
#include "Families/Transpose/TiledTranspose.h"

#include "Families/KernelUnit.h"
#include "Families/LaunchLimits.h"
#include "Families/Stream/StreamTemplate.h"
#include "Families/Transpose/TransposeFamily.h"
#include "Kernel/ConfigSchema.h"

#include <llvm/Support/MathExtras.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>

namespace kiln {

TransposeParams makeTransposeParams(const TransposeProblem &problem,
                                    const Arguments &arguments) {
  const OperandArgument &x = arguments.operands[TransposeOperand::X];
  const OperandArgument &y = arguments.operands[TransposeOperand::Y];
  TransposeParams params;
  params.x = reinterpret_cast<const void *>(x.address);
  params.y = reinterpret_cast<void *>(y.address);
  params.rows = problem.rows;
  params.cols = problem.cols;
  params.ldx = x.leadingDimension;
  params.ldy = y.leadingDimension;
  return params;
}

namespace {

/// Binds one config of one problem.
class TransposeBinder final : public Binder {
public:
  TransposeBinder(const TiledTransposeConfig &config, int sharedBytes)
      : config(config), sharedBytes(sharedBytes) {}

  void bind(const Arguments &arguments, const LaunchContext &,
            LaunchSpec &spec) const noexcept override {
    TransposeProblem problem = readTransposeProblem(arguments.problem);
    TransposeParams params = makeTransposeParams(problem, arguments);
    params.rasterGroup = static_cast<int>(std::min<int64_t>(
        config.rasterGroup, config.tileRowCount(problem.rows)));
    KernelStep &step = spec.addKernel(params);
    step.grid.x =
        static_cast<uint32_t>(config.blocks(problem.rows, problem.cols));
    step.block.x = static_cast<uint32_t>(config.threads());
    step.sharedBytes = static_cast<uint32_t>(sharedBytes);
  }

private:
  TiledTransposeConfig config;
  int sharedBytes;
};

/// A tile in vectors of rows and of columns, so that one table serves elements
/// and vectors of every width.
struct Tile {
  int rows, cols;
};

/// Best guesses first: pieces of 256 bytes on both sides, then such that trade
/// the length of one side for the other's or for more blocks.
constexpr Tile kTiles[] = {{16, 16}, {8, 16},  {16, 8}, {8, 8},
                           {32, 16}, {16, 32}, {32, 8}, {8, 32},
                           {32, 32}, {4, 16},  {16, 4}};
/// Threads that share a tile's sub-blocks, as sub-blocks a thread.
constexpr int kSubBlocksPerThread[] = {1, 2, 4};
/// Of the best tiles every hint and raster is tried, with the most threads.
constexpr int kVariedTiles = 3;
constexpr int kRasterGroups[] = {1, 16, TiledTransposeConfig::kAllRows};

class TiledTranspose final : public StreamTemplate {
public:
  TiledTranspose()
      : schema(makeConfigSchema<TiledTransposeConfig>(
            TiledTransposeConfig::kName)) {}

  llvm::StringRef name() const override { return TiledTransposeConfig::kName; }
  const RecordSchema &configSchema() const override { return schema; }

  void enumerate(const Problem &problem, const DeviceModel &device,
                 llvm::function_ref<void(Record)> emit) const override;

  /// Tiles are the ideas; threads, hints and rasters vary them.
  CandidateClass classOf(const Problem &, const Record &record) const override {
    TiledTransposeConfig c = fromRecord<TiledTransposeConfig>(record);
    uint64_t key = 0;
    for (int part : {c.tileRows, c.tileCols, c.vector})
      key = key * 1024 + static_cast<uint64_t>(part);
    return {key, 0};
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
  static TranslationUnit unit(const TiledTransposeConfig &config,
                              TransposeSignature signature,
                              const DeviceModel &device);

  void emitTiles(int vector, int tiles, const TransposeSignature &signature,
                 llvm::function_ref<void(Record)> emit) const;
  void emitVariations(const TiledTransposeConfig &config,
                      llvm::function_ref<void(Record)> emit) const;

  RecordSchema schema;
};

} // namespace

//===----------------------------------------------------------------------===//
// Space
//===----------------------------------------------------------------------===//

/// Emits the first \p tiles tiles for one vector; of many the best are varied.
void TiledTranspose::emitTiles(int vector, int tiles,
                               const TransposeSignature &signature,
                               llvm::function_ref<void(Record)> emit) const {
  // A vector of one element makes tiles as wide as those of four.
  int scale = std::max(vector, 4);
  for (int i = 0; i < tiles; ++i) {
    bool isFirst = true;
    for (int share : kSubBlocksPerThread) {
      TiledTransposeConfig config;
      config.vector = vector;
      config.tileRows = kTiles[i].rows * scale;
      config.tileCols = kTiles[i].cols * scale;
      int threads = config.subBlocks() / share;
      if (vector == 1)
        threads /= scale * scale;
      constexpr int kMinThreads = 64, kMaxThreads = 512;
      if (threads < kMinThreads || threads > kMaxThreads)
        continue;
      config.blockThreads = threads;
      if (!config.isValid(signature))
        continue;
      emit(toRecord(config, schema));
      if (isFirst && i < kVariedTiles && tiles > kVariedTiles)
        emitVariations(config, emit);
      isFirst = false;
    }
  }
}

/// Emits every other hint and raster of \p config.
void TiledTranspose::emitVariations(
    const TiledTransposeConfig &config,
    llvm::function_ref<void(Record)> emit) const {
  constexpr int kHints[] = {0, TiledTransposeConfig::kStreamingStores,
                            TiledTransposeConfig::kStreamingStores |
                                TiledTransposeConfig::kStreamingLoads};
  for (int raster : kRasterGroups)
    for (int hint : kHints) {
      TiledTransposeConfig varied = config;
      varied.rasterGroup = raster;
      varied.hint = hint;
      if (varied != config)
        emit(toRecord(varied, schema));
    }
}

void TiledTranspose::enumerate(const Problem &problem, const DeviceModel &,
                               llvm::function_ref<void(Record)> emit) const {
  TransposeSignature signature = readTransposeSignature(problem.signature);
  int widest = signature.align / signature.elementBytes;
  if (widest * signature.elementBytes < 4)
    widest = 1; // narrower than a register
  emitTiles(widest, std::size(kTiles), signature, emit);
  // Half as wide, a sub-block takes a quarter of the registers.
  constexpr int kFewTiles = 3;
  if (widest > 2 && widest * signature.elementBytes >= 8)
    emitTiles(widest / 2, kFewTiles, signature, emit);
  // What every alignment allows.
  if (widest > 1)
    emitTiles(1, 1, signature, emit);
}

/// The limits of TiledTransposeConfig::isValid() that no launch has, by name.
static std::optional<Rejection>
checkShape(const TiledTransposeConfig &config,
           const TransposeSignature &signature) {
  auto reject = [](double value, llvm::StringRef unit,
                   llvm::StringRef allowed) {
    return Rejection{PruneReason::InstructionShape, value, 0, unit, allowed};
  };
  auto isPower = [](int value, int least, int most) {
    return llvm::isPowerOf2_32(static_cast<uint32_t>(value)) &&
           value >= least && value <= most;
  };
  constexpr llvm::StringLiteral kSides = "32, 64, 128 or 256";
  if (!isPower(config.tileRows, 32, 256))
    return reject(config.tileRows, "rows a tile", kSides);
  if (!isPower(config.tileCols, 32, 256))
    return reject(config.tileCols, "columns a tile", kSides);
  if (!isPower(config.vector, 1, 16))
    return reject(config.vector, "elements a vector", "1, 2, 4, 8 or 16");
  if (config.vector > 1 && config.vectorBytes(signature) < 4)
    return reject(config.vectorBytes(signature), "bytes a vector",
                  "one element, or 4, 8 or 16");
  if (!isPower(config.blockThreads, 32, 1024))
    return reject(config.blockThreads, "threads a block",
                  "a power of two from 32 to 1024");
  if (config.blockThreads > config.subBlocks())
    return Rejection{PruneReason::InstructionShape, double(config.blockThreads),
                     double(config.subBlocks()), "threads a tile"};
  if (config.hint > 3)
    return reject(config.hint, "as the hint", "0 to 3");
  return std::nullopt;
}

std::optional<Rejection>
TiledTranspose::checkConfig(const Problem &problem, const Record &record,
                            const DeviceModel &device) const {
  TiledTransposeConfig config = fromRecord<TiledTransposeConfig>(record);
  TransposeProblem p = readTransposeProblem(problem.record.values().data());
  TransposeSignature signature = readTransposeSignature(problem.signature);
  if (auto rejection = checkThreads(config.threads(), device))
    return rejection;
  if (config.vectorBytes(signature) > signature.align)
    return Rejection{PruneReason::Alignment,
                     double(config.vectorBytes(signature)),
                     double(signature.align), "B"};
  if (auto rejection = checkShape(config, signature))
    return rejection;
  assert(config.isValid(signature) && "each limit of isValid has its words");
  if (auto rejection = checkSharedBytes(config.sharedBytes(signature), device))
    return rejection;
  return checkGrid(config.blocks(p.rows, p.cols));
}

//===----------------------------------------------------------------------===//
// Estimate
//===----------------------------------------------------------------------===//

double lostToPieces(int pieceBytes) {
  constexpr double kLostBytes = 6, kEnough = 256;
  return std::max(0.0, kLostBytes / pieceBytes - kLostBytes / kEnough);
}

/// Share of DRAM's bandwidth that is lost to short pieces, to threads that load
/// again after they stored to shared memory, and where tiles share sectors of
/// y, which L2 has to merge. H100, 8192 x 8192 bf16: 95.1 us, and 97.5 in two
/// rounds; 5000 x 5000: 41.1 us, and 40.2 where pieces keep to sectors.
static double lostShare(const TiledTransposeConfig &config,
                        const TransposeSignature &signature,
                        const TransposeProblem &p, int64_t rounds) {
  constexpr double kRoundLoss = 0.02, kSharedLoss = 0.02;
  constexpr int64_t kSector = 32;
  double lost = kRoundLoss * std::log2(static_cast<double>(rounds));
  for (int extent : {config.tileRows, config.tileCols})
    lost += lostToPieces(extent * signature.elementBytes);
  return lost + (p.ldy * signature.elementBytes % kSector ? kSharedLoss : 0);
}

StreamKernel TiledTranspose::streamKernel(const Problem &problem,
                                          const Record &record,
                                          const DeviceModel &device) const {
  TiledTransposeConfig config = fromRecord<TiledTransposeConfig>(record);
  TransposeProblem p = readTransposeProblem(problem.record.values().data());
  TransposeSignature signature = readTransposeSignature(problem.signature);
  StreamKernel kernel;
  kernel.tasks = config.blocks(p.rows, p.cols);
  kernel.block = {config.threads(), config.registers(signature),
                  config.sharedBytes(signature)};
  kernel.readBytes = p.bytes();
  kernel.writeBytes = p.bytes();
  int atOnce = config.subBlocksAtOnce(signature);
  kernel.loadRounds = config.subBlocksPerThread() / atOnce;
  // Instructions of a sub-block: both sides' accesses and addresses, and a
  // permute for each register of each halving.
  double halvings = signature.elementBytes == 4 || config.vector == 1 ? 0
                    : signature.elementBytes == 2                     ? 1
                                                                      : 2;
  // Accesses of a register or less take the time of more: H100, bf16 4096 x
  // 50257 by single elements 535 us, fp32 2048 x 50257 330 us.
  constexpr double kPerVector = 10, kPerSubBlock = 12, kPerNarrow = 45;
  double perVector =
      config.vectorBytes(signature) <= 4 ? kPerNarrow : kPerVector;
  double perSubBlock = config.vector * perVector + kPerSubBlock +
                       halvings * config.subBlockWords(signature);
  kernel.simdOps = perSubBlock * config.subBlocks() * double(kernel.tasks);
  kernel.lostShare = lostShare(config, signature, p, kernel.loadRounds);
  // Into shared memory and out of it, and a barrier between.
  constexpr double kBarrierClocks = 60;
  double clocks = 2.0 * double(config.sharedBytes(signature)) /
                      device.sharedBytesPerClockPerSm +
                  kBarrierClocks;
  kernel.serialNs = clocks * 1e3 / double(device.smClockMHz);
  return kernel;
}

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

TranslationUnit TiledTranspose::unit(const TiledTransposeConfig &config,
                                     TransposeSignature signature,
                                     const DeviceModel &device) {
  // No more than the kernel needs, so that better aligned problems share it.
  signature.align = config.vectorBytes(signature);
  return makeKernelUnit({.header = "transpose/TiledTranspose.cuh",
                         .signatureType = "TransposeSignature",
                         .configType = "TiledTransposeConfig",
                         .paramsType = "TransposeParams",
                         .function = "tiledTranspose"},
                        instanceOf("kiln_transpose2d_tiled", signature, config,
                                   /*maySpill=*/true),
                        device);
}

Plan TiledTranspose::plan(const Problem &problem, const Record &record,
                          const DeviceModel &device) const {
  TiledTransposeConfig config = fromRecord<TiledTransposeConfig>(record);
  TransposeSignature signature = readTransposeSignature(problem.signature);
  int sharedBytes = config.sharedBytes(signature);
  Plan plan;
  plan.problem = problem.record;
  plan.config = record;
  plan.kernels.push_back(unit(config, signature, device));
  plan.sharedBytes.push_back(static_cast<uint32_t>(sharedBytes));
  plan.takesDependentLaunch = device.ccMajor >= 9;
  plan.binder = std::make_shared<TransposeBinder>(config, sharedBytes);
  return plan;
}

std::unique_ptr<Template> makeTiledTransposeTemplate() {
  return std::make_unique<TiledTranspose>();
}

} // namespace kiln
