//===- ShiftedTranspose.cpp - the shifted template ------------------------===//
//
// For rows that begin anywhere. Configs differ in the length of the pieces that
// DRAM sees, in the blocks of an SM, and in the order of the tiles. In 31 of 49
// drawn problems its best config is at least 3 % faster than the other
// templates', up to 3.9 times (H200, benchmarks/sweeps/h200/memory_bound).
//
//===----------------------------------------------------------------------===//
#include "Families/Transpose/TransposeFamily.h"
#include "Families/Transpose/TransposeTemplate.h"
#include "transpose/ShiftedTransposeConfig.h"

namespace kiln {

namespace {

class ShiftedTranspose final
    : public TransposeTemplate<ShiftedTranspose, ShiftedTransposeConfig> {
public:
  template <Number N>
  void addCosts(MemoryPass<N> &kernel, const ShiftedTransposeConfig &config,
                const TransposeProblem &p, const TransposeSignature &signature,
                const DeviceModel &device) const;

  ShiftedTranspose()
      : TransposeTemplate({"transpose/ShiftedTranspose.cuh",
                           "TransposeSignature", "ShiftedTransposeConfig",
                           "TransposeParams", "shiftedTranspose"}) {}

  /// A class is a tile; threads, hints and rasters vary within it.
  CandidateClass classOfConfig(const ShiftedTransposeConfig &c) const override {
    return {static_cast<uint64_t>(c.tileRows) * 1024 +
                static_cast<uint64_t>(c.tileCols),
            0};
  }

  bool isGeneric() const override { return true; }

protected:
  void forEachConfig(const TransposeProblem &problem,
                     const TransposeSignature &signature,
                     Emit<ShiftedTransposeConfig> emit) const override;
  std::optional<Rejection>
  checkShape(const ShiftedTransposeConfig &config,
             const TransposeProblem &problem,
             const TransposeSignature &signature) const override;
  int askedBytes(const ShiftedTransposeConfig &config,
                 const TransposeProblem &problem,
                 const TransposeSignature &signature,
                 const DeviceModel &device) const override;
};

} // namespace

/// The shared memory that a block needs, or so much that only
/// config.blocksPerSm blocks fit an SM.
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
/// A tile as bytes of a row of x and of a row of y, and its blocks on an SM.
struct ShiftedTile {
  int xBytes, yBytes, threads, blocksPerSm;
};
} // namespace

/// Best guesses first. H100, bf16 and fp32: three of these blocks on an SM are
/// 2 % faster than as many as fit. The last two tiles are for few columns.
static constexpr ShiftedTile kShiftedTiles[] = {
    {256, 256, 256, 3}, {512, 256, 256, 3}, {512, 128, 256, 3},
    {256, 128, 256, 4}, {256, 256, 256, 0}, {256, 128, 256, 0},
    {256, 256, 512, 2}, {128, 256, 256, 4}, {128, 128, 128, 0},
    {128, 64, 64, 0},   {64, 256, 256, 0},  {64, 128, 128, 0}};

void ShiftedTranspose::forEachConfig(const TransposeProblem &p,
                                     const TransposeSignature &signature,
                                     Emit<ShiftedTransposeConfig> emit) const {
  // Tiles go down x's columns, so that sectors of y that neighbours share are
  // still in L2. H200, fp32 24242 x 1664: 85.1 us, along its rows 89.9 us; 94 x
  // 210432: 47 and 77 us.
  constexpr int kAll = ShiftedTransposeConfig::kAllRows;
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
    config.rasterGroup = kAll;
    emit(config);
    if (number++ >= kVaried)
      continue;
    config.rasterGroup = 1;
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

/// Instructions of lanes in a block: for its threads at the start and between
/// loads and stores, for \p loaded vectors as they are loaded, and for
/// \p stored vectors as they are stored. Counted in the kernel's SASS for
/// sm_90.
static double instructionsOf(const ShiftedTransposeConfig &config,
                             const TransposeSignature &signature, double loaded,
                             double stored) {
  constexpr double kPerThread = 200, kPerCopy = 8, kPerSquares = 35,
                   kPerVector = 17;
  const bool areNarrow = ShiftedTransposeConfig::squareSide(signature) > 1;
  return config.threads() * kPerThread +
         loaded * (kPerCopy + (areNarrow ? kPerSquares : 0)) +
         stored * kPerVector;
}

/// Bytes that a tile moves through shared memory at the rate of all banks: once
/// in, twice or three times for its squares, and out by five words for four.
/// Words of four-byte elements conflict in banks two or three times if each row
/// of y is misaligned in its own way.
static double sharedBytesOf(const TransposeProblem &p,
                            const TransposeSignature &signature, double loaded,
                            double moved) {
  constexpr double kWords = 1.25, kRandom = 2.5;
  constexpr int64_t kWordBytes = 4;
  const bool areAlike =
      p.ldy * signature.elementBytes % ShiftedTransposeConfig::kGrain == 0;
  if (ShiftedTransposeConfig::squareSide(signature) == 1)
    return loaded + moved * (areAlike ? 1 : kRandom);
  const double squares =
      p.ldx * signature.elementBytes % kWordBytes == 0 ? 2 : 3;
  return loaded * (1 + squares) + moved * kWords;
}

/// Instructions for the elements at the ends of rows of y, which are stored
/// singly: each takes the port of an SM once, as long as 128 lanes'
/// instructions. H100, int8 9 x 73144: 6.7 us; bf16 9 x 169536: 7.4 us.
static double endsOf(const TransposeProblem &p,
                     const TransposeSignature &signature, bool isShifted) {
  constexpr double kPerElement = 80;
  const int vector = ShiftedTransposeConfig::vector(signature);
  if (!isShifted && p.rows % vector == 0)
    return 0;
  return kPerElement * double(p.cols) *
         double(std::min<int64_t>(vector - 1, p.rows));
}

template <Number N>
void ShiftedTranspose::addCosts(MemoryPass<N> &kernel,
                                const ShiftedTransposeConfig &config,
                                const TransposeProblem &p,
                                const TransposeSignature &signature,
                                const DeviceModel &device) const {
  // H100, 8192 x 8192 bf16: 96.6 us, against 95.1 us by `tiled`.
  constexpr double kLost = 0.015;
  kernel.lostShare = fitted<N>(kLost, "lost by shifted rows") +
                     lostToTiles<N>(kernel, config, p);
  // Rows before the tile, and vectors at both ends that neighbours read, too.
  constexpr int64_t kMostAlign = 16;
  bool shifted = p.align < kMostAlign ||
                 ShiftedTransposeConfig::isShifted(signature, 0, p.ldy);
  double rows = shifted ? config.sharedRows(signature) : config.tileRows;
  double moved =
      config.tileRows * double(config.tileCols) * signature.elementBytes;
  double loaded = rows * config.rowCopies(signature) * 16;
  kernel.sharedBytesPerTask = std::max(0.0, loaded - moved);
  kernel.loads = {.vectors = loaded / 16 / config.threads(),
                  .elements = 16 / signature.elementBytes,
                  .elementBytes = signature.elementBytes};
  const double instructions =
      instructionsOf(config, signature, loaded / 16, moved / 16) +
      endsOf(p, signature, shifted) / double(kernel.tasks);
  kernel.simdOps = instructions * double(kernel.tasks);
  kernel.serialNs = betweenNs<N>(
      kernel, sharedBytesOf(p, signature, loaded, moved), instructions, device);
}

std::unique_ptr<Template> makeShiftedTransposeTemplate() {
  return std::make_unique<ShiftedTranspose>();
}

} // namespace kiln
