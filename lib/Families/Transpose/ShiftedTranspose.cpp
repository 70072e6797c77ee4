//===- ShiftedTranspose.cpp - the shifted template ------------------------===//
//
// For rows that begin anywhere. Configs differ in how long the pieces are that
// DRAM sees, in how many blocks an SM has, and in the order of the tiles.
//
//===----------------------------------------------------------------------===//
#include "Families/Transpose/TransposeFamily.h"
#include "Families/Transpose/TransposeTemplate.h"
#include "transpose/ShiftedTransposeConfig.h"

namespace kiln {

namespace {

class ShiftedTranspose final
    : public TransposeTemplate<ShiftedTransposeConfig> {
public:
  ShiftedTranspose()
      : TransposeTemplate({.header = "transpose/ShiftedTranspose.cuh",
                           .signatureType = "TransposeSignature",
                           .configType = "ShiftedTransposeConfig",
                           .paramsType = "TransposeParams",
                           .function = "shiftedTranspose"}) {}

  /// Tiles are the ideas; threads, hints and rasters vary them.
  CandidateClass classOf(const Problem &, const Record &record) const override {
    auto c = fromRecord<ShiftedTransposeConfig>(record);
    return {static_cast<uint64_t>(c.tileRows) * 1024 +
                static_cast<uint64_t>(c.tileCols),
            0};
  }

  bool isGeneric() const override { return true; }

protected:
  void forEachConfig(const TransposeProblem &problem,
                     const TransposeSignature &signature,
                     Emit emit) const override;
  std::optional<Rejection>
  checkShape(const ShiftedTransposeConfig &config,
             const TransposeProblem &problem,
             const TransposeSignature &signature) const override;
  int askedBytes(const ShiftedTransposeConfig &config,
                 const TransposeProblem &problem,
                 const TransposeSignature &signature,
                 const DeviceModel &device) const override;
  void addCosts(StreamKernel &kernel, const ShiftedTransposeConfig &config,
                const TransposeProblem &problem,
                const TransposeSignature &signature,
                const DeviceModel &device) const override;
};

} // namespace

/// What a block needs, or so much that only config.blocksPerSm of them fit an
/// SM.
int ShiftedTranspose::askedBytes(const ShiftedTransposeConfig &config,
                                 const TransposeProblem &,
                                 const TransposeSignature &signature,
                                 const DeviceModel &device) const {
  int needed = config.sharedBytes(signature);
  if (config.blocksPerSm == 0)
    return needed;
  int64_t share = device.sharedBytesPerSm / config.blocksPerSm -
                  device.sharedBytesReservedPerBlock;
  share = std::min(share, device.sharedBytesPerBlock) / 16 * 16;
  return std::max(needed, static_cast<int>(share));
}

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
/// faster than as many as fit. The last two are for few columns.
static constexpr ShiftedTile kShiftedTiles[] = {
    {256, 256, 256, 3}, {512, 256, 256, 3}, {512, 128, 256, 3},
    {256, 128, 256, 4}, {256, 256, 256, 0}, {256, 128, 256, 0},
    {256, 256, 512, 2}, {128, 256, 256, 4}, {128, 128, 128, 0},
    {128, 64, 64, 0},   {64, 256, 256, 0},  {64, 128, 128, 0}};

void ShiftedTranspose::forEachConfig(const TransposeProblem &p,
                                     const TransposeSignature &signature,
                                     Emit emit) const {
  // Down the longer side, so that what neighbours share is still in L2.
  constexpr int kAll = ShiftedTransposeConfig::kAllRows;
  int raster = p.rows > 8 * p.cols ? 1 : kAll;
  constexpr int kVaried = 4;
  int number = 0;
  constexpr int64_t kFewBytes = 512, kNarrow = 64;
  const bool areFew = p.cols * signature.elementBytes <= kFewBytes;
  for (const ShiftedTile &tile : kShiftedTiles) {
    if (tile.xBytes <= kNarrow && !areFew)
      continue;
    ShiftedTransposeConfig config;
    config.tileCols = tile.xBytes / signature.elementBytes;
    config.tileRows = tile.yBytes / signature.elementBytes;
    config.blockThreads = tile.threads;
    config.blocksPerSm = tile.blocksPerSm;
    if (!config.isValid(signature))
      continue;
    config.rasterGroup = raster;
    emit(config);
    if (number++ >= kVaried)
      continue;
    config.rasterGroup = raster == 1 ? kAll : 1;
    emit(config);
  }
}

std::optional<Rejection>
ShiftedTranspose::checkShape(const ShiftedTransposeConfig &config,
                             const TransposeProblem &,
                             const TransposeSignature &signature) const {
  if (auto rejection = checkSides(config, 512, "32, 64, 128, 256 or 512"))
    return rejection;
  if (auto rejection = checkBlockThreads(config.blockThreads))
    return rejection;
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

//===----------------------------------------------------------------------===//
// Estimate
//===----------------------------------------------------------------------===//

/// Lanes of a warp that meet in a bank on average: where rows of y are
/// misaligned each in its own way, two or three.
static double passesOf(const TransposeProblem &p,
                       const TransposeSignature &signature) {
  constexpr double kRandom = 2.5;
  bool areAlike =
      p.ldy * signature.elementBytes % ShiftedTransposeConfig::kGrain == 0;
  return areAlike ? 1 : kRandom;
}

/// Instructions of lanes in a block for its vectors on their way in, and for
/// those of y on their way out: a load and its part of packing for each
/// element. An SM's port to shared memory takes one access for four of
/// arithmetic.
static double instructionsOf(const TransposeProblem &p,
                             const TransposeSignature &signature, double loaded,
                             double stored) {
  constexpr double kPerVector = 30, kPerChunk = 12, kPerElement = 1.75,
                   kPerPass = 4;
  const double passes = passesOf(p, signature);
  const double vector = ShiftedTransposeConfig::vector(signature);
  return loaded * kPerVector +
         stored * (kPerChunk + vector * (kPerElement + kPerPass * passes));
}

/// Those for the elements at the ends of rows of y, which are stored singly:
/// each takes the port of an SM once, for 128 lanes' instructions. H100, int8 9
/// x 73144: 6.7 us; bf16 9 x 169536: 7.4 us.
static double endsOf(const TransposeProblem &p,
                     const TransposeSignature &signature, bool isShifted) {
  constexpr double kPerElement = 128;
  const int vector = ShiftedTransposeConfig::vector(signature);
  if (!isShifted && p.rows % vector == 0)
    return 0;
  return kPerElement * double(p.cols) *
         double(std::min<int64_t>(vector - 1, p.rows));
}

void ShiftedTranspose::addCosts(StreamKernel &kernel,
                                const ShiftedTransposeConfig &config,
                                const TransposeProblem &p,
                                const TransposeSignature &signature,
                                const DeviceModel &device) const {
  // H100, 8192 x 8192 bf16: 96.6 us where tiled takes 95.1.
  constexpr double kLost = 0.015;
  kernel.lostShare = kLost + lostToTiles(kernel, config, p);
  // Rows of the tile before, and vectors at both ends that neighbours read too.
  constexpr int64_t kMostAlign = 16;
  bool shifted = p.align < kMostAlign ||
                 ShiftedTransposeConfig::isShifted(signature, 0, p.ldy);
  double rows = shifted ? config.sharedRows(signature) : config.tileRows;
  double moved =
      config.tileRows * double(config.tileCols) * signature.elementBytes;
  double loaded = rows * config.rowCopies(signature) * 16;
  kernel.sharedBytesPerTask = std::max(0.0, loaded - moved);
  kernel.simdOps = instructionsOf(p, signature, loaded / 16, moved / 16) *
                       double(kernel.tasks) +
                   endsOf(p, signature, shifted);
  kernel.serialNs = gatheringNs(kernel, loaded, moved, passesOf(p, signature),
                                signature, device);
}

std::unique_ptr<Template> makeShiftedTransposeTemplate() {
  return std::make_unique<ShiftedTranspose>();
}

} // namespace kiln
