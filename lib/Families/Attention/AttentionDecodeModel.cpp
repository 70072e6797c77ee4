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

template <Number N>
AttentionDecodeModel<N>::AttentionDecodeModel(
    const AttentionProblem &problem, const AttentionDecodeKernel &kernel,
    const DeviceModel &device)
    : problem(problem), kernel(kernel), device(device),
      splits(problem, kernel.splits, kernel.splitKeys),
      clock(attentionClock<N>(device)),
      latency(loadedLatencyNs(busyDramLatencyNs<N>(device))) {
  // The rate exceeds that of a read that also sums (H200: 4.55 TB/s at 2 GB).
  constexpr double kStream = 1.062;
  dramRate = longStreamRate<N>(device, kStream);
  needed = neededBytes(latency, dramRate);
  computeBlocks();
  computeKey();
  // Blocks of different lengths do not end at the same time.
  fullWaves = std::floor(blocks / slots);
  if (problem.isRagged() && fullWaves > 0)
    fullWaves = blocks / slots;
  if (fullWaves > 0) {
    full = waveOf(slots);
    full.total = named(full.total, "full wave", "ns");
    stream = given<N>(fullWaves, "waves") * full.total;
  }
  last = waveOf(blocks - fullWaves * slots);
  if (last.blocks > 0)
    stream += last.total = named(last.total, "last wave", "ns");
  stream = named(stream, "stream", "ns");
  // Q, the first keys, the merge of warps, and O: the sums of all rows pass
  // through shared memory.
  constexpr double kEmptyNs = 0.07;
  constexpr double kEndsNs = 1400, kSumNs = 1;
  const N ends =
      named(fitted<N>(kEndsNs, "first keys and merge of warps", "ns") +
                fitted<N>(kSumNs, "of a sum", "ns") *
                    given<N>(double(kernel.rows), "rows") *
                    given<N>(double(problem.valueDim), "dv"),
            "ends", "ns");
  const N skew = splitSkewNs<N>(splits, stream);
  total = deviceValue<N>(device, &DeviceModel::launchNs) +
          deviceValue<N>(device, &DeviceModel::rampNs) + ends + stream + skew;
  if (problem.isRagged())
    total += unevenNs();
  if (emptyBlocks > 0)
    total += named(fitted<N>(kEmptyNs, "of a block", "ns") *
                       given<N>(emptyBlocks, "blocks without keys"),
                   "empty blocks", "ns");
  total += mergeNs<N>(problem, splits, kernel.merge);
}

/// A part of the longest block, alone.
template <Number N> N AttentionDecodeModel<N>::unevenNs() const {
  const int64_t longest =
      std::min(splits.keys, std::max<int64_t>(problem.keys, 1));
  return named(lastPart<N>() * given<N>(double(longest), "keys") *
                   given<N>(tokenBytes(problem), "of a token", "B") /
                   smPort<N>() / clock,
               "uneven lengths", "ns");
}

template <Number N> void AttentionDecodeModel<N>::computeBlocks() {
  const int64_t group = problem.group();
  rowBlocks = ceilDiv(problem.queries * group, kernel.rows);
  const VisibleBlocks visible =
      visibleBlocks(problem, kernel.rows, group, kernel.pieceKeys);
  const double heads = double(problem.batch) * double(problem.kvHeads);
  const double groups = heads * double(rowBlocks);
  blocks = groups * double(splits.active);
  emptyBlocks = groups * double(splits.all - splits.active);
  slots = kernel.merge == SplitMerge::Cluster && splits.all > 1
              ? double(device.maxClusters(splits.all) * splits.all)
              : sms();
  slots = std::max(slots * double(kernel.blocksPerSm), 1.0);
  if (blocks == 0)
    return;
  const double keys = heads * double(visible.blocks * kernel.pieceKeys);
  blockKeys = keys / blocks;
  // Blocks with other rows of the same head find its keys in L2.
  const double asked = keys * tokenBytes(problem);
  if (asked > 0)
    dramShare = std::min(
        1.0,
        (std::min(asked, keyBytes(problem)) + queryBytes(problem)) / asked);
  const N token = given<N>(tokenBytes(problem), "of a token", "B");
  blockBytes = named(given<N>(blockKeys, "keys of a block") * token,
                     "K and V of a block", "B");
  inFlight = named(
      least({given<N>(double(kernel.warps), "rings") *
                 given<N>(double(kernel.stages), "stages") *
                 given<N>(double(kernel.pieceKeys), "keys of a piece") * token,
             blockBytes}),
      "bytes in flight of a block", "B");
}

