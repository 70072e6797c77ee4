//===- ResidentRows.cpp - the template "resident" -------------------------===//
#include "Families/Rows/ResidentRegisters.h"
#include "Families/Rows/RowTemplate.h"
#include "Model/MathUtil.h"
#include "rows/ResidentRowsConfig.h"

#include <algorithm>

namespace kiln {

namespace {

class ResidentRowsTemplate final
    : public RowTemplate<ResidentRowsTemplate, ResidentRowsConfig> {
public:
  explicit ResidentRowsTemplate(RowKind kind)
      : RowTemplate(kind, {"rows/ResidentRows.cuh", "RowSignature",
                           "ResidentRowsConfig", "RowParams", "residentRows"}) {
  }

  template <Number N>
  MemoryPass<N> stream(const RowProblem &problem, const RowSignature &signature,
                       const ResidentRowsConfig &config,
                       const DeviceModel &device) const;

  CandidateClass
  classOfConfig(const ResidentRowsConfig &config) const override {
    // A class is the place that keeps a row, and the way in which short rows
    // are read.
    int64_t key = 8 * config.cluster + 4 * (config.vector == 1) +
                  2 * (config.sharedVectors > 0) + config.spread;
    return {static_cast<uint64_t>(key), 0};
  }

protected:
  void forEachConfig(const RowProblem &problem, const DeviceModel &device,
                     Emit<ResidentRowsConfig> emit) const override;
  std::optional<Rejection>
  checkLimits(const RowProblem &problem, const RowSignature &signature,
              const ResidentRowsConfig &config,
              const DeviceModel &device) const override;
};

} // namespace

//===----------------------------------------------------------------------===//
// Space
//===----------------------------------------------------------------------===//

/// ResidentRowsConfig::fillsMost() of every row of \p problem.
static bool fillsMost(const RowProblem &problem,
                      const ResidentRowsConfig &config) {
  // The ends of rows that begin anywhere replace a few vectors at most.
  int64_t most = problem.cols / config.vector;
  int64_t least = config.start == 0 ? most : most - 4;
  const int step = signatureOf(problem)
                       .scaleShare(config.vector, config.rowThreads)
                       .vectors();
  for (int64_t vectors = std::max<int64_t>(least, 0); vectors <= most;
       ++vectors)
    if (!config.fillsMost(vectors, step))
      return false;
  return true;
}

namespace {
/// Enumerates the configs of one problem.
class ResidentSpace {
public:
  ResidentSpace(const RowProblem &problem, const DeviceModel &device,
                Emit<ResidentRowsConfig> emit)
      : problem(problem), signature(signatureOf(problem)), device(device),
        emit(emit) {
    // Results of consecutive tasks are written in better order if they stay in
    // L2 for a while (RowCosts.h, addHintCosts); the first guess follows
    // from the size. Data that is only read bypasses L1.
    constexpr double kLongOfL2 = 0.5;
    const PassWork work = rowWork(problem);
    isLong = work.writeBytes + work.readBytes >
                 kLongOfL2 * static_cast<double>(device.l2Bytes) &&
             !isReduction(problem.op);
  }

  void run() {
    for (int64_t vector : vectorsToTry(problem))
      visitVector(vector);
    // Half the width, if accesses stay aligned or results are wider.
    int64_t half = vectorsToTry(problem).back() / 2;
    if (half > 0 && (startFor(problem, half) == RowStart::Aligned ||
                     bytesOf(problem.out) > bytesOf(problem.dtype)))
      visitVector(half);
  }

private:
  void visitVector(int64_t vector) {
    config.vector = static_cast<int>(vector);
    config.start = static_cast<int>(startFor(problem, vector));
    int64_t ofRow = std::max<int64_t>(problem.cols / vector, 1);
    // Two to four vectors a thread come first: enough loads in flight, few
    // registers.
    for (int64_t least : {2, 4, 1, 8})
      for (int rowThreads : {256, 128, 512, 1024, 64, 32, 16, 8, 4, 2, 1}) {
        int64_t vectors = ceilDiv(ofRow, rowThreads);
        bool isMost = least == 8 && vectors > 8;
        if (!isMost && (vectors < least || vectors >= 2 * least))
          continue;
        // At most half of the group idles, except for the smallest group. Ends
        // are work for a lane as well.
        const int fewest = leastRowThreads(problem, vector);
        if (rowThreads < fewest ||
            (rowThreads > fewest &&
             rowThreads / 2 >= ofRow + (config.start != 0)))
          continue;
        // Ends need several lanes where there are vectors for several.
        constexpr int kLanesOfEnds = 8;
        if (config.start != 0 && rowThreads < kLanesOfEnds &&
            ofRow > kLanesOfEnds / 2)
          continue;
        config.rowThreads = rowThreads;
        config.cluster = 1;
        visitHolding(vectors);
        // A reduction needs no place to keep its rows.
        if (!device.hasClusters() || rowThreads < 256 ||
            isReduction(problem.op) || !signature.hasStatistics())
          continue;
        for (int cluster : {8, 4, 2}) {
          config.cluster = cluster;
          visitHolding(ceilDiv(ceilDiv(ofRow, cluster), rowThreads));
        }
      }
    visitSpread(ofRow);
  }

