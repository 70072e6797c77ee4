//===- AttentionDecodeModel.cpp - decode and naive kernels ----------------===//
//
// A decode kernel is as fast as its bytes in flight; a launch, the merge of
// warps and the merge of splits cost as much as megabytes of keys.
//
// Constants without another source come from one H200 (bf16, cold L2, launches
// with pauses).
//
//===----------------------------------------------------------------------===//
#include "Families/Attention/AttentionModel.h"

#include "Model/MathUtil.h"
#include "Model/Rates.h"

#include <algorithm>
#include <cmath>

namespace kiln {

//===----------------------------------------------------------------------===//
// Decode
//===----------------------------------------------------------------------===//

double DecodeWave::totalNs() const {
  return std::max({dramNs, littleNs, portNs, l2Ns, arithmeticNs, lifeNs});
}

AttentionDecodeModel::AttentionDecodeModel(const AttentionProblem &problem,
                                           const AttentionDecodeKernel &kernel,
                                           const DeviceModel &device)
    : problem(problem), kernel(kernel), device(device),
      splits(problem, kernel.splits, kernel.splitKeys) {
  // The rate exceeds that of a read that also sums (H200: 4.55 TB/s at 2 GB).
  constexpr double kStream = 1.062;
  rate = kStream * device.dramBytesPerNs();
  needed = neededBytes(device, rate);
  computeBlocks();
  computeKey();
  // Blocks of different lengths do not end at the same time.
  fullWaves = std::floor(blocks / slots);
  if (problem.isRagged() && fullWaves > 0)
    fullWaves = blocks / slots;
  if (fullWaves > 0)
    full = waveOf(slots);
  last = waveOf(blocks - fullWaves * slots);
  // Q, the first keys, the merge of warps, and O: the sums of all rows pass
  // through shared memory.
  constexpr double kEmptyNs = 0.07;
  constexpr double kEndsNs = 1400, kSumNs = 1;
  endsNs = kEndsNs + kSumNs * double(kernel.rows * problem.valueDim);
  emptyNs = emptyBlocks * kEmptyNs;
  merge = splitMergeTime(problem, splits, kernel.merge);
  skewNs = splitSkewNs(splits, streamNs());
  if (!problem.isRagged())
    return;
  double longest =
      double(std::min(splits.keys, std::max<int64_t>(problem.keys, 1)));
  unevenNs = kLastPart * longest * tokenBytes(problem) /
             (kSmBytesPerClock * attentionClockGHz(device));
}

void AttentionDecodeModel::computeBlocks() {
  int64_t group = problem.group();
  rowBlocks = ceilDiv(problem.queries * group, kernel.rows);
  VisibleBlocks visible =
      visibleBlocks(problem, kernel.rows, group, kernel.pieceKeys);
  double heads = double(problem.batch) * double(problem.kvHeads);
  double groups = heads * double(rowBlocks);
  blocks = groups * double(splits.active);
  emptyBlocks = groups * double(splits.all - splits.active);
  if (kernel.merge == SplitMerge::Cluster && splits.all > 1)
    slots = double(device.maxClusters(splits.all) * splits.all);
  else
    slots = sms();
  slots = std::max(slots * double(kernel.blocksPerSm), 1.0);
  if (blocks == 0)
    return;
  double keys = heads * double(visible.blocks * kernel.pieceKeys);
  blockKeys = keys / blocks;
  blockBytes = blockKeys * tokenBytes(problem);
  pieceBytes = double(kernel.pieceKeys) * tokenBytes(problem);
  // Blocks with other rows of the same head find its keys in L2.
  double asked = keys * tokenBytes(problem);
  if (asked > 0)
    dramShare = std::min(
        1.0,
        (std::min(asked, keyBytes(problem)) + queryBytes(problem)) / asked);
  inFlight =
      std::min(double(kernel.warps * kernel.stages) * pieceBytes, blockBytes);
}

/// Computes the cost of a key on an SM: products, exponentials and issue for
/// each 16 rows, fragments for all rows, and the conversion of e4m3.
void AttentionDecodeModel::computeKey() {
  constexpr double kTileRows = 16, kIssue = 4, kSharedPerClock = 128;
  // Before sm_89 seven instructions, on 128 lanes, convert two elements.
  const double converted = device.computeCapability() >= 89 ? 124 : 36;
  // e4m3 is multiplied as fp16, whatever Q is.
  bool isNarrow = bytesOf(problem.kv) == 1;
  RateType rate =
      rateTypeOf(isNarrow ? DType::FP16 : problem.dtype, ComputeMode::Native);
  double flops = usedRate(device.mmaSyncFlopsPerClockPerSm(rate));
  double dims = double(problem.headDim + problem.valueDim);
  // Warps that share a ring compute the same scores.
  double again = double(problem.headDim * (kernel.parts - 1));
  rowTiles = std::ceil(double(kernel.rows) / kTileRows);
  productClocks = 2 * kTileRows * (dims + again) / flops;
  expClocks = kTileRows / device.specialOpsPerClock;
  issueClocks = kIssue;
  fragmentClocks =
      (tokenBytes(problem) + again * bytesOf(problem.kv)) / kSharedPerClock;
  if (isNarrow)
    convertClocks = (dims + again) / converted;
  // Copies of 16 bytes bypass the L1 cache and add no cost to the rest; it
  // takes half a warp of narrower ones a clock (not measured).
  constexpr double kCopies = 16;
  if (kernel.copyBytes < 16)
    copyClocks = tokenBytes(problem) / double(kernel.copyBytes) / kCopies;
  // A piece's products, maxima and exponentials wait for each other: 1130
  // clocks for 16 keys of head dim 128, 1570 for 32.
  constexpr double kPieceClocks = 700, kElementClocks = 0.105;
  // A warp converts with the units of its sub-core, and its products wait for
  // that (4 sequences of 131072 keys of e4m3, H200: 333 us with one block of
  // four warps on an SM, 250 us with two blocks half as long).
  warpKeyClocks = kPieceClocks / double(kernel.pieceKeys) +
                  kElementClocks * dims * rowTiles +
                  convertClocks * double(device.subCoresPerSm);
  keyClocks = rowTiles * (productClocks + expClocks + issueClocks) +
              fragmentClocks + convertClocks + copyClocks;
  // Warps of a ring meet at each piece (MLA, 16 and 128 heads: 249 and 1940 us,
  // predicted 196 and 1490 us without this).
  constexpr double kWaits = 0.3;
  if (kernel.parts > 1)
    waitClocks = kWaits * keyClocks;
  keyClocks += waitClocks;
}

DecodeWave AttentionDecodeModel::waveOf(double count) const {
  constexpr double kPaged = 1.03; // rows of pages are shorter bursts
  // While a block starts and merges, few of its keys are in flight: 9 problems
  // of 32 to 479 keys in 2 to 31 waves (H200) to 25 %. Rows without a query
  // have no sums to merge.
  constexpr double kLifeNs = 1500, kSumNs = 1.15;
  DecodeWave wave;
  wave.blocks = count;
  if (count <= 0)
    return wave;
  double clock = attentionClockGHz(device);
  double bytes = count * blockBytes;
  double paged = problem.pages == AttentionPages::None ? 1 : kPaged;
  wave.dramNs = paged * dramShare * bytes / rate;
  double reached = std::min(1.0, count * inFlight / needed);
  wave.littleNs =
      reached > 0 ? paged * dramShare * bytes / (rate * reached) : 0;
  double busy = std::min(count, sms());
  wave.portNs = bytes / (busy * kSmBytesPerClock * clock);
  wave.l2Ns = bytes / device.l2BytesPerNs();
  if (blocks > slots)
    wave.lifeNs =
        kLifeNs + kSumNs * double(usedRows() * problem.valueDim) + wave.portNs;
  // The SM's arithmetic, or that of a warp whose products and exponentials wait
  // for each other.
  double shared = std::ceil(count / sms()) * keyClocks;
  double alone = warpKeyClocks / double(kernel.warps);
  wave.arithmeticNs = blockKeys * std::max(shared, alone) / clock;
  return wave;
}

int64_t AttentionDecodeModel::usedRows() const {
  return std::min(kernel.rows, problem.queries * problem.group());
}

double AttentionDecodeModel::streamNs() const {
  return fullWaves * full.totalNs() + last.totalNs();
}

double AttentionDecodeModel::totalNs() const {
  return device.launchNs + device.rampNs + endsNs + streamNs() + skewNs +
         unevenNs + emptyNs + merge.totalNs();
}

llvm::StringRef AttentionDecodeModel::bound() const {
  if (streamNs() < totalNs() - streamNs())
    return "latency";
  const DecodeWave &wave = main();
  double most = wave.totalNs();
  if (most == wave.arithmeticNs)
    return "simd";
  if (most == wave.dramNs)
    return "dram";
  return most == wave.l2Ns ? "l2" : "latency";
}

//===----------------------------------------------------------------------===//
// Naive
//===----------------------------------------------------------------------===//

NaiveAttentionModel::NaiveAttentionModel(const AttentionProblem &problem,
                                         const DeviceModel &device) {
  // Four keys at a time wait for K, for the sums of the warp and for V, one
  // after the other; with many rows an SM is as fast as its instructions. This
  // fits 18 problems on an H200 (32 to 4096 keys, head dims 32 to 256, one
  // query to 2048) to 14 % on average.
  constexpr double kStart = 2500, kKeysAtOnce = 4, kPieceClocks = 1900,
                   kKeyClocks = 13, kElementClocks = 0.0275;
  // Some 240 instructions of a warp find a row, load its Q and store its O, on
  // four schedulers (counted, not measured).
  constexpr double kRowClocks = 60;
  double clock = attentionClockGHz(device);
  double dims = double(problem.headDim + problem.valueDim);
  VisibleBlocks visible = visibleBlocks(problem, 1, 1, 1);
  startNs = kStart;
  rows = double(expectedQueries(problem)) * double(problem.batch) *
         double(problem.heads) / double(device.smCount);
  rowNs = kRowClocks / clock;
  keys = double(visible.blocks) * double(problem.batch) *
         double(problem.heads) / double(device.smCount);
  keyNs = (kKeyClocks + kElementClocks * dims) / clock;
  pieces = std::ceil(double(visible.longest) / kKeysAtOnce);
  pieceNs = kPieceClocks / clock;
  // Each head of K is read from DRAM at least once, a few keys at a time; Q and
  // O pass a row at a time.
  constexpr double kReachedOfDram = 0.6;
  bytes = keyBytes(problem) + queryBytes(problem);
  bytesPerNs = kReachedOfDram * device.dramBytesPerNs();
}

} // namespace kiln
