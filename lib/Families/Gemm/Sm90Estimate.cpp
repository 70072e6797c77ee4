//===- Sm90Estimate.cpp ---------------------------------------------------===//
//
// A block is two machines beside each other: a producer that is bound by memory
// and consumers that are bound by wgmma, with a ring between them that hides
// latency as far as it is deep. A step of k has five paces: wgmma, the port of
// the SM, L2 and DRAM for all blocks that are busy, and the ring. They run side
// by side, but none is reached while another is close, so the step is their
// norm. Blocks that run in step ask for the same k at once; that is why DRAM
// paces the step and is no mere floor. They begin together, and as long as they
// keep step many of their requests are answered as one. By and by they do not,
// and L2 delivers what it is asked for at its own rate. The producer does not
// pause between tiles. So besides its k steps a tile costs the epilogue, which
// with pingPong the other consumer's products hide.
//
// Two floors hold for the chip as a whole: the bytes of DRAM, and power. A
// board that all tensor cores keep busy lowers its clock until they fit its
// limit; where tiles leave SMs idle, or memory leaves tensor cores idle, the
// clock of the others stays higher.
//
// Constants without a source are fitted to two thirds of some 20,000 times of
// 290 problems (bf16, NT, m from 1 to 8192, cold L2, H200). In a norm each pace
// is a little less than it would be alone. Figures in clocks are of an SM.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/Sm90Estimate.h"

#include "Families/Gemm/DecodeRates.h"
#include "Families/Gemm/GatherStep.h"
#include "Families/Gemm/Sm90Model.h"
#include "Families/Gemm/Sm90Repack.h"
#include "Model/Bandwidth.h"
#include "Model/MathUtil.h"
#include "Model/Wgmma.h"

#include <algorithm>
#include <cmath>