/// Computes the cost of a key on an SM: products, exponentials and issue for
/// each 16 rows, fragments for all rows, and the conversion of e4m3.
template <Number N> void AttentionDecodeModel<N>::computeKey() {
  constexpr double kTileRows = 16, kIssue = 4;
  rate = decodeRate(problem.dtype, problem.kv);
  const bool isNarrow = bytesOf(problem.kv) == 1;
  const N tiles =
      given<N>(std::ceil(double(kernel.rows) / kTileRows), "row tiles");
  const N token = given<N>(tokenBytes(problem), "of a token", "B");
  const N dims = given<N>(double(problem.headDim), "d") +
                 given<N>(double(problem.valueDim), "dv");
  // Warps that share a ring compute the same scores.
  N multiplied = dims, read = token;
  if (kernel.parts > 1) {
    const N again = given<N>(double(problem.headDim * (kernel.parts - 1)),
                             "d of other warps");
    multiplied = dims + again;
    read += again * given<N>(bytesOf(problem.kv), "of an element", "B");
  }
  keyClocks =
      tiles * (N(2 * kTileRows) * multiplied / usedRate<N>(device, rate) +
               N(kTileRows) /
                   deviceValue<N>(device, &DeviceModel::specialOpsPerClock) +
               fitted<N>(kIssue, "issue", "clk")) +
      read / deviceValue<N>(device, &DeviceModel::sharedBytesPerClockPerSm);
  // A piece's products, maxima and exponentials wait for each other: 1130
  // clocks for 16 keys of head dim 128, 1570 for 32.
  constexpr double kPieceClocks = 700, kElementClocks = 0.105;
  N alone = fitted<N>(kPieceClocks, "of a piece", "clk") /
                given<N>(double(kernel.pieceKeys), "keys of a piece") +
            fitted<N>(kElementClocks, "of an element", "clk") * dims * tiles;
  if (isNarrow) {
    // Before sm_89 seven instructions, on 128 lanes, convert two elements.
    const double converted = device.computeCapability() >= 89 ? 124 : 36;
    const N clocks =
        named(multiplied / given<N>(converted, "elements of a clock"),
              "conversion of e4m3", "clk");
    keyClocks += clocks;
    // A warp converts with the units of its sub-core, and its products wait for
    // that (4 sequences of 131072 keys of e4m3, H200: 333 us with one block of
    // four warps on an SM, 250 us with two blocks half as long).
    alone += clocks * deviceValue<N>(device, &DeviceModel::subCoresPerSm);
  }
  // Copies of 16 bytes bypass the L1 cache and add no cost to the rest; it
  // takes half a warp of narrower ones a clock (not measured).
  constexpr double kCopies = 16;
  if (kernel.copyBytes < 16)
    keyClocks += token / given<N>(double(kernel.copyBytes), "of a copy", "B") /
                 given<N>(kCopies, "copies of a clock");
  // Warps of a ring meet at each piece (MLA, 16 and 128 heads: 249 and 1940 us,
  // predicted 196 and 1490 us without this).
  constexpr double kWaits = 1.3;
  if (kernel.parts > 1)
    keyClocks = fitted<N>(kWaits, "waits of a ring's warps") * keyClocks;
  keyClocks = named(keyClocks, "arithmetic of a key", "clk");
  warpKeyClocks = named(alone, "key in a warp alone", "clk");
}

