//===- ReloadRows.cpp - the template "reload" -----------------------------===//
#include "Families/Rows/ReloadModel.h"
#include "Families/Rows/RowTemplate.h"
#include "Model/MathUtil.h"
#include "Model/RegisterWall.h"
#include "rows/ReloadRowsConfig.h"

#include <algorithm>

namespace kiln {

namespace {

class ReloadRowsTemplate final
    : public RowTemplate<ReloadRowsTemplate, ReloadRowsConfig> {
public:
  explicit ReloadRowsTemplate(RowKind kind)
      : RowTemplate(kind, {"rows/ReloadRows.cuh", "RowSignature",
                           "ReloadRowsConfig", "RowParams", "reloadRows"}) {}

  bool isGeneric() const override { return true; }

  CandidateClass classOfConfig(const ReloadRowsConfig &config) const override {
    constexpr uint64_t kReload = 1000; // apart from the other templates' keys
    return {kReload + 10u * static_cast<unsigned>(config.cluster) +
                (config.gridPerSm > 0),
            1};
  }

protected:
  /// Registers that the compiler can save before it spills.
  static constexpr int64_t kSpare = 8;
  /// The least threads of a block.
  static constexpr int kLeastThreads = 256;

  void forEachConfig(const RowProblem &problem, const DeviceModel &device,
                     Emit<ReloadRowsConfig> emit) const override {
    if (problem.allRows)
      return;
    for (int64_t vector : vectorsToTry(problem))
      visitVector(problem, vector, device, emit);
  }

  static void visitVector(const RowProblem &problem, int64_t vector,
                          const DeviceModel &device,
                          Emit<ReloadRowsConfig> emit) {
    ReloadRowsConfig config;
    config.vector = static_cast<int>(vector);
    config.start = static_cast<int>(startFor(problem, vector));
    int64_t ofRow = std::max<int64_t>(problem.cols / vector, 1);
    const int widest = widestGroup(signatureOf(problem), config, device);
    for (int rowThreads : {1024, 512, 256, 128, 32, 8, 1}) {
      // More threads serve a row that would give a thread more than this.
      constexpr int64_t kMostVectors = 64;
      const int fewest = leastRowThreads(problem, vector);
      if (rowThreads < fewest ||
          (rowThreads > fewest && rowThreads / 2 >= ofRow) ||
          (rowThreads < widest && ofRow > kMostVectors * rowThreads))
        continue;
      config.rowThreads = rowThreads;
      config.blockThreads = std::max(rowThreads, kLeastThreads);
      for (int cluster : {1, 2, 4, 8}) {
        // Fewer rows in flight are worth a barrier where a row is long.
        constexpr int64_t kLongRow = 8;
        if (cluster > 1 && (!device.hasClusters() || rowThreads < 256 ||
                            !hasStatistics(problem) ||
                            ofRow < kLongRow * cluster * rowThreads))
          continue;
        config.cluster = cluster;
        visitItems(problem, config, emit);
      }
    }
  }

  /// The most threads that each still have registers for two vectors in flight,
  /// or for those that share a scale.
  static int widestGroup(const RowSignature &signature, ReloadRowsConfig config,
                         const DeviceModel &device) {
    for (int threads : {1024, 512}) {
      config.rowThreads = config.blockThreads = threads;
      config.items = std::max(2, itemsOfScale(signature, config));
      if (!checkRegisters(signature, config, device))
        return threads;
    }
    return kLeastThreads;
  }

  /// The configs that differ in vectors in flight and in caching. Data that is
  /// read once bypasses L1 (H100: 2 to 3 %).
  static void visitItems(const RowProblem &problem, ReloadRowsConfig config,
                         Emit<ReloadRowsConfig> emit) {
    const bool isOnce = furtherPasses(problem) == 0;
    const int ofScale = itemsOfScale(signatureOf(problem), config);
    for (int items : {4, 2, 1}) {
      if (items % ofScale != 0)
        continue;
      config.items = items;
      for (int gridPerSm : {0, 2}) {
        // A resident grid needs rows that fill a block.
        if (gridPerSm != 0 && (config.rowThreads < 512 || config.cluster > 1))
          continue;
        config.gridPerSm = gridPerSm;
        for (bool streaming : {isOnce, !isOnce}) {
          config.streaming = streaming;
          emit(config);
        }
      }
    }
  }

  /// Registers for the fp32 values of one vector, in addition to the packed
  /// ones.
  static int64_t workingRegisters(const RowSignature &signature, int64_t vector,
                                  RowStart start, int rowThreads) {
    // Addresses, predicates and statistics; the vector as fp32 and packed, with
    // the operands loaded beside it.
    constexpr int64_t kBase = 14;
    int64_t operands = signature.sharedRows();
    int64_t words = vector * bytesOf(signature.in) / 4;
    // Rows that begin anywhere add their ends, and two vectors that cover one.
    constexpr int64_t kEnds = 8;
    bool isShifted = start != RowStart::Aligned;
    return kBase + vector / 2 + operands * words * (1 + isShifted) +
           (isShifted ? kEnds : 0) +
           (signature.op == RowOp::LayerNorm ? 6 : 0) +
           (signature.op == RowOp::Softmax ? 4 : 0) +
           resultRegisters(signature, static_cast<int>(vector), rowThreads);
  }

  /// Registers that the compiler takes without a limit (ptxas 13.0 for sm_90).
  /// This includes the extra registers of the kernel whose times were measured,
  /// to which the estimate is fitted: a fifth to two fifths more.
  static int64_t wantedRegisters(const RowSignature &signature,
                                 const ReloadRowsConfig &config) {
    int64_t matrices = 1 + signature.residual + signature.matrices();
    int64_t words = ceilDiv(config.vector * bytesOf(signature.in), 4);
    // Two vectors cover one that begins anywhere.
    int64_t covering = config.rowStart() == RowStart::Any ? 2 : 1;
    // Reductions forget a vector once it is added.
    if (isReduction(signature.op))
      return 24 + config.items * words;
    return 24 + config.items * words * matrices * covering +
           workingRegisters(signature, config.vector, config.rowStart(),
                            config.rowThreads);
  }

  /// The vectors of a block with a scale of its own that one thread has.
  static int itemsOfScale(const RowSignature &signature,
                          const ReloadRowsConfig &config) {
    return signature.scaleShare(config.vector, config.rowThreads).items;
  }

  static ReloadShape shapeOf(const ReloadRowsConfig &config) {
    return {.vector = config.vector,
            .items = config.items,
            .rowThreads = config.rowThreads,
            .cluster = config.cluster,
            .start = config.rowStart(),
            .isStreaming = config.streaming != 0};
  }

  static std::optional<Rejection> checkRegisters(const RowSignature &signature,
                                                 const ReloadRowsConfig &config,
                                                 const DeviceModel &device) {
    // Some config has to run: the smallest one may spill.
    if (config.items == itemsOfScale(signature, config) &&
        config.blockThreads <= kLeastThreads)
      return std::nullopt;
    // A spilling config reads its own memory between the rows.
    int64_t wanted = wantedRegisters(signature, config) - kSpare;
    int64_t limit =
        registerLimit(device, config.blockThreads, config.minBlocks());
    if (wanted > limit)
      return Rejection{PruneReason::Registers, double(wanted), double(limit),
                       "registers a thread"};
    return std::nullopt;
  }

  std::optional<Rejection>
  checkLimits(const RowProblem &problem, const RowSignature &signature,
              const ReloadRowsConfig &config,
              const DeviceModel &device) const override {
    if (problem.allRows)
      return Rejection{PruneReason::InstructionShape};
    if (config.cluster > 1 && !device.hasClusters())
      return Rejection{PruneReason::Architecture,
                       double(device.computeCapability()), 90, "capability"};
    return checkRegisters(signature, config, device);
  }

public:
  template <Number N>
  MemoryPass<N> stream(const RowProblem &problem, const RowSignature &signature,
                       const ReloadRowsConfig &config,
                       const DeviceModel &device) const {
    MemoryPass<N> kernel{rowWork(problem)};
    kernel.tasks = ceilDiv(problem.rows, config.blockRows());
    kernel.clusterSize = config.cluster;
    kernel.persistentPerSm = config.gridPerSm;
    int64_t wanted = wantedRegisters(signature, config);
    // The compiler takes at most the registers of the launch bounds: beyond, it
    // spills.
    kernel.block = {.threads = config.blockThreads,
                    .registersPerThread = std::min(
                        wanted, registerLimit(device, config.blockThreads,
                                              config.minBlocks())),
                    .sharedBytes = kScratchBytes / 4};
    addReloading(kernel, problem, shapeOf(config), device);
    return kernel;
  }
};

} // namespace

std::unique_ptr<Template> makeReloadRowsTemplate(RowKind kind) {
  return std::make_unique<ReloadRowsTemplate>(kind);
}

} // namespace kiln