  /// Rows with more blocks than a cluster has: one block for each SM, if each
  /// thread still has at least one vector.
  void visitSpread(int64_t ofRow) {
    if (isReduction(problem.op) || device.ccMajor < 8)
      return;
    int64_t most = device.smCount / std::max<int64_t>(problem.rows, 1);
    // Rows without statistics need no cluster to be shared.
    const int64_t fewest = signature.hasStatistics() ? kMostClustered : 1;
    config.cluster = 1;
    for (int rowThreads : {512, 256, 1024}) {
      int64_t blocks = std::min(most, ceilDiv(ofRow, rowThreads));
      if (blocks <= fewest)
        continue;
      config.rowThreads = rowThreads;
      config.spread = 1;
      config.rowBlocks = static_cast<int>(blocks);
      visitHolding(ceilDiv(ceilDiv(ofRow, blocks), rowThreads));
    }
    config.spread = 0;
    config.rowBlocks = 1;
  }

  /// The most vectors of a thread before rows need more threads: vectors of
  /// operands that all rows share wait for each other (H100, layer norm of 4100
  /// columns: 4 shifted vectors take 10 % less time than 8; 12289 columns: 6
  /// take 14 % less than 12; H200, 16384 columns: 8 unshifted ones take 12 %
  /// less than 16).
  int64_t mostVectors() const {
    constexpr int64_t kMost = 12, kMostShifted = 8;
    constexpr int kManyThreads = 512;
    bool isWaiting =
        sharedOperandBytes(problem) > 0 || config.rowStart() == RowStart::Any;
    if (config.rowThreads >= kManyThreads || !isWaiting)
      return ResidentRowsConfig::kMaxVectors +
             ResidentRowsConfig::kMaxSharedVectors;
    return config.start != 0 ? kMostShifted : kMost;
  }

  /// Visits configs in which a thread keeps \p vectors vectors of its row.
  void visitHolding(int64_t vectors) {
    // A thread has its part of a block with a scale of its own, or none.
    const int64_t ofScale =
        signature.scaleShare(config.vector, config.rowThreads).items;
    vectors = roundUp(vectors, ofScale);
    constexpr int64_t kMostInRegisters = 8, kMostShared = 12;
    int64_t shared = vectors - std::min(vectors, kMostInRegisters);
    // A copy to shared memory cannot shift.
    int64_t mostShared = config.rowStart() == RowStart::Any ||
                                 isReduction(problem.op) ||
                                 !signature.hasStatistics()
                             ? 0
                             : kMostShared;
    // A cluster costs a barrier, and a wave has its SMs: few vectors a thread
    // pay only for rows that are too few to fill the GPU otherwise.
    bool isSingle = problem.rows * config.cluster <= 2 * device.smCount;
    if (shared > mostShared ||
        (config.cluster > 1 && vectors < (isSingle ? 2 : 4)) ||
        vectors > mostVectors())
      return;
    // Few narrow vectors are kept there: each has an address and bounds.
    constexpr int64_t kMostNarrow = 4;
    if (config.vector < vectorsToTry(problem).front())
      mostShared = std::min(mostShared, kMostNarrow);
    if (shared > mostShared)
      return;
    config.vectors = static_cast<int>(vectors - shared);
    config.sharedVectors = static_cast<int>(shared);
    visitBlocks();
    // With half of the row in shared memory there are registers for more
    // blocks.
    if (mostShared >= vectors / 2 && vectors >= 4 && config.rowThreads >= 128 &&
        2 * shared < vectors) {
      config.vectors = static_cast<int>(vectors - vectors / 2);
      config.sharedVectors = static_cast<int>(vectors / 2);
      visitBlocks();
    }
    config.sharedVectors = 0;
  }