namespace kiln {

/// Where L2 is behind, requests queue, and blocks lose this many times what its
/// rate alone costs them. (Fitted to the sweeps of bf16 and e4m3 on an H200.)
static constexpr double kSm90Queue = 1.5;

int64_t residentGroups(const Sm90GemmConfig &config,
                       const DeviceModel &device) {
  int64_t clusters = device.maxClusters(config.multicastBlocks());
  return std::max<int64_t>(1, clusters / config.splitK());
}

/// The time of L2 for rows of 128 bytes that begin at multiples of \p pitch, in
/// times of whole lines: they lie in two lines each, and in five sectors where
/// they begin within one. (1000 x 1000 x 1000 of bf16 on an
/// H100, tiles of 64 x 128: 7.9 us with rows of 2048 bytes, 9.4 with 2016 and
/// 12.2 with 2000.)
static double linesOf(int64_t pitch) {
  constexpr double kTwoLines = 1.5, kFiveSectors = 2.7;
  constexpr int64_t kLine = 128, kSector = 32;
  return pitch % kLine == 0     ? 1
         : pitch % kSector == 0 ? kTwoLines
                                : kFiveSectors;
}

template <Number N>
Sm90Model<N>::Sm90Model(const GemmProblem &problem,
                        const GemmSignature &signature,
                        const Sm90GemmConfig &config, const DeviceModel &device)
    : problem(problem), signature(signature), config(config), device(device) {
  groups = std::llround(
      tilesAlongM(problem, int64_t(config.blockM) * config.clusterM) *
      double(ceilDiv(config.tilesN(problem.n), config.clusterN)) *
      double(problem.batch));
  resident = residentGroups(config, device);
  tilesPerBlock = ceilDiv(groups, resident);
  kSteps = ceilDiv(ceilDiv(problem.k, config.blockK), config.splitK());
  // Boxes along k are clipped to an extent that is smaller than the tile.
  auto rows = [](int block, int64_t extent, bool isKMajor) {
    return double(isKMajor ? std::min<int64_t>(block, extent) : block);
  };
  double rowBytes = double(bytesOf(signature.in)) * config.blockK;
  bytesA =
      rowBytes * rows(config.blockM, problem.m, config.readsKMajorA(signature));
  bytesB =
      rowBytes * rows(config.blockN, problem.n, config.readsKMajorB(signature));
  if (signature.isPacked())
    bytesB = double(std::min<int64_t>(config.blockN, problem.n)) /
             config.blockN * config.packedStageBytes(signature);
  linesA = linesOf(pitchOfA(problem, signature, config));
  linesB = linesOf(pitchOfB(problem, signature, config));
  computeTraffic();
  constexpr double kHeld = 0.848; // in launches of 5 us to 2 ms
  constexpr double kBoost = 1.08; // in launches of up to 2 ms
  clock = named(fitted<N>(kHeld, "held share") *
                    deviceValue<N>(device, &DeviceModel::smClockMHz) / N(1000),
                "clock", "GHz");
  powerClock =
      named(fitted<N>(kBoost, "short launches") *
                deviceValue<N>(device, &DeviceModel::sustainedTensorClockMHz) /
                N(1000),
            "clock that power leaves", "GHz");
  // Blocks begin together; by and by some are ahead. (As good from 100 to 220.)
  constexpr double kTogether = 150;
  apartShare =
      std::max(0.0, 1 - kTogether / (double(tilesPerBlock) * double(kSteps)));
  computeStep();
  if (fullWaves() > 0)
    full = last = stepOf(blocksOf(resident));
  if (lastGroups() > 0)
    last = stepOf(blocksOf(lastGroups()));
  if (fullWaves() == 0)
    full = last;
  computeEpilogue();
  computeEnds();
  reduction = reductionNs();
  computePath();
}

template <Number N> void Sm90Model<N>::computeTraffic() {
  TrafficInput input;
  input.m = problem.m;
  input.n = problem.n;
  input.k = problem.k;
  input.batch = problem.batch;
  input.bitsA = bitsOf(problem.dtype);
  input.bitsB = bitsOf(problem.typeB);
  input.bitsD = bitsOf(problem.out);
  input.blockM = config.blockM;
  input.blockN = config.blockN;
  input.splitK = config.splitK();
  input.groupTiles = config.rasterGroup;
  input.groupAlongN = config.rasterAlongN;
  input.slots = std::max<int64_t>(blocksOf(std::min(groups, resident)), 1);
  input.clusterM = config.clusterM;
  input.clusterN = config.clusterN;
  bytes = traffic(device, input);
  dramBytes = kiln::dramReadBytes<N>(bytes);
  // Scales and zero points, as often as their weights.
  if (signature.isPacked())
    dramBytes = named(
        dramBytes + given<N>(double(problem.batch) * double(problem.n) *
                                 double(problem.k) *
                                 (double(config.packedStageBytes(signature)) /
                                      (double(config.blockN) * config.blockK) -
                                  bitsOf(problem.typeB) / 8.0),
                             "scales", "B"),
        "bytes from DRAM with scales", "B");
  missShare = kiln::missShare<N>(bytes, dramBytes);
}

/// Bytes that one of \p blocks asks of L2 in a step, weighted to cost the same:
/// a line that all SMs ask for at once is twice as dear as one that only one
/// wants.
template <Number N> N Sm90Model<N>::askedBytes(int64_t blocks) const {
  int64_t tilesM = config.tilesM(problem.m), tilesN = config.tilesN(problem.n);
  double tiles = double(std::max<int64_t>(blocks / config.splitK(), 1));
  // Groups of tiles walk together along the other side.
  double group = double(std::min<int64_t>(
      config.rasterGroup, config.rasterAlongN ? tilesN : tilesM));
  double across = std::min(group, tiles), along = tiles / across;
  const N sms = deviceValue<N>(device, &DeviceModel::smCount);
  auto asked = [&](double lines, double bytes, int cluster, double sharers,
                   llvm::StringLiteral name, llvm::StringLiteral by) {
    return given<N>(lines * bytes / cluster, name, "B") *
           (N(1) + given<N>(sharers, by) / sms);
  };
  return named(asked(linesA, bytesA, config.clusterN,
                     config.rasterAlongN ? across : along, "A of a block",
                     "sharers of A") +
                   asked(linesB, bytesB, config.clusterM,
                         config.rasterAlongN ? along : across, "B of a block",
                         "sharers of B"),
               "asked of L2 by a block", "B");
}

/// Bytes that one block asks of L2 in a step once blocks are out of step.
/// Requests for one line are answered together where SMs are close to each
/// other: requests of neighbouring blocks, as if the two SMs of a TPC asked
/// once, and of blocks that share a tile, the more the closer they are, up to
/// kNear blocks.
template <Number N> N Sm90Model<N>::bytesApart() const {
  constexpr double kNear = 8, kPair = 0.5;
  // Blocks of a group follow each other and share the tile of one side.
  const bool alongN = config.rasterAlongN;
  const int64_t tiles =
      alongN ? config.tilesN(problem.n) : config.tilesM(problem.m);
  const int64_t group = std::min<int64_t>(config.rasterGroup, tiles);
  const int64_t between = config.tilesFirst ? 1 : config.groupBlocks();
  const N pair = group > 1 && between == 1 ? fitted<N>(kPair, "pairs") : N(1);
  const N distant = given<N>(std::min(1.0, double(group * between) / kNear),
                             "share that is far");
  const N ofA = given<N>(linesA * bytesA / config.clusterN, "A", "B");
  const N ofB = given<N>(linesB * bytesB / config.clusterM, "B", "B");
  return alongN ? pair * ofA + distant * ofB : distant * ofA + pair * ofB;
}

/// The time of L2 for \p blocks that are out of step.
template <Number N> N Sm90Model<N>::apartNs(int64_t blocks) const {
  // Single hits, a clock and SM: 10 TB/s on an H200.
  constexpr double kHitBytesPerClock = 38;
  return named(given<N>(double(blocks), "blocks") * bytesApart() /
                   (fitted<N>(kHitBytesPerClock, "single hits", "B/clk") *
                    deviceValue<N>(device, &DeviceModel::smCount) *
                    deviceValue<N>(device, &DeviceModel::smClockMHz) / N(1000)),
               "L2 out of step", "ns");
}

/// The time of three things beside each other in a stage. Consumers hide each
/// other's waits in part: they wait at the same time by chance.
static double stageNorm(double a, double b, double c) {
  // Exponent 3.5, by square roots: pow() takes long.
  constexpr double kInverse = 2 / 7.0;
  auto powered = [](double x) { return x * x * x * std::sqrt(x); };
  return std::pow(powered(a) + powered(b) + powered(c), kInverse);
}
static Figure stageNorm(const Figure &a, const Figure &b, const Figure &c) {
  constexpr double kStageExponent = 3.5;
  return norm(kStageExponent, {a, b, c});
}

/// Clocks that a warp takes to add a column's sums of a group. With block
/// scales, lanes hand round the scales of exchanged sides, and a part of the
/// columns may have two.
static double additionClocks(const Sm90GemmConfig &config,
                             const GemmSignature &signature) {
  constexpr double kPlain = 0.65, kScaled = 1.18, kTwoScales = 2.45,
                   kShared = 1.95;
  if (!signature.hasBlockScales())
    return kPlain;
  if (config.swapAB)
    return kShared;
  return config.columnsHaveOneScale(signature) ? kScaled : kTwoScales;
}

/// Clocks of a stage whose sums are promoted. Three things run side by side:
/// the tensor core for all consumers that read the stage; the additions, whose
/// warps share what issues them; and each consumer's own path, which waits for
/// a group before it begins the next, and for the stage. (Fitted to 75 of 96
/// spaces of the fp8 suite and a draw on an H200. In the others the first
/// choice reaches 0.959, the first five 0.995.)
template <Number N>
static N promotedClocks(const Sm90GemmConfig &config,
                        const GemmSignature &signature) {
  constexpr double kIssueShare = 2.05, kOneGroupClocks = 60;
  constexpr int kInterval = Sm90GemmConfig::kPromotedDepth;
  const bool isScaled = signature.hasBlockScales();
  // Scales are loaded for each stage.
  const double gap = isScaled ? 95 : 31, stage = isScaled ? 338 : 60;
  const int width = config.promotedColumns(signature);
  const double count = double(config.units()) *
                       config.promotedParts(signature) * config.blockK /
                       kInterval;
  const N groups = given<N>(count, "groups");
  const N products =
      named(given<N>(wgmmaCount(kWgmmaRows, kInterval * bytesOf(signature.in)),
                     "wgmmas") *
                given<N>(wgmmaClocks(width), "clocks of each", "clk"),
            "products of a group", "clk");
  const N additions = named(
      fitted<N>(additionClocks(config, signature), "clocks a column", "clk") *
          given<N>(width, "columns"),
      "additions of a group", "clk");
  const N own = named(
      groups * (largest({products, additions}) + fitted<N>(gap, "gap", "clk")) +
          fitted<N>(stage + (count == 1 ? kOneGroupClocks : 0), "a stage",
                    "clk"),
      "own path of a consumer", "clk");
  const N all = groups * given<N>(config.readers(), "consumers");
  return stageNorm(all * products, own,
                   fitted<N>(kIssueShare, "issue") * all * additions);
}

/// Clocks of a stage of packed weights. Beside the tensor core run the
/// instructions that decode, scale sums and issue products, which all consumers
/// share, and each consumer's own path, which waits for the products of a group
/// before it begins those of the next. (Fitted to 26 of the 42 spaces of packed
/// weights on an H200. In the others the first choice reaches 0.976, the first
/// five 0.992.)
template <Number N>
static N packedClocks(const Sm90GemmConfig &config,
                      const GemmSignature &signature) {
  constexpr double kStepClocks = 2, kRunClocks = 16, kGapClocks = 30,
                   kColumnClocks = 1.25;
  constexpr int kStepK = 16, kWide = 64;
  const int columns = config.columns();
  const N units = given<N>(double(config.rows()) / kWgmmaRows, "units of rows");
  const N steps = given<N>(double(config.blockK) / kStepK, "steps of k16");
  const N groups = given<N>(config.packedGroups(signature), "groups");
  const N product = given<N>(wgmmaClocks(columns), "wgmma", "clk");
  const N decoded =
      named(given<N>(decodeClocks(signature), "instructions", "clk") +
                fitted<N>(kStepClocks, "issue", "clk"),
            "decoding of a step", "clk");
  // A multiplication for each of a thread's sums, with waits. The
  // multiplications of wide tiles delay their own consumer alone, which waits
  // for them, too.
  const N scaled = named(fitted<N>(kColumnClocks, "clocks a column", "clk") *
                                 given<N>(columns, "columns") +
                             fitted<N>(kRunClocks, "run", "clk"),
                         "scaling of sums", "clk");
  N gap = fitted<N>(kGapClocks, "gap", "clk");
  if (columns > kWide)
    gap = gap + scaled;
  const N own = named(steps * largest({product, decoded}) + groups * gap,
                      "own path of a unit", "clk");
  // Consumers with turns have a stage each.
  const int atOnce = config.pingPong ? 2 : 1;
  return stageNorm(
      units * steps * product, units * (steps * decoded + groups * scaled),
      given<N>(double(config.units()) / atOnce, "units of a consumer") * own);
}

/// TMA writes, threads load the rows and wgmma reads the columns, together at
/// 128 bytes a clock. (4096^3 of tf32 on an H100: tiles of 128 x 256 took 380
/// us with and without, 128 x 128 in turns 465 and 380.)
template <Number N> N Sm90Model<N>::sharedNs(const N &products) const {
  if (!config.rowsFromRegisters(signature))
    return 0;
  constexpr double kShared = 0.95, kWgmmaBytes = 32;
  return named(
      fitted<N>(kShared, "beside the others") *
          (given<N>(bytesA + bytesB, "written", "B") +
           given<N>(config.columnSharers() *
                        double(config.rowTileBytes(signature)),
                    "rows read", "B") +
           products * given<N>(config.consumerColumns() * kWgmmaBytes,
                               "columns of each", "B")) /
          deviceValue<N>(device, &DeviceModel::sharedBytesPerClockPerSm) /
          clock,
      "shared memory's step", "ns");
}

/// The paces of a step that any number of blocks has.
template <Number N> void Sm90Model<N>::computeStep() {
  constexpr double kPort = 0.91; // in a norm with the others
  const N products = given<N>(
      config.columnSharers() *
          wgmmaCount(config.rows(), config.blockK * bytesOf(signature.in)),
      "wgmmas of a step");
  const N clocks =
      signature.isPacked() ? packedClocks<N>(config, signature)
      : signature.isPromoted()
          ? promotedClocks<N>(config, signature)
          : products * given<N>(wgmmaClocks(config.consumerColumns()),
                                "clocks of each", "clk");
  math = named(clocks / clock, "wgmma", "ns");
  port = named(fitted<N>(kPort, "beside the others") *
                   (given<N>(bytesA, "A", "B") + given<N>(bytesB, "B", "B")) /
                   (fitted<N>(kL2BytesPerClockPerSm, "port", "B/clk") *
                    deviceValue<N>(device, &DeviceModel::smClockMHz) / N(1000)),
               "port of the SM", "ns");
  shared = sharedNs(products);
}

template <Number N> Sm90Step<N> Sm90Model<N>::stepOf(int64_t blocks) const {
  // In a norm with the others; L2 by the rate of its hits.
  constexpr double kMisses = 1.05, kL2 = 2.6;
  const N busy = given<N>(double(blocks), "blocks");
  Sm90Step<N> step;
  step.l2 = named(busy * askedBytes(blocks) /
                      (fitted<N>(kL2, "hits that are answered together") *
                       deviceValue<N>(device, &DeviceModel::l2GBs)),
                  "L2", "ns");
  // Each of two blocks that share a tile asks for its half.
  const N asked = given<N>(bytesA / config.clusterN, "A", "B") +
                  given<N>(bytesB / config.clusterM, "B", "B");
  N dram = fitted<N>(kMisses, "beside the others") * busy * asked * missShare /
           deviceValue<N>(device, &DeviceModel::dramGBs);
  // Weights that leave L2 first do not push out each other (1 to 2 % where
  // there are few rows, nothing elsewhere).
  constexpr double kHinted = 0.98;
  if (config.hints && problem.m <= Sm90GemmConfig::kUnit)
    dram = dram * fitted<N>(kHinted, "hints");
  step.dram = named(dram, "DRAM", "ns");
  step.pace = named(largest({math, port, step.l2, step.dram, shared}),
                    "pace of a step", "ns");
  // From a copy's issue to its last byte while all SMs load.
  constexpr double kLoadNs = 378;
  step.ring = {busyDramLatencyNs<N>(device) +
                   fitted<N>(kTmaLatencyNs, "TMA", "ns"),
               fitted<N>(kLoadNs, "last byte of a stage", "ns"), step.pace,
               config.stages};
  step.turn = named(step.ring.turn(config.stages), "turn of a stage", "ns");
  step.together = named(rootNorm<kSm90Exponent>({math, port, step.l2, step.dram,
                                                 shared, step.turn}),
                        "step of k", "ns");
  step.apart = apartNs(blocks);
  step.total = step.together;
  if (apartShare > 0 && step.apart > step.together)
    step.total = named(step.together + given<N>(apartShare, "share of steps") *
                                           fitted<N>(kSm90Queue, "queues") *
                                           excess(step.apart, step.together),
                       "step with blocks out of step", "ns");
  return step;
}

template <Number N> void Sm90Model<N>::computeEpilogue() {
  // A piece takes a turn of its staging buffer and a store. 32 results a thread
  // of it add, for a matrix of the chain, the reads of shared memory, and for
  // an activation some 1.5 transcendentals each, one after the other where two
  // consumers finish at once (128 x 256 tiles on an H200). A bias costs
  // nothing. Splits share pieces out.
  constexpr double kPieceClocks = 463, kMatrixClocks = 220,
                   kActivationClocks = 350;
  const int width = config.pieceColumns(signature);
  const double pieces = double(
      ceilDiv(config.units() * config.unitPieces(width), config.splitK()));
  const double results =
      double(width) / (Sm90GemmConfig::kUnit * signature.columnsPerOutput());
  const double matrices =
      signature.readsC + signature.pointwise.contains(PointwiseOp::Residual);
  double activations = 0;
  for (PointwiseOp op :
       {PointwiseOp::GeluTanh, PointwiseOp::GeluErf, PointwiseOp::Silu,
        PointwiseOp::SwiGlu, PointwiseOp::SwiGluClamped})
    activations += signature.pointwise.contains(op);
  const int atOnce = config.pingPong ? 1 : config.consumers;
  // Rows that are shifted cost several times as much (1000 x 7777 x 2664 on an
  // H200: 83 us instead of 60). Activations are as fast as of others.
  constexpr double kShifting = 7;
  const bool shifts = !config.storesByTma(signature);
  N piece = fitted<N>(kPieceClocks, "staging and store", "clk");
  if (matrices > 0)
    piece = piece + given<N>(results * matrices, "results of matrices") *
                        fitted<N>(kMatrixClocks, "reads", "clk");
  if (shifts)
    piece = fitted<N>(kShifting, "shifted rows") * piece;
  if (activations > 0)
    piece = piece +
            given<N>(results * activations * atOnce, "results of activations") *
                fitted<N>(kActivationClocks, "activation", "clk");
  epilogue = named(given<N>(pieces, "pieces") * piece / clock,
                   "epilogue of a tile", "ns");
  const double active = double(blocksOf(std::min(groups, resident)));
  const N written =
      given<N>(active, "blocks") *
      given<N>(double(config.blockM) * config.blockN * bytesOf(problem.out) /
                   (config.splitK() * signature.columnsPerOutput()),
               "of a tile", "B") /
      deviceValue<N>(device, &DeviceModel::dramWriteGBs);
  const N products = given<N>(double(kSteps), "steps") * main().together;
  // With pingPong the other consumer multiplies meanwhile. Shifted rows keep
  // the load and store units of both from other work.
  constexpr double kShiftExposed = 0.7;
  exposedEpilogue = epilogue;
  if (config.pingPong)
    exposedEpilogue = largest(
        {epilogue - products,
         shifts ? fitted<N>(kShiftExposed, "shifted rows") * epilogue : N(0)});
  exposedEpilogue = named(largest({exposedEpilogue, written - products}),
                          "between tiles", "ns");
}

template <Number N> void Sm90Model<N>::computeEnds() {
  // The last stores have to arrive.
  constexpr double kDrainNs = 285;
  drain = named(fitted<N>(kDrainNs, "arrival", "ns") + epilogue,
                "last tile and arrival", "ns");
  // The first stage has nothing to hide behind; a cluster's blocks wait for
  // each other once before, and the slower of them sets the pace (grids of one
  // wave took 0.1 to 0.6 us longer with clusters on an H200).
  constexpr double kClusterNs = 300;
  N first = deviceValue<N>(device, &DeviceModel::dramLatencyNs) +
            fitted<N>(kTmaLatencyNs, "TMA", "ns") + port;
  if (config.multicastBlocks() > 1)
    first = first + fitted<N>(kClusterNs, "clusters meet", "ns");
  fill = named(first, "fill", "ns");
  const int steps = repackSteps(signature, config);
  repack =
      steps == 0
          ? N(0)
          : named(copyStepsNs<N>(
                      steps, double(repackBytes(problem, signature, config)),
                      device),
                  "repack of operands", "ns");
  gather = gatherNs<N>(problem, device);
}

template <Number N> N Sm90Model<N>::reductionNs() const {
  if (config.splitK() == 1)
    return 0;
  // A split's sums go to L2, except for the pieces that it owns: it reads the
  // others' sums of these and leaves zeros. Rounds of both, and waiting
  // for the slowest of the splits, leave so many bytes a clock.
  constexpr double kExchangedPerClock = 13.1;
  int width = config.pieceColumns(signature);
  double published = 4.0 * config.blockM * config.blockN *
                     (config.splitK() - 1) / config.splitK();
  int64_t owned =
      ceilDiv(config.consumers * config.units() * config.unitPieces(width),
              config.splitK());
  double cleared = double(owned) * 4.0 * Sm90GemmConfig::kUnit * width *
                   (config.splitK() - 1);
  return named((given<N>(published, "published sums", "B") +
                given<N>(cleared, "sums read and cleared", "B")) /
                   (fitted<N>(kExchangedPerClock, "exchanged", "B/clk") *
                    deviceValue<N>(device, &DeviceModel::smClockMHz) / N(1000)),
               "reduction of a tile's splits", "ns");
}

template <Number N> void Sm90Model<N>::computePath() {
  const N steps = given<N>(double(kSteps), "steps a tile");
  N waves = 0;
  if (fullWaves() > 0)
    waves = given<N>(double(fullWaves()), "tiles") * full.total;
  if (lastGroups() > 0)
    waves = waves + last.total;
  loop = named(steps * waves, "loop", "ns");
  const N between =
      tilesPerBlock == 1
          ? N(0)
          : given<N>(double(tilesPerBlock - 1), "tiles") * exposedEpilogue;
  const N reductions =
      config.splitK() == 1
          ? N(0)
          : given<N>(double(tilesPerBlock), "tiles") * reduction;
  path = named(loop + between + reductions, "path of a block", "ns");
  // D once, and what the epilogue reads of its shape.
  const int read =
      signature.readsC + signature.pointwise.contains(PointwiseOp::Residual);
  const double matrix = double(problem.m) * double(problem.outCols()) *
                        double(problem.batch) * bytesOf(problem.out);
  const N reads =
      read == 0 ? dramBytes
                : dramBytes + given<N>(read * matrix, "read beside D", "B");
  bytesFloor = named(reads / deviceValue<N>(device, &DeviceModel::dramGBs) +
                         given<N>(matrix, "D", "B") /
                             deviceValue<N>(device, &DeviceModel::dramWriteGBs),
                     "floor of the bytes", "ns");
  const double products =
      double(groups) * config.multicastBlocks() * double(kSteps) *
      config.splitK() * config.columnSharers() *
      wgmmaCount(config.rows(), config.blockK * bytesOf(signature.in));
  const N busy =
      named(given<N>(products, "wgmmas") *
                given<N>(wgmmaBusyClocks(1, config.consumerColumns()),
                         "clocks of each", "clk") /
                deviceValue<N>(device, &DeviceModel::smCount),
            "busy clocks of an SM", "clk");
  powerFloor = named(busy / powerClock, "floor of the products", "ns");
  heldPath = named(rootNorm<kSm90Exponent>({path, powerFloor}),
                   "path at the clock that power leaves", "ns");
  beyond =
      named(largest({heldPath, bytesFloor}) - path, "beyond the path", "ns");
  total = deviceValue<N>(device, &DeviceModel::launchNs) +
          deviceValue<N>(device, &DeviceModel::rampNs) + repack + gather +
          fill + loop + between + reductions + drain + beyond;
}

template <Number N> llvm::StringRef Sm90Model<N>::bound() const {
  if (bytesFloor > heldPath)
    return "dram";
  if (powerFloor > path)
    return "tensor";
  if (isHeldApart())
    return "l2";
  const Sm90Step<N> &step = main();
  if (step.turn > step.pace)
    return "latency";
  if (step.pace == math)
    return "tensor";
  if (step.pace == shared)
    return "shared";
  return step.pace == step.dram ? "dram" : "l2";
}

template struct Sm90Model<double>;
template struct Sm90Model<Figure>;

Estimate estimateTile(const GemmProblem &problem, const Sm90Kernel &kernel,
                      const DeviceModel &device) {
  const Sm90Model<double> model(problem, kernel.signature, kernel.config,
                                device);
  return {model.total, model.bound()};
}

} // namespace kiln
