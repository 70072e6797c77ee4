//===- TiledTranspose.cpp - the tiled template ----------------------------===//
//
// For rows that are whole aligned vectors. Every config moves the same bytes;
// configs differ in the length of the pieces that DRAM sees, in the bytes in
// flight, and in the order of the tiles.
//
//===----------------------------------------------------------------------===//
#include "Families/Transpose/TransposeFamily.h"
#include "Families/Transpose/TransposeTemplate.h"
#include "transpose/TiledTransposeConfig.h"

#include <cmath>
#include <iterator>

namespace kiln {

namespace {

/// A tile in vectors of rows and of columns, so that one table serves elements
/// and vectors of every width.
struct Tile {
  int rows, cols;
};

/// Best guesses first: pieces of 256 bytes on both sides, then tiles that trade
/// the length of one side for the other's or for more blocks.
constexpr Tile kTiles[] = {{16, 16}, {8, 16},  {16, 8}, {8, 8},
                           {32, 16}, {16, 32}, {32, 8}, {8, 32},
                           {32, 32}, {4, 16},  {16, 4}};
/// Threads that share a tile's sub-blocks, as sub-blocks a thread.
constexpr int kSubBlocksPerThread[] = {1, 2, 4};
/// For the best tiles every hint and raster is tried, with the most threads.
constexpr int kVariedTiles = 3;
constexpr int kRasterGroups[] = {1, 16, TiledTransposeConfig::kAllRows};

class TiledTranspose final
    : public TransposeTemplate<TiledTranspose, TiledTransposeConfig> {
public:
  template <Number N>
  void addCosts(MemoryPass<N> &kernel, const TiledTransposeConfig &config,
                const TransposeProblem &p, const TransposeSignature &signature,
                const DeviceModel &device) const;

  TiledTranspose()
      : TransposeTemplate({"transpose/TiledTranspose.cuh", "TransposeSignature",
                           "TiledTransposeConfig", "TransposeParams",
                           "tiledTranspose"}) {}

  /// A class is a tile; threads, hints and rasters vary within it.
  CandidateClass classOfConfig(const TiledTransposeConfig &c) const override {
    return {classKey({c.tileRows, c.tileCols, c.vector}), 0};
  }

  bool isGeneric() const override { return true; }

protected:
  void forEachConfig(const TransposeProblem &problem,
                     const TransposeSignature &signature,
                     Emit<TiledTransposeConfig> emit) const override;
  std::optional<Rejection>
  checkShape(const TiledTransposeConfig &config,
             const TransposeProblem &problem,
             const TransposeSignature &signature) const override;
  int askedBytes(const TiledTransposeConfig &config, const TransposeProblem &,
                 const TransposeSignature &signature,
                 const DeviceModel &) const override {
    return config.sharedBytes(signature);
  }

private:
  static void emitTiles(int vector, int tiles,
                        const TransposeSignature &signature,
                        Emit<TiledTransposeConfig> emit);
  static void emitVariations(const TiledTransposeConfig &config,
                             Emit<TiledTransposeConfig> emit);
};

} // namespace

//===----------------------------------------------------------------------===//
// Space
//===----------------------------------------------------------------------===//

/// Emits the first \p tiles tiles for one vector; among many the best are
/// varied.
void TiledTranspose::emitTiles(int vector, int tiles,
                               const TransposeSignature &signature,
                               Emit<TiledTransposeConfig> emit) {
  // Tiles of single elements are as wide as those of vectors of four.
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
      emit(config);
      if (isFirst && i < kVariedTiles && tiles > kVariedTiles)
        emitVariations(config, emit);
      isFirst = false;
    }
  }
}

/// Emits every other hint and raster of \p config.
void TiledTranspose::emitVariations(const TiledTransposeConfig &config,
                                    Emit<TiledTransposeConfig> emit) {
  constexpr int kHints[] = {0, TiledTransposeConfig::kStreamingStores,
                            TiledTransposeConfig::kStreamingStores |
                                TiledTransposeConfig::kStreamingLoads};
  for (int raster : kRasterGroups)
    for (int hint : kHints) {
      TiledTransposeConfig varied = config;
      varied.rasterGroup = raster;
      varied.hint = hint;
      if (varied != config)
        emit(varied);
    }
}