  void visitBlocks() {
    for (int blockThreads : {128, 256, 512, 1024}) {
      // Rows of a block share its barriers, unless each row belongs to a warp.
      // So rows only share a block where one row would make too small a block
      // (H100: 2 to 10 %, rms norm of 4097 columns by 128 threads).
      constexpr int kSmallBlock = 128;
      int most = config.rowThreads > kWarpThreads
                     ? std::max(config.rowThreads, kSmallBlock)
                     : 2 * kSmallBlock;
      if (blockThreads < config.rowThreads || blockThreads > most)
        continue;
      config.blockThreads = blockThreads;
      if (config.spread && blockThreads != config.rowThreads)
        continue;
      for (int rows : {1, 2, 4}) {
        config.rows = rows;
        if (rows == 1 || hasRoomForRows())
          visitForms();
      }
    }
  }

  /// Whether a thread may have several rows. This pays for short rows with too
  /// few loads, or for two rows whose weights have many vectors that each row
  /// has to shift (H200: layer norm of 3151 x 50147, 7 vectors, 191 against 197
  /// us; rms norm of 5272 x 10057, 5 vectors 58.0 against 58.9, 3 vectors 68
  /// against 58; aligned weights gain nothing).
  bool hasRoomForRows() const {
    if (config.start == 0)
      return config.rowThreads <= 64 && config.sharedVectors == 0 &&
             config.vectors * config.rows <= 4;
    constexpr int kManyVectors = 5;
    if (config.vectors + config.sharedVectors < kManyVectors ||
        problem.quantizes())
      return false;
    // An SM needs two blocks: one loads while the other stores.
    return config.rowStart() == RowStart::Alike && config.spread == 0 &&
           config.rows == 2 && config.rowThreads >= 256 &&
           (problem.weight || problem.bias) && mostBlocks() > 1 &&
           2 * (config.sharedBytes(signature) + kStaticBytes) <=
               device.sharedBytesPerSm;
  }

  /// Visits the forms in which a thread keeps a row. Softmax may keep its
  /// exponentials, which halves the arithmetic, and quantised norms their
  /// weighted values, which saves a quarter. In fp32 they take no more room
  /// than the row, and in 16 bits exponentials take no more than the row and
  /// its mask. Otherwise exponentials are kept only for rows that are in flight
  /// together anyway (H200: 8 x 151936 in bf16 4.5 us, 4.8 us without; 4135 x
  /// 59072 4 % more). The estimate decides whether weighted values are worth
  /// their room.
  void visitForms() {
    constexpr int64_t kBlocksAtOnce = 4; // on an SM
    bool isWide = problem.dtype == DType::FP32;
    bool isFew = problem.rows * config.cluster * config.rowBlocks <=
                 kBlocksAtOnce * device.smCount;
    bool isMasked = signature.mask == RowMask::Matrix;
    bool isWeighted = signature.scalesAtOnce() && signature.weight;
    bool isChained = signature.chain.size() > 0 && signature.hasStatistics();
    bool isKept =
        (isWeighted || isChained ||
         (problem.op == RowOp::Softmax && (isWide || isMasked || isFew))) &&
        config.sharedVectors == 0 &&
        config.vector == vectorsToTry(problem).front();
    for (bool unpacked : {true, false}) {
      if (unpacked ? !isKept : isKept && isWide)
        continue;
      config.unpacked = unpacked;
      config.exact = fill();
      visitOccupancy();
    }
    config.unpacked = 0;
  }

  /// The knob exact. Code that tests only a thread's last vector has fewer
  /// instructions than code that tests each, but starts on the first vector
  /// only when the others have arrived, too. This pays where vectors wait for
  /// copies to shared memory, and for the shifts and sums of layer norms (H200:
  /// layer norm of 512 x 125003, 99 us with tests and 87 us without; softmax of
  /// 1689 x 58341, 143 and 161 us).
  int fill() const {
    if (config.start == 0 && config.spread == 0 &&
        config.capacity() == problem.cols)
      return 1;
    bool pays = !problem.isNorm()
                    ? problem.op != RowOp::Softmax || config.unpacked
                    : config.sharedVectors > 0 ||
                          (problem.op == RowOp::LayerNorm && config.start != 0);
    const bool isWhole =
        signature.scaleShare(config.vector, config.rowThreads).items == 1;
    return pays && isWhole && config.vectors + config.sharedVectors > 1 &&
                   fillsMost(problem, config)
               ? 2
               : 0;
  }

  void visitOccupancy() {
    // The most blocks that fit come first: their number without a bound is a
    // guess.
    const int64_t most = mostBlocks();
    visitBlocksPerSm(most);
    if (most > 1)
      visitBlocksPerSm(1);
    // A test for each vector separates their code, which takes fewer registers.
    if (config.exact != 2)
      return;
    config.exact = 0;
    if (int64_t blocks = mostBlocks(); blocks > most)
      visitBlocksPerSm(blocks);
    config.exact = 2;
  }

