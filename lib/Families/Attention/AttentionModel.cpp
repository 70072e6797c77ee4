//===- AttentionModel.cpp - tiles, and what all kernels share -------------===//
//
// A tile with wgmma is a race between tensor cores and the instructions of the
// softmax, which overlap as well as the order of issue allows: a norm of both
// fits 24 measured loops (head dims 64 to 256, 2 and 3 consumers, bf16 and fp8)
// to 3 % rms. A tile also has ends: the first scores overlap with no other
// work, and neither do the last product and the store of O.
//
// Constants without another source come from one H200 (bf16, cold L2, launches
// with pauses): own loops and kernels, and FlashAttention 2 for mma.sync.
//
//===----------------------------------------------------------------------===//
#include "Families/Attention/AttentionModel.h"

#include "Model/Bandwidth.h"
#include "Model/MathUtil.h"
#include "Model/Rates.h"
#include "Model/Wgmma.h"

#include <cmath>

namespace kiln {

double attentionClockGHz(const DeviceModel &device) {
  constexpr double kHeld = 0.884;
  return 1e-3 * kHeld * device.smClockMHz;
}

KeySplits::KeySplits(const AttentionProblem &problem, int64_t splits,
                     int64_t splitKeys)
    : all(std::max<int64_t>(splits, 1)),
      keys(splitKeys > 0 ? splitKeys
                         : ceilDiv(std::max<int64_t>(problem.keys, 1), all)) {
  // Sequences of different lengths end anywhere in a split.
  int64_t expected = expectedKeys(problem);
  if (problem.isRagged())
    expected += keys / 2;
  active = std::clamp<int64_t>(ceilDiv(expected, keys), 1, all);
}

SplitMergeTime splitMergeTime(const AttentionProblem &problem,
                              const KeySplits &splits, SplitMerge merge) {
  // A cluster meets twice. A kernel of its own costs a launch, less if it
  // starts early, and by then reads from L2. Its blocks have a row each and
  // take a few splits at a time, the fewer the wider the row: 16 rows of MLA
  // take 8.4 us with 16 splits, 10.9 us with 64 (H200; a step for each split),
  // 8 rows of 128 elements 7.7 us with 32, 8 us with 64. The last block of a
  // head walks over the rows alone.
  constexpr double kClusterNs = 200, kClusterBlockNs = 40, kDependentNs = 1700,
                   kLaunchNs = 2100, kSplitNs = 11, kLastNs = 1200,
                   kRowNs = 0.3, kAloneRowNs = 16;
  constexpr double kRowElements = 128;
  SplitMergeTime time;
  if (merge == SplitMerge::None || splits.all == 1)
    return time;
  double width = double(problem.valueDim) / kRowElements;
  double rows = double(expectedQueries(problem)) * double(splits.active);
  time.partialRows = rows * double(problem.heads) * double(problem.batch);
  time.rowNs = kRowNs * width;
  time.splits = double(splits.active);
  switch (merge) {
  case SplitMerge::None:
    break;
  case SplitMerge::Cluster:
    time = {.fixedNs = kClusterNs + kClusterBlockNs * double(splits.all)};
    break;
  case SplitMerge::DependentLaunch:
    time.fixedNs = kDependentNs;
    time.splitNs = kSplitNs * width;
    break;
  case SplitMerge::Launch:
    time.fixedNs = kLaunchNs;
    time.splitNs = kSplitNs * width;
    break;
  case SplitMerge::LastBlock:
    time = {.fixedNs = kLastNs,
            .partialRows = rows * double(problem.group()),
            .rowNs = kAloneRowNs * width};
    break;
  }
  return time;
}

double neededBytes(const DeviceModel &device, double bytesPerNs) {
  constexpr double kQueue = 2;
  return kQueue * busyDramLatencyNs(device) * bytesPerNs;
}

double splitSkewNs(const KeySplits &splits, double ns) {
  constexpr double kSkew = 0.25, kMostSkewNs = 2500;
  return splits.active > 1 ? std::min(kSkew * ns, kMostSkewNs) : 0;
}

double queryBytes(const AttentionProblem &problem) {
  return double(problem.batch) * double(problem.heads) *
         double(expectedQueries(problem)) *
         double(problem.headDim * bytesOf(problem.dtype) +
                problem.valueDim * bytesOf(problem.out));
}

double tokenBytes(const AttentionProblem &problem) {
  return double(problem.keyElements()) * bytesOf(problem.kv);
}

double keyBytes(const AttentionProblem &problem) {
  return double(problem.batch) * double(problem.kvHeads) *
         double(expectedKeys(problem)) * tokenBytes(problem);
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

AttentionTileModel::AttentionTileModel(const AttentionProblem &problem,
                                       const AttentionTileKernel &kernel,
                                       const DeviceModel &device)
    : problem(problem), kernel(kernel), device(device),
      headDim(double(kernel.headDim > 0 ? kernel.headDim : problem.headDim)),
      valueDim(
          double(kernel.valueDim > 0 ? kernel.valueDim : problem.valueDim)),
      splits(problem, kernel.splits,
             kernel.splitKeys > 0
                 ? kernel.splitKeys
                 : roundUp(ceilDiv(std::max<int64_t>(problem.keys, 1),
                                   std::max<int64_t>(kernel.splits, 1)),
                           kernel.keys)) {
  if (kernel.instruction == AttentionTileKernel::Instruction::Wgmma)
    computeWgmmaStep();
  else
    computeMmaStep();
  // K and V of a step, for which all SMs ask L2 at the same time.
  stepBytes = double(kernel.keys) * tokenBytes(problem);
  step.l2 = stepBytes / double(std::max<int64_t>(kernel.sharers, 1)) * sms() *
            attentionClockGHz(device) / device.l2BytesPerNs();
  step.port = stepBytes / kSmBytesPerClock;
  computeTiles();
  computePath();
  // DRAM's bytes, once, at the rate that the bytes in flight of busy SMs allow:
  // a step's keys, and half of the next one's.
  constexpr double kReached = 0.955; // fraction of the rate of a pure read
  constexpr double kSteps = 1.5;
  bytes = queryBytes(problem) + keyBytes(problem);
  inFlight = std::min(tiles, sms()) * kSteps * stepBytes;
  double needed = neededBytes(device, device.dramBytesPerNs());
  bytesPerNs = kReached * device.dramBytesPerNs() *
               std::min(1.0, std::max(inFlight, 1.0) / needed);
  floorNs = bytes / bytesPerNs;
  // All blocks ask for the first step's keys at the same time: after the
  // latency of the first byte they arrive as fast as DRAM delivers. Keys that
  // several tiles read come from DRAM once.
  bool isWgmma = kernel.instruction == AttentionTileKernel::Instruction::Wgmma;
  double resident = sms() * (isWgmma ? 1 : double(kernel.blocksPerSm));
  double asked = blocks * stepBytes;
  if (asked > 0)
    firstBytes = std::min(tiles, resident) * stepBytes *
                 std::min(keyBytes(problem) / asked, 1.0);
  firstRate = kReached * device.dramBytesPerNs();
  firstNs = firstBytes / firstRate;
  skewNs = splitSkewNs(splits, std::max(pathNs(), floorNs));
  merge = splitMergeTime(problem, splits, kernel.merge);
}

/// \p keepsOrigins: the step makes weights over the origins of the steps
/// before.
static AttentionSoftmax softmaxOf(const AttentionTileModel &model,
                                  bool keepsOrigins) {
  // Warpgroups wait for each other's maxima; while a warp waits, others run.
  // Three consumers in turns keep the special units busier than two.
  constexpr double kScore = 0.085, kOutput = 0.01, kStep = 340,
                   kStepOfWarps = 150;
  constexpr double kThreeInTurns = 0.965, kThree = 1.04, kFewerInTurns = 1.05,
                   kFewer = 1.07;
  // Without maxima, and with O unchanged: fits 10 times (H200; head dims 64 to
  // 256, 512 to 4096 keys) to 4 % rms.
  constexpr double kKeptScore = 0.07, kKeptStep = 500;
  // ALiBi is one FFMA a score, on 128 lanes; a scale that is not folded into
  // the exponential takes three.
  constexpr double kAlibi = 1.0 / 128, kPlainScale = 0.025;
  double rows = double(model.kernel.rows);
  AttentionSoftmax softmax;
  softmax.scores = rows * double(model.kernel.keys);
  softmax.score = keepsOrigins ? kKeptScore : kScore;
  if (model.problem.softcap > 0)
    softmax.score += 1 / model.device.specialOpsPerClock;
  if (model.problem.alibi)
    softmax.score += kAlibi;
  if (!model.kernel.foldedScale)
    softmax.score += kPlainScale;
  softmax.outputs = rows * model.valueDim;
  softmax.output = keepsOrigins ? 0 : kOutput;
  softmax.fixed = kStepOfWarps;
  if (model.kernel.instruction == AttentionTileKernel::Instruction::MmaSync)
    return softmax;
  bool isThree = model.kernel.rows > 2 * kWgmmaRows;
  bool isE4M3 = model.problem.dtype == DType::E4M3;
  double share = isThree ? kThree : kFewer;
  if (model.kernel.takesTurns)
    share = isThree ? kThreeInTurns : kFewerInTurns;
  // Products of e4m3 are short: two consumers wait for their turns (head dim
  // 128, blocks of 224 keys, 4 sequences of 4096: 696 us, 624 us without
  // turns).
  constexpr double kE4M3InTurns = 1.2;
  if (model.kernel.takesTurns && !isThree && isE4M3)
    share = kE4M3InTurns;
  softmax.score *= share;
  softmax.output *= share;
  softmax.fixed = (keepsOrigins ? kKeptStep : kStep) * share;
  return softmax;
}

/// Both products and the softmax of a step, each on its own.
void AttentionTileModel::computeProducts(double rate) {
  flops =
      2.0 * double(kernel.rows) * double(kernel.keys) * (headDim + valueDim);
  flopsPerClock = usedRate(rate);
  step.tensor = flops / flopsPerClock;
  softmax = softmaxOf(*this, kernel.keepsOrigins);
  raised = softmaxOf(*this, false);
  step.softmax = softmax.clocks();
}

void AttentionTileModel::computeWgmmaStep() {
  RateType rate = rateTypeOf(problem.dtype, ComputeMode::Native);
  computeProducts(device.tensorFlopsPerClockPerSm(rate));
  if (!kernel.overlaps) {
    // Other consumers multiply meanwhile.
    step.softmaxShare = step.tensor >= step.softmax ? 0.45 : 0.7;
    step.loop = step.tensor + step.softmaxShare * step.softmax;
    return;
  }
  // A lone consumer waits for its maxima while no other multiplies. Two with
  // the same rows wait for each other's weights, and for blocks of keys that
  // arrive when both are done with the last ones: nearly all times add up (MLA,
  // 128 sequences of 4096 keys and 128 heads: 3280 clocks a step).
  constexpr double kTogether = 5, kAlone = 1.6, kSameRows = 1.15;
  step.exponent = kernel.columnParts > 1     ? kSameRows
                  : kernel.rows > kWgmmaRows ? kTogether
                                             : kAlone;
  step.pages = kernel.pageClocks;
  auto together = [&](double softmaxClocks) {
    return std::pow(std::pow(step.tensor, step.exponent) +
                        std::pow(softmaxClocks, step.exponent),
                    1 / step.exponent);
  };
  step.loop = together(step.softmax);
  step.raising = std::max(together(raised.clocks()) - step.loop, 0.0);
}

void AttentionTileModel::computeMmaStep() {
  constexpr double kSharedPerClock = 128, kConflicts = 8, kWait = 0.5;
  // Two warps of a scheduler overlap products and loads of fragments, and half
  // of the softmax: own kernels at head dim 128 (64 and 128 rows, 32 to 128
  // keys, 4 and 8 warps) to 10 %.
  constexpr double kFewWarps = 8, kOverlapped = 0.5;
  RateType rate = rateTypeOf(problem.dtype, ComputeMode::Native);
  computeProducts(device.mmaSyncFlopsPerClockPerSm(rate));
  double elementBytes = bytesOf(problem.dtype);
  double keyBytes = double(kernel.keys) * (headDim + valueDim) * elementBytes;
  sharedBytes = double(kernel.warps) * keyBytes;
  if (!kernel.residentQueries)
    sharedBytes += double(kernel.rows) * headDim * elementBytes;
  sharedPerClock = kSharedPerClock / (kernel.swizzled ? 1 : kConflicts);
  step.shared = sharedBytes / sharedPerClock;
  bool isFew = double(kernel.warps * kernel.blocksPerSm) < kFewWarps;
  step.softmaxShare = isFew ? 1 : kOverlapped;
  // Waits for loads that no product hides, and copies through registers; other
  // blocks of the SM compute meanwhile.
  double latency = device.l2LatencyNs * attentionClockGHz(device);
  double loads = 0;
  if (!kernel.eagerLoads || !kernel.asyncCopy)
    loads += kWait * latency;
  if (!kernel.asyncCopy)
    loads += keyBytes / kL2BytesPerClockPerSm;
  step.exposed = loads / double(std::max<int64_t>(kernel.blocksPerSm, 1));
  step.exponent = isFew ? 1 : 2;
  step.loop = std::pow(std::pow(step.tensor, step.exponent) +
                           std::pow(step.shared, step.exponent),
                       1 / step.exponent) +
              step.softmaxShare * step.softmax + step.exposed;
  // Narrow steps of long rows have too few scores to hide that their products
  // wait for one another (head dim 256, blocks of 16 keys on an H200: up to
  // 1.75 times the time that the rates predict).
  step.chain = kChainedProduct * chainLength() + kChainedRest * step.loop;
}

void AttentionTileModel::computeTiles() {
  // Latency of the first loads, at the start and between tiles; Q in and O out.
  constexpr double kLoads = 600, kElement = 0.08, kGathering = 1.14,
                   kBarriers = 1.04, kPacked = 1.05, kDraw = 400,
                   kNextLoads = 3000;
  int64_t packed = std::max<int64_t>(kernel.packed, 1);
  visible = visibleBlocks(
      problem, kernel.filledRows > 0 ? kernel.filledRows : kernel.rows,
      kernel.packed, kernel.keys);
  double sequences = double(problem.batch) * double(problem.kvHeads) *
                     double(ceilDiv(problem.group(), packed));
  double splitBlocks = double(ceilDiv(splits.keys, kernel.keys));
  blocks = sequences * double(visible.blocks);
  if (sms() > 0)
    step.together = std::clamp(
        numbers / sms(), 1.0, double(std::max<int64_t>(kernel.blocksPerSm, 1)));
  // With a mask some rows see no keys of a split; on average, half of the rows
  // see none of the last split with keys.
  numbers = sequences * double(visible.tiles) * double(splits.active);
  tiles = numbers;
  if (problem.mask != AttentionMask::None && splits.active > 1)
    tiles = std::min(tiles, blocks / splitBlocks +
                                sequences * double(visible.tiles) / 2);
  overhead = kBarriers * (kernel.gathers ? kGathering : 1) *
             (kernel.packed > 1 ? kPacked : 1);
  alone = std::max(step.tensor + raised.clocks() - step.loop, 0.0);
  if (kernel.keepsOrigins && visible.tiles > 0) {
    double masked = double(visible.masked) / double(visible.tiles);
    if (problem.mask != AttentionMask::None)
      raisedSteps = std::max(masked - 1, 0.0);
    raisedSteps += kernel.raisesLast ? 1 : 0;
  }
  latency = kLoads;
  // The next tile's first keys and its Q come from DRAM. Their loads start when
  // the stages are free that this tile's last steps still read. Short steps end
  // before they arrive: 216 queries of 216 keys (H200; 25 sequences, 16 heads,
  // head dim 128) take 45 us with blocks of 64 keys, 37.5 us with 128.
  if (kernel.stages > 0 && tiles > sms())
    latency =
        std::max(latency, kNextLoads - double(kernel.stages - 1) * step.pace());
  // Before the first products the full time for pages shows.
  latency += AttentionStep::kPagesShare * step.pages;
  // A tile waits for its number.
  bool isWgmma = kernel.instruction == AttentionTileKernel::Instruction::Wgmma;
  draw = isWgmma && kernel.isDrawn ? kDraw : 0;
  element = kElement;
  // Consumers of the same rows have parts of them.
  elements = double(kernel.rows) * (headDim + valueDim) /
             double(std::max<int64_t>(kernel.columnParts, 1));
  raising = raisedSteps * overhead * step.raising;
  ends = alone + raising + latency + element * elements + draw;
  idleEnds = element * elements + draw;
  if (splits.active == 1 && visible.empty < visible.tiles)
    idle = sequences * double(visible.empty);
  auto clocksOf = [&](int64_t count) {
    if (count == 0 && idle > 0)
      return idleEnds;
    double steps = double(count);
    if (splits.active > 1)
      steps = std::min(steps, splitBlocks);
    return ends + overhead * step.pace() * steps;
  };
  longest = clocksOf(visible.longest);
  shortest = clocksOf(visible.shortest);
  total = allEnds() + blocks * overhead * step.pace();
}

void AttentionTileModel::computePath() {
  if (tiles == 0)
    return;
  turns = std::ceil(numbers / sms());
  // One long sequence among usual ones, as in decode kernels.
  if (problem.isRagged() && problem.queryLengths == AttentionLengths::Uniform) {
    double most = double(std::min(splits.keys, problem.keys));
    tail = kLastPart * overhead * step.pace() * most / double(kernel.keys);
  }
  if (hasEqualTiles()) {
    path = turns * longest;
    return;
  }
  // The last SM may have taken any tile or, with the longest first, a short
  // one. Static tiles come in turns even if they have no keys.
  path = std::max(total / sms(), longest);
  bool isDrawn = kernel.order == TileOrder::Dynamic ||
                 kernel.order == TileOrder::LongestFirst;
  if ((isDrawn ? tiles : numbers) <= sms())
    return;
  switch (kernel.order) {
  case TileOrder::Static:
    tail += std::max((turns - 1) * total / tiles + longest - path, 0.0);
    break;
  case TileOrder::Pairs: {
    // The middle tile of an odd number has no partner, and always the same
    // blocks get such halves (head dim 64, three tiles a head, H200: 201 us,
    // 151 us when drawn).
    double ofHead = double(visible.tiles);
    double pairs = numbers / ofHead * std::ceil(ofHead / 2);
    tail +=
        std::max(std::ceil(pairs / sms()) * (longest + shortest) - path, 0.0);
    break;
  }
  case TileOrder::Dynamic:
    tail += longest / 2;
    break;
  case TileOrder::LongestFirst: {
    // Some SM has a tile of each turn, none shorter than the first tile of the
    // last turn.
    double before = (turns - 1) * sms() / numbers;
    double least = longest - (longest - shortest) * before;
    tail += std::max(shortest / 2, turns * least - path);
    break;
  }
  }
}

double AttentionTileModel::beyondNs() const {
  return std::max(floorNs - firstNs - pathNs(), 0.0);
}

double AttentionTileModel::totalNs() const {
  return device.launchNs + device.rampNs + kStartNs + firstNs + pathNs() +
         beyondNs() + skewNs + merge.totalNs();
}

llvm::StringRef AttentionTileModel::bound() const {
  if (floorNs > firstNs + pathNs())
    return "dram";
  if (allEnds() > total - allEnds())
    return "latency";
  if (step.chained() > std::max({step.loaded(), step.l2, step.port}))
    return "latency";
  // The thread that loads is the limit.
  if (step.pages > std::max({step.loaded(), step.l2, step.port}))
    return "latency";
  if (step.pace() > step.loaded())
    return "l2";
  double softmax = step.softmaxShare * step.softmax;
  if (step.shared > std::max(step.tensor, softmax))
    return "shared";
  return step.tensor >= softmax ? "tensor" : "simd";
}

} // namespace kiln
