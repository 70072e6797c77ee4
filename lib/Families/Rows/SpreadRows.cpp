//===- SpreadRows.cpp - the template "spread" -----------------------------===//
#include "Families/Rows/ReloadModel.h"
#include "Families/Rows/RowTemplate.h"
#include "Model/MathUtil.h"
#include "Model/RegisterWall.h"
#include "rows/SpreadRowsConfig.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallVector.h>

#include <algorithm>

namespace kiln {

namespace {

class SpreadRowsTemplate final
    : public RowTemplate<SpreadRowsTemplate, SpreadRowsConfig> {
public:
  explicit SpreadRowsTemplate(RowKind kind)
      : RowTemplate(kind, {"rows/SpreadRows.cuh", "RowSignature",
                           "SpreadRowsConfig", "RowParams", "spreadRows"}) {}

  template <Number N>
  MemoryPass<N> stream(const RowProblem &problem, const RowSignature &signature,
                       const SpreadRowsConfig &config,
                       const DeviceModel &device) const;

  CandidateClass classOfConfig(const SpreadRowsConfig &config) const override {
    constexpr uint64_t kSpread = 3000; // apart from the other templates' keys
    // A class is the number of rows in flight, and whether a part of them
    // stays.
    return {kSpread + 2 * static_cast<unsigned>(config.rowsAtOnce) +
                (config.kept > 0),
            1};
  }

protected:
  void forEachConfig(const RowProblem &problem, const DeviceModel &device,
                     Emit<SpreadRowsConfig> emit) const override;
  std::optional<Rejection>
  checkLimits(const RowProblem &problem, const RowSignature &signature,
              const SpreadRowsConfig &config,
              const DeviceModel &device) const override;

private:
  static void visitItems(const RowProblem &problem, SpreadRowsConfig config,
                         const DeviceModel &device,
                         Emit<SpreadRowsConfig> emit);
};

} // namespace

/// The way in which rows of \p problem are read.
static ReloadShape shapeOf(const RowProblem &problem,
                           const SpreadRowsConfig &config) {
  ReloadShape shape{.vector = config.vector,
                    .items = config.items,
                    .rowThreads = config.blockThreads,
                    .start = config.rowStart(),
                    .isStreaming = config.streaming != 0,
                    .rowBlocks = config.rowBlocks,
                    .turns = ceilDiv(problem.rows, config.rowsAtOnce)};
  shape.keptShare =
      std::min(1.0, static_cast<double>(config.kept * shape.chunk()) /
                        static_cast<double>(problem.cols));
  return shape;
}

/// Registers of a thread that the compiler takes, or at least does not spill
/// (ptxas 13.0 for sm_75, sm_80, sm_90 and sm_100).
static int64_t wantedRegisters(const RowSignature &signature,
                               const SpreadRowsConfig &config) {
  // Addresses, predicates and statistics, and the ends of rows that begin
  // anywhere.
  constexpr int64_t kBase = 24, kEnds = 8;
  const int64_t words = ceilDiv(config.vector * bytesOf(signature.in), 4);
  // Two vectors cover one that begins anywhere.
  const int64_t row = words * (config.rowStart() == RowStart::Any ? 2 : 1);
  const int64_t matrices = signature.matrices() * row;
  const int64_t shared = words * signature.sharedRows();
  // Vectors in flight in the first pass, and in later passes together with the
  // operands that all rows share.
  const int64_t first =
      config.items * (row + signature.residual * row + matrices);
  const int64_t later =
      config.items * (row + matrices) + (config.items - 1) * shared;
  const bool isShifted = config.rowStart() != RowStart::Aligned;
  // The current vector as fp32, with the operands loaded beside it.
  return kBase + std::max(first, later) + config.vector / 2 +
         shared * (1 + isShifted) + (isShifted ? kEnds : 0) +
         (signature.op == RowOp::LayerNorm ? 6 : 0) +
         (signature.op == RowOp::Softmax ? 4 : 0) +
         resultRegisters(signature, config.vector, config.blockThreads);
}

static std::optional<Rejection> checkRegisters(const RowSignature &signature,
                                               const SpreadRowsConfig &config,
                                               const DeviceModel &device) {
  int64_t wanted = wantedRegisters(signature, config);
  int64_t limit =
      registerLimit(device, config.blockThreads, config.minBlocks());
  if (wanted <= limit)
    return std::nullopt;
  return Rejection{PruneReason::Registers, double(wanted), double(limit),
                   "registers a thread"};
}

//===----------------------------------------------------------------------===//
// Space
//===----------------------------------------------------------------------===//

void SpreadRowsTemplate::forEachConfig(const RowProblem &problem,
                                       const DeviceModel &device,
                                       Emit<SpreadRowsConfig> emit) const {
  // More rows than these fill the GPU by a block or a cluster for each row.
  constexpr int64_t kMostTurns = 4;
  if (problem.rows > kMostTurns * device.smCount)
    return;
  // A row with one block, or with as many as a cluster has, is not spread.
  const int64_t fewBlocks = device.hasClusters() ? 8 : 1;
  for (int64_t vector : vectorsToTry(problem)) {
    SpreadRowsConfig config;
    config.vector = static_cast<int>(vector);
    config.start = static_cast<int>(startFor(problem, vector));
    // Results leave L2 first, so that data to read again has room there.
    config.streaming = 1;
    llvm::SmallVector<int64_t, 6> tried;
    for (int64_t atOnce : {problem.rows, int64_t(1), int64_t(2), int64_t(4),
                           int64_t(8), int64_t(16)}) {
      if (atOnce > problem.rows || llvm::is_contained(tried, atOnce))
        continue;
      tried.push_back(atOnce);
      config.rowsAtOnce = static_cast<int>(atOnce);
      for (int threads : {1024, 512}) {
        config.blockThreads = threads;
        int64_t blocks = std::min(device.smCount / atOnce,
                                  ceilDiv(problem.cols, vector * threads));
        config.rowBlocks = static_cast<int>(blocks);
        if (blocks > fewBlocks)
          visitItems(problem, config, device, emit);
      }
    }
  }
}

void SpreadRowsTemplate::visitItems(const RowProblem &problem,
                                    SpreadRowsConfig config,
                                    const DeviceModel &device,
                                    Emit<SpreadRowsConfig> emit) {
  // 64 KB are in flight on an SM, or less where registers do not suffice.
  constexpr int64_t kMostVectors = 4096;
  const RowSignature signature = signatureOf(problem);
  const int64_t ofThread =
      ceilDiv(problem.cols,
              int64_t(config.vector) * config.rowBlocks * config.blockThreads);
  int found = 0;
  for (int items : {8, 4, 2, 1}) {
    config.items = items;
    if (!config.isValid(signature) ||
        items * config.blockThreads > kMostVectors || items / 2 >= ofThread ||
        checkRegisters(signature, config, device))
      continue;
    // As many chunks as shared memory holds.
    config.kept = 1;
    const int64_t room = (device.sharedBytesPerBlock - kScratchBytes) /
                         config.sharedBytes(signature);
    const auto most = !signature.hasStatistics()
                          ? 0
                          : static_cast<int>(std::min<int64_t>(
                                {room, ceilDiv(ofThread, items),
                                 SpreadRowsConfig::kMaxKept}));
    for (int kept : {most, 0}) {
      config.kept = kept;
      emit(config);
      if (most == 0)
        break;
    }
    if (++found == 2)
      return;
  }
}

//===----------------------------------------------------------------------===//
// Limits and time
//===----------------------------------------------------------------------===//

std::optional<Rejection> SpreadRowsTemplate::checkLimits(
    const RowProblem &problem, const RowSignature &signature,
    const SpreadRowsConfig &config, const DeviceModel &device) const {
  if (auto rejection = checkSpread(problem, config, device))
    return rejection;
  // Each row has places of its own, so that no place is used twice.
  constexpr double kMostExchanged = 16 << 20;
  auto exchanged =
      static_cast<double>(config.exchangeBytes(signature, problem.rows));
  if (exchanged > kMostExchanged)
    return Rejection{PruneReason::Workspace, exchanged, kMostExchanged, "B"};
  return checkRegisters(signature, config, device);
}

/// Passes over a row that need the operands that all rows share.
static int passesOfShared(const RowProblem &problem) {
  if (!hasStatistics(problem))
    return 1;
  if (signatureOf(problem).preparesWithRow() || reducesTwice(problem))
    return 2;
  return signatureOf(problem).scalesAtOnce() && problem.weight ? 2 : 1;
}

/// The share of reread data that L2 has lost. A pass in reverse finds the data
/// that the pass before has read or written last; results that leave L2 first
/// take no room in it.
static double missShare(const RowProblem &problem,
                        const SpreadRowsConfig &config,
                        const DeviceModel &device, double keptShare) {
  constexpr double kReusedL2 = 0.5;
  const int64_t matrices = 1 + 2 * problem.residual + problem.matrices();
  const int64_t atOnce = std::min<int64_t>(config.rowsAtOnce, problem.rows);
  const auto ofRows =
      static_cast<double>(atOnce * problem.cols *
                          (matrices * bytesOf(problem.dtype) +
                           (config.streaming ? 0 : bytesOf(problem.out))));
  const double bytes =
      ofRows * (1 - keptShare) +
      (passesOfShared(problem) > 1 ? sharedOperandBytes(problem) : 0);
  const double reused = kReusedL2 * static_cast<double>(device.l2Bytes);
  return bytes <= reused ? 0 : 1 - reused / bytes;
}

template <Number N>
MemoryPass<N> SpreadRowsTemplate::stream(const RowProblem &problem,
                                         const RowSignature &signature,
                                         const SpreadRowsConfig &config,
                                         const DeviceModel &device) const {
  const ReloadShape shape = shapeOf(problem, config);
  MemoryPass<N> kernel{rowWork(problem)};
  kernel.tasks = static_cast<int64_t>(config.blocks(problem.rows));
  kernel.block = {
      .threads = config.blockThreads,
      .registersPerThread = std::min(
          wantedRegisters(signature, config),
          registerLimit(device, config.blockThreads, config.minBlocks())),
      .sharedBytes = config.sharedBytes(signature) + kScratchBytes / 4};
  addReloading(kernel, problem, shape, device);
  kernel.serialNs += exchangeNs<N>(problem, kernel.tasks);
  if (shape.turns > 1)
    kernel.serialNs = given<N>(double(shape.turns), "turns") * kernel.serialNs;
  // Operands that all rows share are as long as a row: each turn, and each pass
  // that needs them, reads them from the same place as the row.
  kernel.rereadBytes +=
      static_cast<double>(shape.turns * passesOfShared(problem) - 1) *
      sharedOperandBytes(problem);
  kernel.rereadMissShare = missShare(problem, config, device, shape.keptShare);
  return kernel;
}

std::unique_ptr<Template> makeSpreadRowsTemplate(RowKind kind) {
  return std::make_unique<SpreadRowsTemplate>(kind);
}

} // namespace kiln