template <Number N>
DecodeWave<N> AttentionDecodeModel<N>::waveOf(double count) const {
  constexpr double kPaged = 1.03; // rows of pages are shorter bursts
  // While a block starts and merges, few of its keys are in flight: 9 problems
  // of 32 to 479 keys in 2 to 31 waves (H200) to 25 %. Rows without a query
  // have no sums to merge.
  constexpr double kLifeNs = 1500, kSumNs = 1.15;
  DecodeWave<N> wave;
  wave.blocks = count;
  if (count <= 0)
    return wave;
  const N all = given<N>(count, "blocks");
  const N bytes = all * blockBytes;
  N fromDram = given<N>(dramShare, "share from DRAM") * bytes;
  if (problem.pages != AttentionPages::None)
    fromDram = fitted<N>(kPaged, "rows of pages") * fromDram;
  wave.dram = named(fromDram / dramRate, "DRAM", "ns");
  if (valueOf(inFlight) > 0)
    wave.little =
        named(fromDram / (dramRate * least({N(1), all * inFlight / needed})),
              "DRAM by bytes in flight", "ns");
  wave.port = named(bytes / (given<N>(std::min(count, sms()), "busy SMs") *
                             smPort<N>() * clock),
                    "ports of busy SMs", "ns");
  wave.l2 =
      named(bytes / deviceValue<N>(device, &DeviceModel::l2GBs), "L2", "ns");
  if (blocks > slots)
    wave.life =
        named(fitted<N>(kLifeNs, "start and end", "ns") +
                  fitted<N>(kSumNs, "of a sum", "ns") *
                      given<N>(double(usedRows()), "rows with a query") *
                      given<N>(double(problem.valueDim), "dv") +
                  wave.port,
              "life of a block", "ns");
  // The SM's arithmetic, or that of a warp whose products and exponentials wait
  // for each other.
  wave.arithmetic = named(
      given<N>(blockKeys, "keys of a block") *
          largest({given<N>(std::ceil(count / sms()), "blocks of an SM") *
                       keyClocks,
                   warpKeyClocks / given<N>(double(kernel.warps), "rings")}) /
          clock,
      "arithmetic", "ns");
  wave.total = largest(
      {wave.dram, wave.little, wave.port, wave.l2, wave.arithmetic, wave.life});
  return wave;
}

template <Number N> int64_t AttentionDecodeModel<N>::usedRows() const {
  return std::min(kernel.rows, problem.queries * problem.group());
}

template <Number N> llvm::StringRef AttentionDecodeModel<N>::bound() const {
  if (stream < total - stream)
    return "latency";
  const DecodeWave<N> &wave = main();
  if (wave.total == wave.arithmetic)
    return "simd";
  if (wave.total == wave.dram)
    return "dram";
  return wave.total == wave.l2 ? "l2" : "latency";
}

template struct AttentionDecodeModel<double>;
template struct AttentionDecodeModel<Figure>;

Estimate estimateAttentionDecode(const AttentionProblem &problem,
                                 const AttentionDecodeKernel &kernel,
                                 const DeviceModel &device) {
  const AttentionDecodeModel<double> model(problem, kernel, device);
  return {model.total, model.bound()};
}

//===----------------------------------------------------------------------===//
// Naive
//===----------------------------------------------------------------------===//

template <Number N>
NaiveAttentionModel<N>::NaiveAttentionModel(const AttentionProblem &problem,
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
  const N clock = attentionClock<N>(device);
  const N sms = deviceValue<N>(device, &DeviceModel::smCount);
  const VisibleBlocks visible = visibleBlocks(problem, 1, 1, 1);
  const double heads = double(problem.batch) * double(problem.heads);
  const N key = fitted<N>(kKeyClocks, "of a key", "clk") +
                fitted<N>(kElementClocks, "of an element", "clk") *
                    (given<N>(double(problem.headDim), "d") +
                     given<N>(double(problem.valueDim), "dv"));
  issue = named(
      (given<N>(double(expectedQueries(problem)) * heads, "rows") *
           given<N>(kRowClocks, "of a row", "clk") +
       given<N>(double(visible.blocks) * heads, "keys of all rows") * key) /
          sms / clock,
      "instructions", "ns");
  longest = named(given<N>(std::ceil(double(visible.longest) / kKeysAtOnce),
                           "pieces of four keys") *
                      fitted<N>(kPieceClocks, "of a piece", "clk") / clock,
                  "longest row", "ns");
  walk = named(issue + longest, "rows and the last of them", "ns");
  // Each head of K is read from DRAM at least once, a few keys at a time; Q and
  // O pass a row at a time.
  constexpr double kReachedOfDram = 0.6;
  stream = named(operandBytes<N>(problem) /
                     (fitted<N>(kReachedOfDram, "share reached") *
                      deviceValue<N>(device, &DeviceModel::dramGBs)),
                 "bytes at few in flight", "ns");
  total = deviceValue<N>(device, &DeviceModel::launchNs) +
          deviceValue<N>(device, &DeviceModel::rampNs) +
          fitted<N>(kStart, "start", "ns") +
          named(largest({walk, stream}), "all rows", "ns");
}

template struct NaiveAttentionModel<double>;
template struct NaiveAttentionModel<Figure>;

Estimate estimateNaiveAttention(const AttentionProblem &problem,
                                const DeviceModel &device) {
  const NaiveAttentionModel<double> model(problem, device);
  return {model.total, model.bound()};
}

} // namespace kiln
