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

#include "Model/MathUtil.h"
#include "Model/Rates.h"
#include "Model/Wgmma.h"

#include <cmath>

namespace kiln {

/// From the start of a block to its first load: barriers, tensor maps, roles.
static constexpr double kStartNs = 1500;
/// Half of the loading thread's time for pages shows in every step, all of it
/// before the first products.
static constexpr double kPagesShare = 0.5;

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

template <Number N>
N mergeNs(const AttentionProblem &problem, const KeySplits &splits,
          SplitMerge merge) {
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
  if (merge == SplitMerge::None || splits.all == 1)
    return 0;
  if (merge == SplitMerge::Cluster)
    return named(fitted<N>(kClusterNs, "meetings of the cluster", "ns") +
                     fitted<N>(kClusterBlockNs, "for a block", "ns") *
                         given<N>(double(splits.all), "splits"),
                 "merge of splits", "ns");
  const N width = given<N>(double(problem.valueDim), "dv") / N(kRowElements);
  const N active = given<N>(double(splits.active), "splits with keys");
  const double queries = double(expectedQueries(problem));
  if (merge == SplitMerge::LastBlock)
    return named(
        fitted<N>(kLastNs, "start of the merge", "ns") +
            given<N>(queries * double(problem.group()), "rows of a head of K") *
                active * fitted<N>(kAloneRowNs, "for a row", "ns") * width,
        "merge of splits", "ns");
  const N start = merge == SplitMerge::DependentLaunch
                      ? fitted<N>(kDependentNs, "start of the merge", "ns")
                      : fitted<N>(kLaunchNs, "launch of the merge", "ns");
  const double rows = queries * double(problem.heads) * double(problem.batch);
  return named(start +
                   given<N>(rows, "rows") * active *
                       fitted<N>(kRowNs, "for a row", "ns") * width +
                   active * fitted<N>(kSplitNs, "for a split", "ns") * width,
               "merge of splits", "ns");
}
template double mergeNs(const AttentionProblem &, const KeySplits &,
                        SplitMerge);
template Figure mergeNs(const AttentionProblem &, const KeySplits &,
                        SplitMerge);

template <Number N> N splitSkewNs(const KeySplits &splits, const N &ns) {
  constexpr double kSkew = 0.25, kMostSkewNs = 2500;
  if (splits.active <= 1)
    return 0;
  return named(least({fitted<N>(kSkew, "part of it") * ns,
                      fitted<N>(kMostSkewNs, "at most", "ns")}),
               "skew of splits", "ns");
}
template double splitSkewNs(const KeySplits &, const double &);
template Figure splitSkewNs(const KeySplits &, const Figure &);

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
// A step
//===----------------------------------------------------------------------===//

template <Number N>
AttentionTileModel<N>::AttentionTileModel(const AttentionProblem &problem,
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
                           kernel.keys)),
      clock(attentionClock<N>(device)),
      busyLatency(busyDramLatencyNs<N>(device)) {
  countTiles();
  computeProducts();
  if (isWgmma())
    computeWgmmaStep();
  else
    computeMmaStep();
  computePace();
  computeEnds();
  computePath();
  computeBytes();
  const N skew = splitSkewNs<N>(splits, largest({tilesNs + tailNs, floorNs}));
  total = deviceValue<N>(device, &DeviceModel::launchNs) +
          deviceValue<N>(device, &DeviceModel::rampNs) +
          fitted<N>(kStartNs, "start of blocks", "ns") + firstNs + tilesNs +
          tailNs + beyondNs + skew + mergeNs<N>(problem, splits, kernel.merge);
}

template <Number N> void AttentionTileModel<N>::countTiles() {
  visible = visibleBlocks(
      problem, kernel.filledRows > 0 ? kernel.filledRows : kernel.rows,
      kernel.packed, kernel.keys);
  const double sequences =
      double(problem.batch) * double(problem.kvHeads) *
      double(ceilDiv(problem.group(), std::max<int64_t>(kernel.packed, 1)));
  splitBlocks = double(ceilDiv(splits.keys, kernel.keys));
  blocks = sequences * double(visible.blocks);
  // With a mask some rows see no keys of a split; on average, half of the rows
  // see none of the last split with keys.
  numbers = sequences * double(visible.tiles) * double(splits.active);
  tiles = numbers;
  if (problem.mask != AttentionMask::None && splits.active > 1)
    tiles = std::min(tiles, blocks / splitBlocks +
                                sequences * double(visible.tiles) / 2);
  if (splits.active == 1 && visible.empty < visible.tiles)
    idle = sequences * double(visible.empty);
  turns = std::ceil(numbers / sms());
}

