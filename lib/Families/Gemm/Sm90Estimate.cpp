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

int64_t residentGroups(const Sm90GemmConfig &config,
                       const DeviceModel &device) {
  int64_t clusters = device.maxClusters(config.multicastBlocks());
  return std::max<int64_t>(1, clusters / config.splitK());
}

/// x^8, and its root: pow() would take half of the time of an estimate.
static double eighth(double x) {
  static_assert(kSm90Exponent == 8);
  double x2 = x * x, x4 = x2 * x2;
  return x4 * x4;
}
static double eighthRoot(double x) {
  return std::sqrt(std::sqrt(std::sqrt(x)));
}

static double normOf(const Sm90Step &step) {
  return eighthRoot(eighth(step.math) + eighth(step.port) + eighth(step.l2) +
                    eighth(step.dram) + eighth(step.shared) +
                    eighth(step.ring));
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

Sm90Model::Sm90Model(const GemmProblem &problem, const GemmSignature &signature,
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
  // Blocks begin together; by and by some are ahead. (As good from 100 to 220.)
  constexpr double kTogether = 150;
  apartShare =
      std::max(0.0, 1 - kTogether / (double(tilesPerBlock) * double(kSteps)));
  if (fullWaves() > 0)
    full = last = stepOf(blocksOf(resident));
  if (lastGroups() > 0)
    last = stepOf(blocksOf(lastGroups()));
  if (fullWaves() == 0)
    full = last;
  computeEpilogue();
  computeEnds();
  computeReduction();
  computeFloors();
}

double Sm90Model::clockGHz() const {
  constexpr double kHeld = 0.848; // in launches of 5 us to 2 ms
  return 1e-3 * kHeld * device.smClockMHz;
}

double Sm90Model::powerGHz() const {
  constexpr double kBoost = 1.08; // in launches of up to 2 ms
  return 1e-3 * kBoost * device.sustainedTensorClockMHz;
}

void Sm90Model::computeTraffic() {
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
  // Scales and zero points, as often as their weights.
  if (signature.isPacked())
    bytes.dramReadBytes += double(problem.batch) * double(problem.n) *
                           double(problem.k) *
                           (double(config.packedStageBytes(signature)) /
                                (double(config.blockN) * config.blockK) -
                            bitsOf(problem.typeB) / 8.0);
}

/// Bytes that one of \p blocks asks of L2 in a step, weighted to cost the same:
/// a line that all SMs ask for at once is twice as dear as one that only one
/// wants.
double Sm90Model::askedBytes(int64_t blocks) const {
  int64_t tilesM = config.tilesM(problem.m), tilesN = config.tilesN(problem.n);
  double tiles = double(std::max<int64_t>(blocks / config.splitK(), 1));
  // Groups of tiles walk together along the other side.
  double group = double(std::min<int64_t>(
      config.rasterGroup, config.rasterAlongN ? tilesN : tilesM));
  double across = std::min(group, tiles), along = tiles / across;
  double sharersA = config.rasterAlongN ? across : along;
  double sharersB = config.rasterAlongN ? along : across;
  double sms = double(device.smCount);
  return linesA * bytesA / config.clusterN * (1 + sharersA / sms) +
         linesB * bytesB / config.clusterM * (1 + sharersB / sms);
}

/// Bytes that one block asks of L2 in a step once blocks are out of step.
/// Requests for one line are answered together where SMs are close to each
/// other: requests of neighbouring blocks, as if the two SMs of a TPC asked
/// once, and of blocks that share a tile, the more the closer they are, up to
/// kNear blocks.
double Sm90Model::bytesApart() const {
  constexpr double kNear = 8, kPair = 0.5;
  const double ofA = linesA * bytesA / config.clusterN;
  const double ofB = linesB * bytesB / config.clusterM;
  // Blocks of a group follow each other and share the tile of one side.
  const bool alongN = config.rasterAlongN;
  const int64_t tiles =
      alongN ? config.tilesN(problem.n) : config.tilesM(problem.m);
  const int64_t group = std::min<int64_t>(config.rasterGroup, tiles);
  const int64_t apart = config.tilesFirst ? 1 : config.groupBlocks();
  const double pair = group > 1 && apart == 1 ? kPair : 1;
  const double distant = std::min(1.0, double(group * apart) / kNear);
  return alongN ? pair * ofA + distant * ofB : distant * ofA + pair * ofB;
}

/// The time of three things beside each other in a stage. Consumers hide each
/// other's waits in part: they wait at the same time by chance.
static double normOf(double a, double b, double c) {
  // Exponent 3.5, by square roots: pow() takes long.
  constexpr double kInverse = 2 / 7.0;
  auto powered = [](double x) { return x * x * x * std::sqrt(x); };
  return std::pow(powered(a) + powered(b) + powered(c), kInverse);
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
static double promotedClocks(const Sm90GemmConfig &config,
                             const GemmSignature &signature) {
  constexpr double kIssueShare = 2.05, kOneGroupClocks = 60;
  constexpr int kInterval = Sm90GemmConfig::kPromotedDepth;
  const bool isScaled = signature.hasBlockScales();
  // Scales are loaded for each stage.
  const double gap = isScaled ? 95 : 31, stage = isScaled ? 338 : 60;
  const int width = config.promotedColumns(signature);
  const double groups = double(config.units()) *
                        config.promotedParts(signature) * config.blockK /
                        kInterval;
  const double products =
      wgmmaCount(kWgmmaRows, kInterval * bytesOf(signature.in)) *
      wgmmaClocks(width);
  const double additions = additionClocks(config, signature) * width;
  const double own = groups * (std::max(products, additions) + gap) + stage +
                     (groups == 1 ? kOneGroupClocks : 0);
  const double all = groups * config.readers();
  return normOf(all * products, own, kIssueShare * all * additions);
}

/// Clocks of a stage of packed weights. Beside the tensor core run the
/// instructions that decode, scale sums and issue products, which all consumers
/// share, and each consumer's own path, which waits for the products of a group
/// before it begins those of the next. (Fitted to 26 of the 42 spaces of packed
/// weights on an H200. In the others the first choice reaches 0.976, the first
/// five 0.992.)
static double packedClocks(const Sm90GemmConfig &config,
                           const GemmSignature &signature) {
  constexpr double kStepClocks = 2, kRunClocks = 16, kGapClocks = 30,
                   kColumnClocks = 1.25;
  constexpr int kStepK = 16, kWide = 64;
  const int columns = config.columns();
  const double units = double(config.rows()) / kWgmmaRows;
  const double steps = double(config.blockK) / kStepK;
  const double groups = config.packedGroups(signature);
  const double product = wgmmaClocks(columns);
  const double decoded = decodeClocks(signature) + kStepClocks;
  // A multiplication for each of a thread's sums, with waits. The
  // multiplications of wide tiles delay their own consumer alone, which waits
  // for them, too.
  const double scaled = kColumnClocks * columns + kRunClocks;
  const double own = steps * std::max(product, decoded) +
                     groups * (kGapClocks + (columns > kWide ? scaled : 0));
  // Consumers with turns have a stage each.
  const int atOnce = config.pingPong ? 2 : 1;
  return normOf(units * steps * product,
                units * (steps * decoded + groups * scaled),
                config.units() * own / atOnce);
}

Sm90Step Sm90Model::stepOf(int64_t blocks) const {
  // In a norm with the others; L2 by the rate of its hits.
  constexpr double kPort = 0.91, kMisses = 1.05, kL2 = 2.6;
  Sm90Step step;
  double ghz = clockGHz(), busy = double(blocks);
  double products =
      config.columnSharers() *
      wgmmaCount(config.rows(), config.blockK * bytesOf(signature.in));
  step.math = (signature.isPacked() ? packedClocks(config, signature)
               : signature.isPromoted()
                   ? promotedClocks(config, signature)
                   : products * wgmmaClocks(config.consumerColumns())) /
              ghz;
  step.port = kPort * (bytesA + bytesB) /
              (kL2BytesPerClockPerSm * 1e-3 * device.smClockMHz);
  step.l2 = busy * askedBytes(blocks) / (kL2 * device.l2BytesPerNs());
  // Single hits, a clock and SM: 10 TB/s on an H200.
  constexpr double kHitBytesPerClock = 38;
  step.apart =
      busy * bytesApart() /
      (kHitBytesPerClock * double(device.smCount) * 1e-3 * device.smClockMHz);
  step.shared = 0;
  if (config.rowsFromRegisters(signature)) {
    // TMA writes, threads load the rows and wgmma reads the columns, together
    // at 128 bytes a clock. (4096^3 of tf32 on an H100: tiles of 128 x 256 took
    // 380 us with and without, 128 x 128 in turns 465 and 380.)
    constexpr double kShared = 0.95, kBytesPerClock = 128, kWgmmaBytes = 32;
    double rowBytes = double(config.rowTileBytes(signature));
    double bytes = bytesA + bytesB + config.columnSharers() * rowBytes +
                   products * config.consumerColumns() * kWgmmaBytes;
    step.shared = kShared * bytes / kBytesPerClock / ghz;
  }
  // Each of two blocks that share a tile asks for its half.
  double asked = bytesA / config.clusterN + bytesB / config.clusterM;
  step.dram =
      kMisses * busy * asked * bytes.missShare() / device.dramBytesPerNs();
  // Weights that leave L2 first do not push out each other (1 to 2 % where
  // there are few rows, nothing elsewhere).
  constexpr double kHinted = 0.98;
  if (config.hints && problem.m <= Sm90GemmConfig::kUnit)
    step.dram *= kHinted;
  Pipeline ring = ringOf(step);
  step.ring = (ring.latencyNs + ring.mathNs) / double(ring.stages);
  step.total = normOf(step);
  return step;
}

Pipeline Sm90Model::ringOf(const Sm90Step &step) const {
  // From a copy's issue to its last byte while all SMs load.
  constexpr double kLoadNs = 378;
  return pipeline(busyDramLatencyNs(device) + kTmaLatencyNs + kLoadNs, 0,
                  step.pace(), config.stages);
}

void Sm90Model::computeEpilogue() {
  double ghz = clockGHz();
  // A piece takes a turn of its staging buffer and a store. 32 results a thread
  // of it add, for a matrix of the chain, the reads of shared memory, and for
  // an activation some 1.5 transcendentals each, one after the other where two
  // consumers finish at once (128 x 256 tiles on an H200). A bias costs
  // nothing. Splits share pieces out.
  constexpr double kPieceClocks = 463, kMatrixClocks = 220,
                   kActivationClocks = 350;
  int width = config.pieceColumns(signature);
  int64_t unitPieces = config.unitPieces(width);
  double pieces = double(ceilDiv(config.units() * unitPieces, config.splitK()));
  double results =
      double(width) / (Sm90GemmConfig::kUnit * signature.columnsPerOutput());
  double matrices =
      signature.readsC + signature.pointwise.contains(PointwiseOp::Residual);
  double activations = 0;
  for (PointwiseOp op : {PointwiseOp::GeluTanh, PointwiseOp::GeluErf,
                         PointwiseOp::Silu, PointwiseOp::SwiGlu})
    activations += signature.pointwise.contains(op);
  int atOnce = config.pingPong ? 1 : config.consumers;
  // Rows that are shifted cost several times as much (1000 x 7777 x 2664 on an
  // H200: 83 us instead of 60). Activations are as fast as of others.
  constexpr double kShifting = 7;
  const double shifting = config.storesByTma(signature) ? 1 : kShifting;
  epilogue = pieces *
             (shifting * (kPieceClocks + results * matrices * kMatrixClocks) +
              results * activations * atOnce * kActivationClocks) /
             ghz;
  double active = double(blocksOf(std::min(groups, resident)));
  double outBytes = active * config.blockM * config.blockN *
                    bytesOf(problem.out) /
                    (config.splitK() * signature.columnsPerOutput());
  double written = outBytes / device.dramWriteBytesPerNs();
  double loop = double(kSteps) * main().total;
  // With pingPong the other consumer multiplies meanwhile. Shifted rows keep
  // the load and store units of both from other work.
  constexpr double kShiftExposed = 0.7;
  if (!config.pingPong)
    exposedEpilogue = epilogue;
  else
    exposedEpilogue =
        std::max(epilogue - loop,
                 config.storesByTma(signature) ? 0 : kShiftExposed * epilogue);
  exposedEpilogue = std::max(exposedEpilogue, written - loop);
}

void Sm90Model::computeEnds() {
  // The last stores have to arrive.
  constexpr double kDrainNs = 285;
  drain = kDrainNs + epilogue;
  // The first stage has nothing to hide behind; a cluster's blocks wait for
  // each other once before, and the slower of them sets the pace (grids of one
  // wave took 0.1 to 0.6 us longer with clusters on an H200).
  constexpr double kClusterNs = 300;
  fill = device.dramLatencyNs + kTmaLatencyNs + main().port +
         (config.multicastBlocks() > 1 ? kClusterNs : 0);
  repack = copyStepsNs(repackSteps(signature, config),
                       double(repackBytes(problem, signature, config)), device);
  gather = gatherNs(problem, device);
}

void Sm90Model::computeReduction() {
  reduction = 0;
  if (config.splitK() == 1)
    return;
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
  reduction =
      (published + cleared) / (kExchangedPerClock * 1e-3 * device.smClockMHz);
}

void Sm90Model::computeFloors() {
  // D once, and what the epilogue reads of its shape.
  int read =
      signature.readsC + signature.pointwise.contains(PointwiseOp::Residual);
  double matrix = double(problem.m) * double(problem.outCols()) *
                  double(problem.batch) * bytesOf(problem.out);
  readNs = (bytes.dramReadBytes + read * matrix) / device.dramBytesPerNs();
  writeNs = matrix / device.dramWriteBytesPerNs();
  bytesFloor = readNs + writeNs;
  double products =
      double(groups) * config.multicastBlocks() * double(kSteps) *
      config.splitK() * config.columnSharers() *
      wgmmaCount(config.rows(), config.blockK * bytesOf(signature.in));
  productClocks = wgmmaBusyClocks(products, config.consumerColumns()) /
                  double(device.smCount);
  powerFloor = productClocks / powerGHz();
}

double Sm90Model::paced(const Sm90Step &step) const {
  return step.total + apartShare * kSm90Queue * step.beyond();
}

double Sm90Model::loop() const {
  double steps = double(fullWaves()) * paced(full);
  if (lastGroups() > 0)
    steps += paced(last);
  return double(kSteps) * steps;
}

double Sm90Model::betweenTiles() const {
  return double(tilesPerBlock - 1) * exposedEpilogue +
         double(tilesPerBlock) * reduction;
}

double Sm90Model::heldPath() const {
  return eighthRoot(eighth(path()) + eighth(powerFloor));
}

double Sm90Model::total() const { return fill + path() + beyondPath() + drain; }

llvm::StringRef Sm90Model::bound() const {
  if (bytesFloor > heldPath())
    return "dram";
  if (powerFloor > path())
    return "tensor";
  if (isHeldApart())
    return "l2";
  const Sm90Step &step = main();
  if (step.ring > step.pace())
    return "latency";
  if (step.pace() == step.math)
    return "tensor";
  if (step.pace() == step.shared)
    return "shared";
  return step.pace() == step.dram ? "dram" : "l2";
}

Estimate estimateTile(const GemmProblem &problem, const Sm90Kernel &kernel,
                      const DeviceModel &device, Detail detail) {
  Sm90Model model(problem, kernel.signature, kernel.config, device);
  Estimate estimate(detail);
  estimate.totalNs = device.launchNs + device.rampNs + model.repack +
                     model.gather + model.total();
  estimate.bound = model.bound();
  estimate.add("launch", device.launchNs);
  estimate.add("ramp", device.rampNs);
  estimate.add("repack", model.repack);
  estimate.add("gather", model.gather);
  estimate.add("fill", model.fill);
  estimate.add("loop", model.loop());
  estimate.add("epilogue",
               double(model.tilesPerBlock - 1) * model.exposedEpilogue +
                   model.drain);
  estimate.add("reduction", double(model.tilesPerBlock) * model.reduction);
  estimate.add("beyond path", model.beyondPath());
  estimate.note("floor bytes", model.bytesFloor);
  estimate.note("floor power", model.powerFloor);
  const Sm90Step &step = model.main();
  estimate.note("step math", step.math);
  estimate.note("step port", step.port);
  estimate.note("step l2", step.l2);
  estimate.note("step dram", step.dram);
  if (step.shared > 0)
    estimate.note("step shared", step.shared);
  estimate.note("step ring", step.ring);
  estimate.note("step", step.total);
  if (model.isHeldApart())
    estimate.note("step apart", step.apart);
  estimate.note("k iterations", double(model.kSteps), "");
  estimate.note("tiles per block", double(model.tilesPerBlock), "");
  estimate.note("dram bytes", model.bytes.dramReadBytes, "B");
  return estimate;
}

} // namespace kiln
