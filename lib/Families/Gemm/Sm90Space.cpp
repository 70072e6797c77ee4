//===- Sm90Space.cpp - derives the configs of a problem -------------------===//
//
// A tile has rows, of which there are few choices, and columns, any multiple
// of 8. Blocks run in waves, and the last wave takes as long as a full one. So
// of all widths with the same number of waves the least one is best: it
// multiplies least padding, its ring is deepest, and its tiles are spread over
// most SMs. The space has, for both orders of the sides and for each way to
// share out the work of a tile, the least width of each number of waves.
// (127 problems of bf16 on an H200, m from 33 to 8192: this keeps 0.999 of the
// best of all widths that were measured, 0.95 at least.)
//
// More waves have to gain something: a narrower tile that does not shorten the
// way of a block, waves * columns, loads more for as many products. It is left
// out (nothing was lost in 127 problems, and large ones have a third of the
// tiles). Within one wave evenly split columns stay: with less than all SMs the
// others have more of DRAM.
//
// Where tiles fill less than half of the SMs, blocks share the k of a tile, as
// many as fit.
//
// The ring's depth has one choice, the deepest. Rings of up to
// kShallow stages take what staging can give (up to 17 % at 200 x 10240 x
// 5120); deeper ones gained nothing by it. Clusters are for operands whose rows
// begin within a sector of L2 (of others of bf16 five won in 102 problems, all
// by less than 1 %), and for fp8 where addCluster() says.
//
// Scales of blocks have widths besides that are whole blocks of scales, however
// many waves they make.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/Sm90Space.h"

#include "Families/Gemm/Sm90Limits.h"
#include "Families/Gemm/Sm90Repack.h"
#include "Model/MathUtil.h"

#include <llvm/ADT/SmallVector.h>

#include <algorithm>
#include <limits>

namespace kiln {

namespace {

/// Rows of a tile, and how consumers share out its work.
struct Way {
  int rows, consumers, pingPong, columnShared;
};

/// Best guesses first: they win ties.
constexpr Way kWays[] = {
    {128, 2, 1, 0}, {128, 2, 0, 0}, {256, 2, 0, 0}, {192, 3, 0, 0},
    {64, 1, 0, 0},  {128, 1, 0, 0}, {64, 2, 1, 0},  {192, 2, 1, 0},
    {192, 2, 0, 1}, {320, 2, 0, 1},
};
/// Rings of so many stages or fewer are worth one more.
constexpr int kShallow = 5;

/// An order of tiles: how many walk together, along which side.
struct Raster {
  int group, alongN;
};
constexpr Raster kRasters[] = {{8, 0}, {16, 0}, {8, 1}};

/// A column side, and the tiles that it makes.
struct Width {
  int columns;
  int64_t across; ///< tiles along the column side
  int64_t tiles, waves;
};

/// Emits the useful configs of one problem.
class Enumeration {
public:
  Enumeration(const GemmProblem &problem, const GemmSignature &signature,
              const DeviceModel &device, Emit<Sm90GemmConfig> emit)
      : problem(problem), signature(signature), device(device), emit(emit) {}

  void addWay(const Way &way, bool swap);
  void addVariants(Sm90GemmConfig config);

private:
  using Widths = llvm::SmallVector<Width, 32>;

  Widths widthsOf(Sm90GemmConfig config) const;
  void addTile(Sm90GemmConfig config, const Width &width);
  void addCluster(Sm90GemmConfig config, const Width &width);
  void addOrders(Sm90GemmConfig config, const Width &width);
  void addSplits(Sm90GemmConfig config, const Width &width);
  void addSplit(Sm90GemmConfig config, int splits);
  void addSplitOrder(Sm90GemmConfig config);
  int64_t splitsOf(const Width &width) const;
  void deepen(Sm90GemmConfig &config, bool hasOneTile) const;
  int stagesThatFit(const Sm90GemmConfig &config) const;
  bool hasSmallSteps(const Sm90GemmConfig &config) const;
  bool hasWholeScales(const Sm90GemmConfig &config) const;