/// \p keepsOrigins: the step makes weights over the origins of the steps
/// before.
template <Number N>
N AttentionTileModel<N>::softmaxClocks(bool keepsOrigins) const {
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
  const N rows = given<N>(double(kernel.rows), "rows");
  N score = fitted<N>(keepsOrigins ? kKeptScore : kScore, "of a score", "clk");
  if (problem.softcap > 0)
    score += N(1) / deviceValue<N>(device, &DeviceModel::specialOpsPerClock);
  if (problem.alibi)
    score += given<N>(kAlibi, "ALiBi", "clk");
  if (!kernel.foldedScale)
    score += fitted<N>(kPlainScale, "scaling", "clk");
  N clocks = score * rows * given<N>(double(kernel.keys), "keys");
  if (!keepsOrigins)
    clocks += fitted<N>(kOutput, "of an element of O", "clk") * rows *
              given<N>(valueDim, "dv");
  if (!isWgmma())
    return clocks + fitted<N>(kStepOfWarps, "of a step", "clk");
  clocks += fitted<N>(keepsOrigins ? kKeptStep : kStep, "of a step", "clk");
  const bool isThree = kernel.rows > 2 * kWgmmaRows;
  double share = isThree ? kThree : kFewer;
  if (kernel.takesTurns)
    share = isThree ? kThreeInTurns : kFewerInTurns;
  // Products of e4m3 are short: two consumers wait for their turns (head dim
  // 128, blocks of 224 keys, 4 sequences of 4096: 696 us, 624 us without
  // turns).
  constexpr double kE4M3InTurns = 1.2;
  if (kernel.takesTurns && !isThree && problem.dtype == DType::E4M3)
    share = kE4M3InTurns;
  return fitted<N>(share, "consumers side by side") * clocks;
}

/// Both products and the softmax of a step, each on its own.
template <Number N> void AttentionTileModel<N>::computeProducts() {
  rate = attentionRate(problem.dtype, kernel.instruction);
  flops = named(N(2) * given<N>(double(kernel.rows), "rows") *
                    given<N>(double(kernel.keys), "keys") *
                    (given<N>(headDim, "d") + given<N>(valueDim, "dv")),
                "flop of a step", "flop");
  step.tensor = named(flops / usedRate<N>(device, rate), "products", "clk");
  step.softmax = named(softmaxClocks(kernel.keepsOrigins), "softmax", "clk");
  step.raised = kernel.keepsOrigins
                    ? named(softmaxClocks(false), "softmax with maxima", "clk")
                    : step.softmax;
}

template <Number N> void AttentionTileModel<N>::computeWgmmaStep() {
  if (!kernel.overlaps) {
    // Other consumers multiply meanwhile.
    step.softmaxShare = step.tensor >= step.softmax ? 0.45 : 0.7;
    step.loop =
        named(step.tensor + fitted<N>(step.softmaxShare, "part that shows") *
                                step.softmax,
              "products and softmax", "clk");
    return;
  }
  // A lone consumer waits for its maxima while no other multiplies. Two with
  // the same rows wait for each other's weights, and for blocks of keys that
  // arrive when both are done with the last ones: nearly all times add up (MLA,
  // 128 sequences of 4096 keys and 128 heads: 3280 clocks a step).
  constexpr double kTogether = 5, kAlone = 1.6, kSameRows = 1.15;
  const double exponent = kernel.columnParts > 1     ? kSameRows
                          : kernel.rows > kWgmmaRows ? kTogether
                                                     : kAlone;
  step.loop = named(norm(exponent, {step.tensor, step.softmax}),
                    "products beside softmax", "clk");
  if (kernel.boxes > 0)
    step.pages = named(fitted<N>(kernel.boxClocks, "of a box", "clk") *
                           given<N>(double(kernel.boxes), "boxes of pages"),
                       "pages of a step", "clk");
  if (kernel.keepsOrigins)
    step.raising =
        named(excess(norm(exponent, {step.tensor, step.raised}), step.loop),
              "maxima beyond the loop", "clk");
}