void TiledTranspose::forEachConfig(const TransposeProblem &,
                                   const TransposeSignature &signature,
                                   Emit<TiledTransposeConfig> emit) const {
  int widest = signature.align / signature.elementBytes;
  if (widest * signature.elementBytes < 4)
    widest = 1; // narrower than a register
  emitTiles(widest, std::size(kTiles), signature, emit);
  // At half the width a sub-block takes a quarter of the registers.
  constexpr int kFewTiles = 3;
  if (widest > 2 && widest * signature.elementBytes >= 8)
    emitTiles(widest / 2, kFewTiles, signature, emit);
  // A vector of one element works at every alignment.
  if (widest > 1)
    emitTiles(1, 1, signature, emit);
}

std::optional<Rejection>
TiledTranspose::checkShape(const TiledTransposeConfig &config,
                           const TransposeProblem &,
                           const TransposeSignature &signature) const {
  const int bytes = config.vectorBytes(signature);
  if (bytes > signature.align)
    return Rejection{PruneReason::Alignment, double(bytes),
                     double(signature.align), "B"};
  if (auto rejection = checkSides(config, 256, "32, 64, 128 or 256"))
    return rejection;
  if (auto rejection = checkPower(config.vector, 1, 16, "elements a vector",
                                  "1, 2, 4, 8 or 16"))
    return rejection;
  if (config.vector > 1 && bytes < 4)
    return Rejection{PruneReason::InstructionShape, double(bytes), 0,
                     "bytes a vector", "one element, or 4, 8 or 16"};
  if (auto rejection = checkBlockThreads(config.blockThreads))
    return rejection;
  if (config.blockThreads > config.subBlocks())
    return Rejection{PruneReason::InstructionShape, double(config.blockThreads),
                     double(config.subBlocks()), "threads a tile"};
  if (config.hint > 3)
    return Rejection{PruneReason::InstructionShape, double(config.hint), 0,
                     "as the hint", "0 to 3"};
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Estimate
//===----------------------------------------------------------------------===//

/// The share of DRAM's bandwidth that is lost where tiles share sectors of y.
/// Neighbours in the raster write them at about the same time, and L2 merges
/// the writes. Tiles that are far apart write some sectors twice, after reading
/// the bytes around them. They do so for all sectors once the bytes moved
/// between the two tiles fill L2. H100, bf16 5000 x 5000: 40.2 us where pieces
/// keep to sectors; down x's columns 41.1 us by 128 rows, 42.1 and 46.9 us by
/// 64; along its rows 45.5, 50.7 and 52.3 us. fp32 along the rows, compared
/// with the copy baseline: 340 x 101416 153 to 95 us, 94 x 210432 104 to 57 us.
template <Number N>
static N lostToShared(const TiledTransposeConfig &config,
                      const TransposeSignature &signature,
                      const TransposeProblem &p, const DeviceModel &device) {
  constexpr int64_t kSector = 32;
  constexpr double kMerged = 0.3, kApart = 1, kEvicted = 2.5;
  if (p.ldy * signature.elementBytes % kSector == 0)
    return 0;
  const int64_t tileRows = (p.rows + config.tileRows - 1) / config.tileRows;
  N cost = fitted<N>(kMerged, "cost of merged sectors");
  if (config.rasterGroup < tileRows) {
    const N between = given<N>(2.0 * config.sharedBytes(signature) *
                                   double(config.tileColumnCount(p.cols)),
                               "moved in between", "B");
    cost = fitted<N>(kApart, "cost of sectors apart") +
           fitted<N>(kEvicted, "cost of evicted ones") *
               least({N(1),
                      between / deviceValue<N>(device, &DeviceModel::l2Bytes)});
  }
  // The share in the bytes of y.
  const N share =
      given<N>(std::min(1.0, double(tileRows * kSector) /
                                 double(p.rows * signature.elementBytes)),
               "share in the bytes of y");
  return named(share * cost / (N(1) + share * cost), "lost by shared sectors",
               "");
}

/// The share of DRAM's bandwidth that is lost to tiles, to threads that load
/// again after they stored to shared memory, to sub-blocks of two by two, and
/// to shared sectors. H100, 8192 x 8192 bf16: 95.1 us, and 97.5 us in two
/// rounds. By two and two, fp32 24242 x 1664, 974 x 21592 and bf16 30 x 21480
/// took 1.2 times as long as the other terms predict.
template <Number N>
static N lostShare(const PassWork &kernel, const TiledTransposeConfig &config,
                   const TransposeSignature &signature,
                   const TransposeProblem &p, const DeviceModel &device) {
  constexpr double kRoundLoss = 0.02, kPairLoss = 0.12;
  N lost = lostToTiles<N>(kernel, config, p);
  if (kernel.loadRounds > 1)
    lost += fitted<N>(kRoundLoss, "lost each doubling of rounds") *
            given<N>(std::log2(double(kernel.loadRounds)), "doublings");
  if (config.vector == 2)
    lost += fitted<N>(kPairLoss, "lost by pairs");
  lost = named(lost, "lost by tiles", "");
  const N shared = lostToShared<N>(config, signature, p, device);
  return valueOf(shared) == 0 ? lost : N(1) - (N(1) - lost) * (N(1) - shared);
}

template <Number N>
void TiledTranspose::addCosts(MemoryPass<N> &kernel,
                              const TiledTransposeConfig &config,
                              const TransposeProblem &p,
                              const TransposeSignature &signature,
                              const DeviceModel &device) const {
  int atOnce = config.subBlocksAtOnce(signature);
  kernel.loadRounds = config.subBlocksPerThread() / atOnce;
  // Instructions of a sub-block: the accesses and addresses of both sides, and
  // a permute for each register of each halving.
  double halvings = signature.elementBytes == 4 || config.vector == 1 ? 0
                    : signature.elementBytes == 2                     ? 1
                                                                      : 2;
  // Accesses of a register or less take more time than their instructions:
  // H200, by single elements, bf16 4096 x 50257 494 us, int8 4091 x 12496 115
  // us.
  constexpr double kPerVector = 10, kPerSubBlock = 12, kPerNarrow = 55;
  double perVector =
      config.vectorBytes(signature) <= 4 ? kPerNarrow : kPerVector;
  double perSubBlock = config.vector * perVector + kPerSubBlock +
                       halvings * config.subBlockWords(signature);
  kernel.simdOps = perSubBlock * config.subBlocks() * double(kernel.tasks);
  const int words = config.subBlockWords(signature);
  kernel.loads = {.vectors = double(atOnce * config.vector),
                  .elements = config.vector,
                  .elementBytes = signature.elementBytes,
                  .registers = atOnce * words};
  kernel.lostShare = lostShare<N>(kernel, config, signature, p, device);
  // Into shared memory and out of it, with a barrier between.
  kernel.serialNs =
      named(sharedMemoryClocks<N>(2.0 * config.sharedBytes(signature), device) /
                smClock<N>(device),
            "tile in shared memory", "ns");
  // H200, blocks of 512 threads instead of 128: bf16 30 x 21480 3.2 and 2.7 us,
  // fp32 78 x 6768 3.6 and 3.0 us.
  constexpr int kFewThreads = 256;
  constexpr double kPerThreadNs = 1.5;
  if (const int late = config.threads() - kFewThreads; late > 0)
    kernel.serialNs +=
        given<N>(late, "late threads") * fitted<N>(kPerThreadNs, "start", "ns");
}

std::unique_ptr<Template> makeTiledTransposeTemplate() {
  return std::make_unique<TiledTranspose>();
}

} // namespace kiln