  const GemmProblem &problem;
  const GemmSignature &signature;
  const DeviceModel &device;
  Emit<Sm90GemmConfig> emit;
};

} // namespace

int sm90StagesThatFit(Sm90GemmConfig config, const GemmSignature &signature,
                      int least, const DeviceModel &device) {
  // A deeper ring holds more than memory has in flight.
  constexpr int kMost = 12, kBarrierBytes = 16;
  config.stages = 0;
  const int64_t rest = config.sharedBytes(signature);
  const int64_t perStage = config.stageBytes(signature) + kBarrierBytes;
  return static_cast<int>(std::clamp<int64_t>(
      (device.sharedBytesPerBlock - rest) / perStage, least, kMost));
}

std::array<int64_t, 2> sm90Splits(int64_t tiles, int64_t steps,
                                  const DeviceModel &device) {
  constexpr int64_t kLeastSteps = 4;
  const int64_t most =
      std::min({device.smCount / tiles, kMostSm90Splits, steps / kLeastSteps});
  return {most, most - std::max<int64_t>(1, most / 4)};
}

bool hasFewTilesAlongM(const GemmProblem &problem,
                       const Sm90GemmConfig &config) {
  constexpr int64_t kFew = 2;
  return config.tilesM(problem.m) <= kFew;
}

bool walksTilesFirst(const GemmProblem &problem, const Sm90GemmConfig &config) {
  constexpr int64_t kMany = 4;
  return std::min(config.tilesM(problem.m), config.tilesN(problem.n)) >= kMany;
}

static void setColumns(Sm90GemmConfig &config, int columns) {
  (config.swapAB ? config.blockM : config.blockN) = columns;
}

int Enumeration::stagesThatFit(const Sm90GemmConfig &config) const {
  constexpr int kLeast = 2;
  return sm90StagesThatFit(config, signature, kLeast, device);
}

/// Gives \p config the deepest ring that fits.
void Enumeration::deepen(Sm90GemmConfig &config, bool hasOneTile) const {
  hasOneTile &= !signature.hasGroups(); // their number is not known
  config.staging = 0;
  config.stages = stagesThatFit(config);
  if (config.stages > kShallow)
    return;
  Sm90GemmConfig deeper = config;
  deeper.staging = hasOneTile ? 2 : 1;
  deeper.stages = stagesThatFit(deeper);
  if (deeper.stages > config.stages && deeper.isValid(signature))
    config = deeper;
}

/// The widths that the column side may have, widest first, as far as the column
/// extent and registers go.
Enumeration::Widths Enumeration::widthsOf(Sm90GemmConfig config) const {
  int64_t rowExtent = config.swapAB ? problem.n : problem.m;
  int64_t columnExtent = config.swapAB ? problem.m : problem.n;
  int64_t along = ceilDiv(rowExtent, config.rows()) * problem.batch;
  int step = config.columnStep(signature);
  int most = 2 * mostAccumulators(signature, config) * config.rowSharers() *
             config.columnSharers() * Sm90GemmConfig::kUnit / config.rows();
  constexpr int kWidest = 256, kNarrow = 16;
  int widest = static_cast<int>(std::min<int64_t>(
      {roundUp(columnExtent, step), roundDown(most, step), kWidest}));
  int least = std::min(widest, kNarrow);
  Widths widths;
  for (int columns = roundDown(widest, step); columns >= least;
       columns -= step) {
    setColumns(config, columns);
    if (!config.isValid(signature))
      continue;
    int64_t across = ceilDiv(columnExtent, columns), tiles = along * across;
    widths.push_back({columns, across, tiles, ceilDiv(tiles, device.smCount)});
  }
  return widths;
}

void Enumeration::addWay(const Way &way, bool swap) {
  int64_t rowExtent = swap ? problem.n : problem.m;
  constexpr int kUnit = Sm90GemmConfig::kUnit;
  // A lower tile has less padding.
  if (way.rows > kUnit && way.rows >= rowExtent + kUnit)
    return;
  Sm90GemmConfig config;
  config.swapAB = swap;
  config.blockK = Sm90GemmConfig::slabElements(signature);
  (swap ? config.blockN : config.blockM) = way.rows;
  config.consumers = way.consumers;
  config.pingPong = way.pingPong;
  config.columnShared = way.columnShared;
  setColumns(config, config.columnStep(signature));
  Widths widths = widthsOf(config);
  int64_t shortest = std::numeric_limits<int64_t>::max();
  for (const Width &width : widths) {
    const Width *narrower = &width + 1;
    bool isLast = narrower == widths.end();
    // Turns need a second tile to take.
    if (config.pingPong && width.tiles <= device.smCount)
      break;
    bool isLeastOfWaves = isLast || narrower->waves > width.waves;
    constexpr int64_t kFew = 4;
    bool isEven = width.waves == 1 && width.across <= kFew &&
                  (isLast || narrower->across > width.across);
    int64_t length = width.waves * width.columns;
    setColumns(config, width.columns);
    if (((isLeastOfWaves || isEven) && length <= shortest) ||
        hasWholeScales(config))
      addTile(config, width);
    shortest = std::min(shortest, length);
    bool isLeastOfSplits = isLast || splitsOf(*narrower) < splitsOf(width);
    if (isLeastOfSplits)
      addSplits(config, width);
  }
}

/// Columns of whole blocks of scales cost half of others to add. (576 columns
/// by 7168, m = 4096, H100: 41 us by 128 of them, 52 by 72 or 144.)
bool Enumeration::hasWholeScales(const Sm90GemmConfig &config) const {
  return config.columnsHaveOneScale(signature) &&
         config.columnsOfOneScale() >= Sm90GemmConfig::kUnit;
}

/// Longer steps where loads are small: half as many barriers. (128 x 7168 x
/// 2048 of fp8 with block scales by tiles of 128 x 64 in clusters, of 24 KiB a
/// stage, H100: 10.9 us instead of 11.4.)
bool Enumeration::hasSmallSteps(const Sm90GemmConfig &config) const {
  constexpr int kSmall = 20 << 10, kSmallPromoted = 24 << 10;
  return config.stageBytes(signature) <=
         (signature.isPromoted() ? kSmallPromoted : kSmall);
}

void Enumeration::addTile(Sm90GemmConfig config, const Width &width) {
  bool hasOneTile = width.waves == 1 && !config.pingPong;
  deepen(config, hasOneTile);
  addOrders(config, width);
  addCluster(config, width);
  if (!hasSmallSteps(config))
    return;
  config.blockK *= 2;
  deepen(config, hasOneTile);
  addOrders(config, width);
  if (signature.isPromoted())
    addCluster(config, width);
}

/// The blocks of a cluster share the larger tile of the two.
///
/// L2 then delivers half as many bytes of operands whose rows begin within a
/// sector (1000 x 1000 x 1000 of bf16, H100: 10.2 us instead of 12.2; with
/// whole lines 8.4 instead of 7.9). Blocks with few rows load more bytes of A
/// than of weights (128 x 7168 x 2048 of fp8 with block scales, H100: 10.9 us
/// instead of 11.7). The largest tiles of fp8 whose sums are promoted lose time
/// to L2 (8192^3, H100: 742 us instead of 759; with block scales clusters
/// lose).
void Enumeration::addCluster(Sm90GemmConfig config, const Width &width) {
  constexpr int64_t kSector = 32;
  constexpr int kLarge = 128 * 256;
  bool isLargerA = config.blockM > config.blockN;
  int64_t pitch = isLargerA ? pitchOfA(problem, signature, config)
                            : pitchOfB(problem, signature, config);
  int64_t tiles =
      isLargerA ? config.tilesN(problem.n) : config.tilesM(problem.m);
  const bool isSplitBySectors = pitch % kSector != 0;
  const bool rereadsRows = signature.hasBlockScales() && isLargerA &&
                           !signature.hasGroups() &&
                           hasFewTilesAlongM(problem, config);
  const bool isLarge = signature.isPromoted() && !signature.hasBlockScales() &&
                       !signature.hasGroups() &&
                       config.blockM * config.blockN == kLarge &&
                       width.waves > 1;
  if (tiles < 2 || !(isSplitBySectors || rereadsRows || isLarge))
    return;
  (isLargerA ? config.clusterN : config.clusterM) = 2;
  deepen(config, /*hasOneTile=*/false);
  if (config.isValid(signature))
    addOrders(config, width);
}

void Enumeration::addOrders(Sm90GemmConfig config, const Width &width) {
  int64_t tilesM = config.tilesM(problem.m), tilesN = config.tilesN(problem.n);
  for (const Raster &raster : kRasters) {
    bool isFirst = &raster == kRasters;
    // Tiles of all rows are to walk together where a group has them all. One
    // order of what runs at once is as good as another.
    int64_t along = raster.alongN ? tilesN : tilesM;
    if (!isFirst && (width.waves == 1 || tilesM <= kRasters->group ||
                     along <= raster.group / 2))
      continue;
    // A wide group's rows of tf32 may be more than L2 holds (4096^3, H100: 384
    // us with 64 MiB of them, 329 with 32).
    int64_t side = raster.alongN ? config.blockN : config.blockM;
    int64_t strip = raster.group * side * problem.k * bytesOf(signature.in);
    if (!isFirst && signature.in == DType::FP32 && strip > device.l2Bytes)
      continue;
    config.rasterGroup = raster.group;
    config.rasterAlongN = raster.alongN;
    config.hints = 0;
    emit(config);
    if (isFirst && hasFewTilesAlongM(problem, config)) {
      config.hints = 1;
      emit(config);
    }
  }
}

int64_t Enumeration::splitsOf(const Width &width) const {
  return std::min(device.smCount / width.tiles, kMostSm90Splits);
}

void Enumeration::addSplits(Sm90GemmConfig config, const Width &width) {
  if (config.pingPong || config.columnShared || signature.hasGroups() ||
      signature.hasZeroPointsA())
    return;
  if (hasSmallSteps(config))
    config.blockK *= 2;
  const int64_t steps = ceilDiv(problem.k, config.blockK);
  for (int64_t splits : sm90Splits(width.tiles, steps, device))
    // Half of the SMs at least; a tile or two have no more blocks than these.
    if (splits > 1 && (2 * width.tiles * splits > device.smCount ||
                       splits == kMostSm90Splits))
      addSplit(config, static_cast<int>(splits));
}

void Enumeration::addSplit(Sm90GemmConfig config, int splits) {
  config.splits = splits;
  int step = config.columnStep(signature);
  setColumns(config, static_cast<int>(roundUp(config.columns(), step)));
  config.stages = stagesThatFit(config); // splits stage smaller pieces
  if (!config.isValid(signature) ||
      config.accumulators() > mostAccumulators(signature, config))
    return;
  addSplitOrder(config);
}

void Enumeration::addSplitOrder(Sm90GemmConfig config) {
  config.hints = hasFewTilesAlongM(problem, config);
  config.tilesFirst = walksTilesFirst(problem, config);
  emit(config);
}

void Enumeration::addVariants(Sm90GemmConfig config) {
  config.rasterGroup = kRasters->group;
  config.rasterAlongN = kRasters->alongN;
  config.tilesFirst = 0;
  if (config.splits > 1)
    return addSplitOrder(config);
  const int64_t along =
      ceilDiv(config.swapAB ? problem.n : problem.m, config.rows()) *
      problem.batch;
  const int64_t across =
      ceilDiv(config.swapAB ? problem.m : problem.n, config.columns());
  addOrders(config, {config.columns(), across, along * across,
                     ceilDiv(along * across, device.smCount)});
}

void forEachSm90Variant(const GemmProblem &problem,
                        const GemmSignature &signature,
                        const DeviceModel &device, const Sm90GemmConfig &config,
                        Emit<Sm90GemmConfig> emit) {
  Enumeration(problem, signature, device, emit).addVariants(config);
}

void forEachSm90Config(const GemmProblem &problem,
                       const GemmSignature &signature,
                       const DeviceModel &device, Emit<Sm90GemmConfig> emit) {
  Enumeration enumeration(problem, signature, device, emit);
  for (bool swap : {false, true})
    if (!swap || signature.columnsPerOutput() == 1)
      for (const Way &way : kWays)
        enumeration.addWay(way, swap);
}

} // namespace kiln