template <Number N> void AttentionTileModel<N>::computeMmaStep() {
  constexpr double kConflicts = 8, kWait = 0.5;
  // Two warps of a scheduler overlap products and loads of fragments, and half
  // of the softmax: own kernels at head dim 128 (64 and 128 rows, 32 to 128
  // keys, 4 and 8 warps) to 10 %.
  constexpr double kFewWarps = 8, kOverlapped = 0.5;
  const N d = given<N>(headDim, "d");
  const N element = given<N>(bytesOf(problem.dtype), "of an element", "B");
  const N keys = given<N>(double(kernel.keys), "keys") *
                 (d + given<N>(valueDim, "dv")) * element;
  N read = given<N>(double(kernel.warps), "warps") * keys;
  if (!kernel.residentQueries)
    read += given<N>(double(kernel.rows), "rows") * d * element;
  N clocks =
      read / deviceValue<N>(device, &DeviceModel::sharedBytesPerClockPerSm);
  if (!kernel.swizzled)
    clocks *= fitted<N>(kConflicts, "bank conflicts");
  step.shared = named(clocks, "fragments", "clk");
  const bool isFew = double(kernel.warps * kernel.blocksPerSm) < kFewWarps;
  step.softmaxShare = isFew ? 1 : kOverlapped;
  N loop = isFew ? step.tensor + step.shared
                 : named(norm(2, {step.tensor, step.shared}),
                         "products beside fragments", "clk");
  loop += isFew ? step.softmax
                : fitted<N>(kOverlapped, "part that shows") * step.softmax;
  // Waits for loads that no product hides, and copies through registers; other
  // blocks of the SM compute meanwhile.
  N loads = 0;
  if (!kernel.eagerLoads || !kernel.asyncCopy)
    loads += fitted<N>(kWait, "part that waits") *
             deviceValue<N>(device, &DeviceModel::l2LatencyNs) * clock;
  if (!kernel.asyncCopy)
    loads += keys / fitted<N>(kL2BytesPerClockPerSm, "port", "B/clk");
  if (valueOf(loads) > 0)
    loop +=
        named(loads / given<N>(double(std::max<int64_t>(kernel.blocksPerSm, 1)),
                               "blocks of an SM"),
              "loads that nothing hides", "clk");
  step.loop = named(loop, "products and softmax", "clk");
  // Narrow steps of long rows have too few scores to hide that their products,
  // of 16 elements along k each, wait for one another (head dim 256, blocks of
  // 16 keys on an H200: up to 1.75 times the time that the rates predict).
  constexpr double kChainedProduct = 40, kChainedRest = 0.5, kDepth = 16;
  step.chained =
      named(fitted<N>(kChainedProduct, "of a product", "clk") * d / N(kDepth) +
                fitted<N>(kChainedRest, "part that waits") * step.loop,
            "chain of products", "clk");
}

