//===- Sm90Estimate.cpp ---------------------------------------------------===//
//
// A block is two machines beside each other: a producer that is bound by memory
// and consumers that are bound by wgmma, with a ring between them that hides
// latency as far as it is deep. A step of k takes what the slower of them
// takes. The producer does not pause between tiles. So besides its k steps a
// tile costs the epilogue, less what the refilled ring or, with pingPong, the
// other consumer's products hide.
//
// Two floors hold for the chip as a whole: the bytes of DRAM, and power. A
// board that all tensor cores keep busy lowers its clock until they fit its
// limit; where tiles leave SMs idle, or memory leaves tensor cores idle, the
// clock of the others stays high. So a block's own path runs at the full clock
// here, and all products of the chip together at the clock it sustains.
//
// Figures in clocks are of an SM, measured on an H200 or H100 as each says.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/Sm90Estimate.h"

#include "Families/Gemm/Sm90Model.h"
#include "Families/Gemm/Sm90Plan.h"
#include "Model/Bandwidth.h"
#include "Model/MathUtil.h"
#include "Model/Wgmma.h"

#include <algorithm>

namespace kiln {

int64_t residentGroups(const Sm90GemmConfig &config,
                       const DeviceModel &device) {
  int64_t clusters = device.maxClusters(config.multicastBlocks());
  return std::max<int64_t>(1, clusters / config.splitK());
}

Sm90Model::Sm90Model(const GemmProblem &problem, const GemmSignature &signature,
                     const Sm90GemmConfig &config, const DeviceModel &device)
    : problem(problem), signature(signature), config(config), device(device) {
  clusters = config.groups(problem.m, problem.n, problem.batch);
  resident = residentGroups(config, device);
  active = std::min(clusters, resident) * config.groupBlocks();
  tilesPerBlock = ceilDiv(clusters, resident);
  kSteps = ceilDiv(ceilDiv(problem.k, config.blockK), config.splitK());
  computeTraffic();
  computeStep();
  computeEpilogue();
  computeEnds();
  computeReduction();
  computeFloors();
}

void Sm90Model::computeTraffic() {
  TrafficInput input;
  input.m = problem.m;
  input.n = problem.n;
  input.k = problem.k;
  input.batch = problem.batch;
  input.bitsA = input.bitsB = bitsOf(problem.dtype);
  input.bitsD = bitsOf(problem.out);
  input.blockM = config.blockM;
  input.blockN = config.blockN;
  input.splitK = config.splitK();
  input.groupTiles = config.rasterGroup;
  input.groupAlongN = config.rasterAlongN;
  input.slots = std::max<int64_t>(active, 1);
  input.clusterM = config.clusterM;
  input.clusterN = config.clusterN;
  bytes = traffic(device, input);
}

void Sm90Model::computeStep() {
  double ghz = clockGHz();
  int n = config.consumerColumns();
  double products =
      config.columnSharers() * wgmmaCount(config.rows(), config.blockK);
  double lone = config.consumers == 1 ? kLoneConsumerClocks : 0;
  math = (products * wgmmaClocks(n) + lone) / ghz;
  double read = products * wgmmaSharedBytes(n);
  shared = read / device.sharedBytesPerClockPerSm / ghz;
  // The port of an SM is the limit and not L2, and takes in what another block
  // asked for as well: blocks that ask for the same tile at about the same time
  // are answered together (64 x 128 tiles on all of an H200 took in 15 TB/s,
  // 0.9 of what the ports take).
  l2 = config.stageBytes() / (kL2BytesPerClockPerSm * ghz);
  // What a block asks for: of a tile that two share, its half.
  double asked = double(config.rowTileBytes()) / config.clusterColumns() +
                 double(config.columnTileBytes()) / config.clusterRows();
  double missShare = bytes.missShare();
  // For people: DRAM's part of the pace is a floor for all steps together, for
  // in the last wave fewer blocks share it.
  dram = double(active) * asked * missShare / device.dramBytesPerNs();
  ring = pipeline(loadLatencyNs(device, missShare) + kTmaLatencyNs, l2, pace(),
                  config.stages);
  exposed = ring.exposedNs;
}

void Sm90Model::computeEpilogue() {
  double ghz = clockGHz();
  // A piece takes a turn of its staging buffer and a store. 32 results a thread
  // of it add, for a matrix of the chain, the reads of shared memory, and for
  // an activation some 1.5 transcendentals each, one after the other where two
  // consumers finish at once (128 x 256 tiles on an H200). A bias costs
  // nothing. Splits share pieces out.
  constexpr double kPieceClocks = 330, kMatrixClocks = 220,
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
  epilogue =
      pieces *
      (kPieceClocks + results * (matrices * kMatrixClocks +
                                 activations * atOnce * kActivationClocks)) /
      ghz;
  // Rows that are shifted cost several times as much (1000 x 7777 x 2664 on an
  // H200: 83 us instead of 60).
  constexpr double kShifting = 7;
  if (!config.storesByTma(signature))
    epilogue *= kShifting;
  double outBytes = double(active) * config.blockM * config.blockN *
                    bytesOf(problem.out) /
                    (config.splitK() * signature.columnsPerOutput());
  double written = outBytes / device.dramWriteBytesPerNs();
  double loop = double(kSteps) * step();
  // With pingPong the other consumer multiplies meanwhile; otherwise the ring
  // is full when the next tile begins, and its steps catch up on memory.
  // Shifted rows keep the load and store units of both from other work.
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
  constexpr double kDrainNs = 700;
  drain = kDrainNs + epilogue;
  // The first stage has nothing to hide behind; a cluster's blocks wait for
  // each other once before, and the slower of them sets the pace (grids of one
  // wave took 0.1 to 0.6 us longer with clusters on an H200).
  constexpr double kClusterNs = 300;
  fill = device.dramLatencyNs + kTmaLatencyNs + l2 +
         (config.multicastBlocks() > 1 ? kClusterNs : 0);
  double copied = double(repackBytes(problem, signature));
  repack = copied == 0 ? 0
                       : device.launchNs + device.rampNs +
                             copied / device.dramBytesPerNs() +
                             copied / device.dramWriteBytesPerNs();
}

void Sm90Model::computeReduction() {
  reduction = 0;
  if (config.splitK() == 1)
    return;
  // A split's sums go to L2, except for the pieces that it owns; of those it
  // reads what the others have and leaves zeros. An SM stores 25 bytes a clock;
  // the rest, waiting for the slowest of the splits above all, is fitted to
  // kernels of 6 to 50 us (H200), of whose times the estimates are 0.92, give
  // or take 16 %. With tiles first the splits of one begin 0.1 to 0.4 us apart.
  constexpr double kHopNs = 1500, kSplitNs = 150, kApartNs = 100,
                   kStoredPerClock = 25;
  int width = config.pieceColumns(signature);
  double published = 4.0 * config.blockM * config.blockN *
                     (config.splitK() - 1) / config.splitK();
  int64_t owned =
      ceilDiv(config.consumers * config.units() * config.unitPieces(width),
              config.splitK());
  double cleared = double(owned) * 4.0 * Sm90GemmConfig::kUnit * width *
                   (config.splitK() - 1);
  reduction = kHopNs + kSplitNs * config.splitK() +
              (config.tilesFirst ? kApartNs : 0) +
              (published + cleared) / (kStoredPerClock * clockGHz());
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
  double products = double(clusters) * config.multicastBlocks() *
                    double(kSteps) * config.splitK() * config.columnSharers() *
                    wgmmaCount(config.rows(), config.blockK);
  productClocks = wgmmaBusyClocks(products, config.consumerColumns()) /
                  double(device.smCount);
  powerFloor = powerFloorNs(device, productClocks);
}

double Sm90Model::loop() const {
  return double(tilesPerBlock) * double(kSteps) * step();
}

double Sm90Model::betweenTiles() const {
  return double(tilesPerBlock - 1) * exposedEpilogue +
         double(tilesPerBlock) * reduction;
}

/// Wave by wave: blocks of the last one, which may be few, have the chip for
/// themselves but are no faster than alone.
double Sm90Model::beyondFloor() const {
  // An exposed epilogue comes on top of either: in so short a pause no clock
  // rises.
  auto beyond = [&](int64_t groups) {
    return std::max(0.0, floorOf(groups) - tileNs());
  };
  return double(fullWaves()) * beyond(resident) + beyond(lastGroups());
}

double Sm90Model::total() const {
  return fill + loop() + betweenTiles() + beyondFloor() + drain;
}

llvm::StringRef Sm90Model::bound() const {
  if (beyondFloor() > 0)
    return bytesFloor > powerFloor ? "dram" : "tensor";
  if (exposed > pace())
    return "latency";
  if (pace() == math)
    return "tensor";
  return pace() == shared ? "shared" : "l2";
}

Estimate estimateTile(const GemmProblem &problem, const Sm90Kernel &kernel,
                      const DeviceModel &device, Detail detail) {
  Sm90Model model(problem, kernel.signature, kernel.config, device);
  Estimate estimate(detail);
  estimate.totalNs =
      device.launchNs + device.rampNs + model.repack + model.total();
  estimate.bound = model.bound();
  estimate.add("launch", device.launchNs);
  estimate.add("ramp", device.rampNs);
  estimate.add("repack", model.repack);
  estimate.add("fill", model.fill);
  estimate.add("loop", model.loop());
  estimate.add("epilogue",
               double(model.tilesPerBlock - 1) * model.exposedEpilogue +
                   model.drain);
  estimate.add("reduction", double(model.tilesPerBlock) * model.reduction);
  estimate.add("beyond path", model.beyondFloor());
  estimate.note("floor bytes", model.bytesFloor);
  estimate.note("floor power", model.powerFloor);
  estimate.note("step math", model.math);
  estimate.note("step shared", model.shared);
  estimate.note("step l2", model.l2);
  estimate.note("step dram", model.dram);
  estimate.note("step exposed", model.exposed);
  estimate.note("k iterations", double(model.kSteps), "");
  estimate.note("tiles per block", double(model.tilesPerBlock), "");
  estimate.note("dram bytes", model.bytes.dramReadBytes, "B");
  return estimate;
}

} // namespace kiln