  /// The most blocks on an SM that its registers and its threads allow.
  int64_t mostBlocks() const {
    if (config.spread) // an SM has one
      return 1;
    int64_t peak = roundUp(peakRegisters(signature, config, device), 8);
    int64_t byThreads =
        device.maxWarpsPerSm * kWarpThreads / config.blockThreads;
    int64_t byRegisters = device.registersPerSm / (peak * config.blockThreads);
    return std::clamp<int64_t>(std::min(byThreads, byRegisters), 1, 32);
  }

  void visitBlocksPerSm(int64_t blocks) {
    config.blocksPerSm = static_cast<int>(blocks);
    for (bool streaming : {!isLong, isLong}) {
      config.streaming = streaming;
      emit(config);
    }
  }

  /// The most blocks of a cluster, which share a row.
  static constexpr int64_t kMostClustered = 8;
  /// Static shared memory of a block, including the driver's own.
  static constexpr int64_t kStaticBytes = 3 << 10;

  const RowProblem &problem;
  const RowSignature signature;
  const DeviceModel &device;
  Emit<ResidentRowsConfig> emit;
  ResidentRowsConfig config;
  bool isLong = false; ///< compared with the L2
};
} // namespace

void ResidentRowsTemplate::forEachConfig(const RowProblem &problem,
                                         const DeviceModel &device,
                                         Emit<ResidentRowsConfig> emit) const {
  if (!problem.allRows)
    ResidentSpace(problem, device, emit).run();
}

//===----------------------------------------------------------------------===//
// Limits and time
//===----------------------------------------------------------------------===//

std::optional<Rejection> ResidentRowsTemplate::checkLimits(
    const RowProblem &problem, const RowSignature &signature,
    const ResidentRowsConfig &config, const DeviceModel &device) const {
  if (problem.allRows)
    return Rejection{PruneReason::InstructionShape};
  if (config.cluster > 1 && !device.hasClusters())
    return Rejection{PruneReason::Architecture,
                     double(device.computeCapability()), 90, "capability"};
  if (config.spread) {
    if (device.ccMajor < 8)
      return Rejection{PruneReason::Architecture,
                       double(device.computeCapability()), 80, "capability"};
    if (auto rejection = checkSpread(problem, config, device))
      return rejection;
  }
  // Copies to shared memory bypass the registers.
  if (config.sharedVectors > 0 && device.ccMajor < 8)
    return Rejection{PruneReason::Architecture,
                     double(device.computeCapability()), 80, "capability"};
  // Ends of less than a vector have room of their own.
  if (config.capacity() < problem.cols / config.vector * config.vector ||
      (config.exact == 1 && config.capacity() != problem.cols))
    return Rejection{PruneReason::InstructionShape, double(config.capacity()),
                     double(problem.cols), "elements"};
  if (config.exact == 2 && !fillsMost(problem, config))
    return Rejection{PruneReason::InstructionShape};
  int64_t limit = boundRegisters(config, device);
  int64_t peak = peakRegisters(signature, config, device);
  if (peak > limit)
    return Rejection{PruneReason::Registers, double(peak), double(limit),
                     "registers a thread"};
  return std::nullopt;
}

/// Instructions for each element that kept exponentials or weighted values
/// save, since they are only scaled. For rms norms to fp8 they are counted in
/// machine code (ptxas 13.0 for sm_90).
static double sparedOps(const RowProblem &problem) {
  constexpr double kOfExponentials = 5, kOfWeighted = 3, kOfWide = 1;
  if (problem.op == RowOp::Softmax)
    return kOfExponentials;
  if (problem.op == RowOp::Quantize)
    return chainCost(problem).simd;
  if (!problem.weight)
    return 0;
  return problem.dtype == DType::FP32 ? kOfWide : kOfWeighted;
}

/// The time in ns in which a task loads the operands that all rows share.
template <Number N>
static N sharedOperandNs(const RowProblem &problem,
                         const ResidentRowsConfig &config,
                         const DeviceModel &device) {
  const int64_t vectors = config.vectors + config.sharedVectors;
  // They are loaded two vectors at a time, behind the rows' own loads and
  // stores: L1 is of little use while these are in flight as well, and L2
  // takes twice as long as an idle one.
  constexpr double kBusyL2 = 2;
  N ns = deviceValue<N>(device, &DeviceModel::l2LatencyNs);
  if (const int64_t further = ceilDiv(vectors, 2) - 1; further > 0)
    ns = ns * (N(1) + given<N>(double(further), "further loads") *
                          fitted<N>(kBusyL2, "busy L2 over idle"));
  // Results with a scale for the row need the weights for the statistics, and
  // again for the results unless the weighted values are kept. Shifted operands
  // are loaded as they are used, a vector at a time.
  constexpr double kOnceMoreNs = 150, kShiftedNs = 285;
  const N each = given<N>(double(vectors), "vectors");
  if (problem.quantizes() && !hasBlocks(problem) && !config.unpacked)
    ns += each * fitted<N>(kOnceMoreNs, "once more", "ns");
  if (config.start != 0)
    ns += each * fitted<N>(kShiftedNs, "shifted", "ns");
  return named(ns, "weights", "ns");
}

/// The share of bandwidth that lanes of a row lose which load less than two
/// sectors at a time (H100, 58755 rows of 112 bytes: 2 lanes of 8 bytes take
/// 10.0 us, 4 lanes of 16 bytes 5.6 us).
template <Number N>
static N lostToNarrow(const RowProblem &problem,
                      const ResidentRowsConfig &config) {
  constexpr double kWholeBytes = 64, kMostLost = 0.6;
  const double together =
      config.rowThreads * config.vector * bytesOf(problem.dtype);
  if (config.vectors + config.sharedVectors == 1 || together >= kWholeBytes)
    return 0;
  return named(fitted<N>(kMostLost, "most lost") *
                   (N(1) - given<N>(together, "read together", "B") /
                               fitted<N>(kWholeBytes, "enough", "B")),
               "lost by narrow rows", "");
}

template <Number N>
MemoryPass<N> ResidentRowsTemplate::stream(const RowProblem &problem,
                                           const RowSignature &signature,
                                           const ResidentRowsConfig &config,
                                           const DeviceModel &device) const {
  MemoryPass<N> kernel{rowWork(problem)};
  // Blocks outside of clusters are tasks of their own.
  kernel.tasks =
      static_cast<int64_t>(config.blocks(problem.rows)) / config.cluster;
  kernel.clusterSize = config.cluster;
  int64_t wanted = wantedRegisters(signature, config, device);
  kernel.block = {
      .threads = config.blockThreads,
      .registersPerThread = std::min(wanted, boundRegisters(config, device)),
      .sharedBytes = config.sharedBytes(signature) + kScratchBytes / 4};
  kernel.sharedBytesPerTask = sharedOperandBytes(problem) / config.rowBlocks;
  const int64_t vectors = config.vectors + config.sharedVectors;
  kernel.loads = loadsOf(problem, vectors * config.rows, config.vector);
  kernel.loads.registers = keptRegisters(signature, config);
  kernel.keptBytes = furtherPassBytes(problem);
  kernel.serialNs =
      reductionNs<N>(problem, config.rowThreads, config.cluster, device);
  if (config.spread)
    kernel.serialNs += exchangeNs<N>(problem, kernel.tasks);
  if (sharedOperandBytes(problem) > 0)
    kernel.serialNs += sharedOperandNs<N>(problem, config, device);
  addHintCosts(kernel, problem, config.streaming != 0);
  addAccessCosts(kernel, problem, config.vector);
  addShuffleCosts(kernel, problem, config.rows, config.rowThreads);
  addBlockCosts(kernel, problem, config.vector, config.rowThreads);
  addSharedCosts(kernel,
                 static_cast<double>(config.sharedVectors * kernel.tasks *
                                     config.cluster * config.blockThreads));
  if (config.unpacked) {
    kernel.simdOps -= sparedOps(problem) * static_cast<double>(problem.rows) *
                      static_cast<double>(problem.cols);
    kernel.specialOps /= 2;
  }
  // Work that a thread does once: addresses, merging, shuffles.
  double perThread = problem.op == RowOp::LayerNorm ? 160
                     : problem.op == RowOp::Softmax ? 130
                                                    : 70;
  kernel.simdOps +=
      perThread *
      static_cast<double>(kernel.tasks * config.cluster * config.blockThreads);
  addStartCosts(kernel, problem, config.rowStart(),
                double(config.cluster) * config.rowBlocks * config.rowThreads);
  kernel.lostShare += lostToNarrow<N>(problem, config);
  // Lanes without a vector still issue.
  double used = std::min(1.0, static_cast<double>(problem.cols) /
                                  static_cast<double>(config.capacity()));
  kernel.simdOps *= 1 + 0.3 * (1 - used);
  return kernel;
}

std::unique_ptr<Template> makeResidentRowsTemplate(RowKind kind) {
  return std::make_unique<ResidentRowsTemplate>(kind);
}

} // namespace kiln