template <Number N> void AttentionTileModel<N>::computePace() {
  // K and V of a step, for which all SMs ask L2 at the same time.
  stepBytes = named(given<N>(double(kernel.keys), "keys") *
                        given<N>(tokenBytes(problem), "of a token", "B"),
                    "K and V of a step", "B");
  N asked = stepBytes * deviceValue<N>(device, &DeviceModel::smCount);
  if (kernel.sharers > 1)
    asked = asked / given<N>(double(kernel.sharers), "SMs that share them");
  step.l2 = named(asked * clock / deviceValue<N>(device, &DeviceModel::l2GBs),
                  "keys from L2", "clk");
  step.port = named(stepBytes / smPort<N>(), "keys through the port", "clk");
  step.loaded = step.loop;
  if (valueOf(step.pages) > 0)
    step.loaded = named(step.loop + fitted<N>(kPagesShare, "part that shows") *
                                        step.pages,
                        "loop with pages", "clk");
  step.pace = named(
      largest({step.loaded, step.pages, step.chained, step.l2, step.port}),
      "pace of a step", "clk");
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// Q in and O out. Consumers of the same rows have parts of them.
template <Number N> N AttentionTileModel<N>::elementClocks() const {
  constexpr double kElement = 0.08;
  const double elements = double(kernel.rows) * (headDim + valueDim) /
                          double(std::max<int64_t>(kernel.columnParts, 1));
  return fitted<N>(kElement, "of an element", "clk") *
         given<N>(elements, "elements of Q and O");
}

/// Steps that raise origins after the first one.
template <Number N>
N AttentionTileModel<N>::raisingClocks(const N &overhead) const {
  if (!kernel.keepsOrigins || visible.tiles == 0)
    return 0;
  double count = kernel.raisesLast ? 1 : 0;
  if (problem.mask != AttentionMask::None)
    count += std::max(double(visible.masked) / double(visible.tiles) - 1, 0.0);
  return count == 0 ? N(0)
                    : given<N>(count, "further steps with maxima") * overhead *
                          step.raising;
}

/// The wait for the first loads, at the start and between tiles.
template <Number N> N AttentionTileModel<N>::firstLoads() const {
  constexpr double kLoads = 600, kNextLoads = 3000;
  N loads = fitted<N>(kLoads, "first loads", "clk");
  // The next tile's first keys and its Q come from DRAM. Their loads start when
  // the stages are free that this tile's last steps still read. Short steps end
  // before they arrive: 216 queries of 216 keys (H200; 25 sequences, 16 heads,
  // head dim 128) take 45 us with blocks of 64 keys, 37.5 us with 128.
  if (kernel.loadsAhead && kernel.stages > 0 && tiles > sms())
    loads =
        named(largest({loads,
                       fitted<N>(kNextLoads, "next tile's loads", "clk") -
                           given<N>(double(kernel.stages - 1), "stages ahead") *
                               step.pace}),
              "loads between tiles", "clk");
  if (valueOf(step.pages) > 0)
    loads += fitted<N>(1 - kPagesShare, "other part") * step.pages;
  return loads;
}

template <Number N> void AttentionTileModel<N>::computeEnds() {
  constexpr double kGathering = 1.14, kBarriers = 1.04, kPacked = 1.05,
                   kDraw = 400;
  N overhead = fitted<N>(kBarriers, "loads and barriers");
  if (kernel.gathers)
    overhead *= fitted<N>(kGathering, "rows gathered");
  if (kernel.packed > 1)
    overhead *= fitted<N>(kPacked, "several heads");
  step.total = named(overhead * step.pace, "time of a step", "clk");
  const N alone = named(excess(step.tensor + step.raised, step.loop),
                        "work without overlap", "clk");
  idleEnds = elementClocks();
  // A tile waits for its number.
  if (isWgmma() && kernel.isDrawn)
    idleEnds += fitted<N>(kDraw, "draw of a number", "clk");
  ends = named(alone + raisingClocks(overhead) + firstLoads() + idleEnds,
               "ends of a tile", "clk");
  allEnds = given<N>(tiles - idle, "tiles with keys") * ends;
  if (idle > 0) {
    idleEnds = named(idleEnds, "ends of a tile without keys", "clk");
    allEnds += given<N>(idle, "tiles without keys") * idleEnds;
  }
  all = named(allEnds + given<N>(blocks, "steps") * step.total, "all tiles",
              "clk");
}

/// A tile that sees \p count blocks of keys.
template <Number N> N AttentionTileModel<N>::tileClocks(int64_t count) const {
  if (count == 0 && idle > 0)
    return idleEnds;
  double steps = double(count);
  if (splits.active > 1)
    steps = std::min(steps, splitBlocks);
  return ends + given<N>(steps, "steps") * step.total;
}

/// The part of the last tile that ends behind the path. The last SM may have
/// taken any tile or, with the longest first, a short one. Static tiles come in
/// turns even if they have no keys.
template <Number N> N AttentionTileModel<N>::lastTile() const {
  const bool isDrawn = kernel.order == TileOrder::Dynamic ||
                       kernel.order == TileOrder::LongestFirst;
  if ((isDrawn ? tiles : numbers) <= sms())
    return 0;
  switch (kernel.order) {
  case TileOrder::Static:
    return excess(given<N>(turns - 1, "turns before") * all /
                          given<N>(tiles, "tiles") +
                      longest,
                  path);
  case TileOrder::Pairs: {
    // The middle tile of an odd number has no partner, and always the same
    // blocks get such halves (head dim 64, three tiles a head, H200: 201 us,
    // 151 us when drawn).
    const double ofHead = double(visible.tiles);
    const double pairs = numbers / ofHead * std::ceil(ofHead / 2);
    return excess(given<N>(std::ceil(pairs / sms()), "pairs of an SM") *
                      (longest + shortest),
                  path);
  }
  case TileOrder::Dynamic:
    return longest / N(2);
  case TileOrder::LongestFirst: {
    // Some SM has a tile of each turn, none shorter than the first tile of the
    // last turn.
    const double before = (turns - 1) * sms() / numbers;
    const N least = longest - (longest - shortest) *
                                  given<N>(before, "share of the turns before");
    return largest({shortest / N(2), given<N>(turns, "turns") * least - path});
  }
  }
  return 0;
}

template <Number N> void AttentionTileModel<N>::computePath() {
  longest = named(tileClocks(visible.longest), "longest tile", "clk");
  shortest = named(tileClocks(visible.shortest), "shortest tile", "clk");
  if (tiles == 0)
    return;
  path =
      named(hasEqualTiles()
                ? given<N>(turns, "turns") * longest
                : largest({all / deviceValue<N>(device, &DeviceModel::smCount),
                           longest}),
            "SM with the most work", "clk");
  // One long sequence among usual ones, as in decode kernels.
  if (problem.isRagged() && problem.queryLengths == AttentionLengths::Uniform) {
    const double most = double(std::min(splits.keys, problem.keys));
    tail = lastPart<N>() *
           given<N>(most / double(kernel.keys), "steps of a long sequence") *
           step.total;
  }
  if (!hasEqualTiles())
    tail += lastTile();
  tilesNs = named(path / clock, "tiles", "ns");
  if (valueOf(tail) > 0)
    tailNs = named(tail / clock, "last tile", "ns");
}

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

template <Number N> void AttentionTileModel<N>::computeBytes() {
  // DRAM's bytes, once, at the rate that the bytes in flight of busy SMs allow:
  // a step's keys, and half of the next one's.
  constexpr double kReached = 0.955; // fraction of the rate of a pure read
  constexpr double kSteps = 1.5;
  const N dram = deviceValue<N>(device, &DeviceModel::dramGBs);
  const N streamed = named(fitted<N>(kReached, "share of a pure read") * dram,
                           "rate of full streams", "B/ns");
  inFlight = named(given<N>(std::min(tiles, sms()), "busy SMs") *
                       fitted<N>(kSteps, "steps in flight") * stepBytes,
                   "bytes in flight", "B");
  const N present = valueOf(inFlight) < 1 ? N(1) : inFlight;
  dramRate =
      named(streamed *
                least({N(1), present / neededBytes(loadedLatencyNs(busyLatency),
                                                   dram)}),
            "DRAM's rate", "B/ns");
  floorNs =
      named(operandBytes<N>(problem) / dramRate, "floor of the bytes", "ns");
  // All blocks ask for the first step's keys at the same time: after the
  // latency of the first byte they arrive as fast as DRAM delivers. Keys that
  // several tiles read come from DRAM once.
  const double resident = sms() * (isWgmma() ? 1 : double(kernel.blocksPerSm));
  const N asked = given<N>(blocks, "steps") * stepBytes;
  if (valueOf(asked) > 0) {
    dramShare = named(
        least({given<N>(keyBytes(problem), "K and V", "B") / asked, N(1)}),
        "share of the keys from DRAM", "");
    firstNs = named(given<N>(std::min(tiles, resident), "first tiles") *
                        stepBytes * dramShare / streamed,
                    "first keys", "ns");
  }
  beyondNs = named(excess(floorNs, firstNs + tilesNs + tailNs),
                   "bytes beyond the tiles", "ns");
}

template <Number N> llvm::StringRef AttentionTileModel<N>::bound() const {
  if (valueOf(beyondNs) > 0)
    return "dram";
  if (allEnds > all - allEnds)
    return "latency";
  const N others = largest({step.loaded, step.l2, step.port});
  // Products wait for one another, or the thread that loads is the limit.
  if (step.chained > others || step.pages > others)
    return "latency";
  if (step.pace > step.loaded)
    return "l2";
  const double softmax = step.softmaxShare * valueOf(step.softmax);
  if (valueOf(step.shared) > std::max(valueOf(step.tensor), softmax))
    return "shared";
  return valueOf(step.tensor) >= softmax ? "tensor" : "simd";
}

template struct AttentionTileModel<double>;
template struct AttentionTileModel<Figure>;

Estimate estimateAttentionTiles(const AttentionProblem &problem,
                                const AttentionTileKernel &kernel,
                                const DeviceModel &device) {
  const AttentionTileModel<double> model(problem, kernel, device);
  return {model.total, model.bound()};
}

} // namespace kiln
