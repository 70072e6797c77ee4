//===- SplitRows.cpp - the template "split" -------------------------------===//
#include "Families/Rows/RowTemplate.h"
#include "Model/MathUtil.h"
#include "Model/RegisterWall.h"
#include "rows/SplitRowsConfig.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallVector.h>

#include <algorithm>

namespace kiln {

namespace {

class SplitRowsTemplate final
    : public RowTemplate<SplitRowsTemplate, SplitRowsConfig> {
public:
  explicit SplitRowsTemplate(RowKind kind)
      : RowTemplate(kind, {"rows/SplitRows.cuh", "RowSignature",
                           "SplitRowsConfig", "RowParams", "splitRows"}) {}

  bool isGeneric() const override { return true; }

  CandidateClass classOfConfig(const SplitRowsConfig &config) const override {
    constexpr uint64_t kSplit = 2000; // apart from the other templates' keys
    return {kSplit + (config.ranges > 1), 0};
  }

protected:
  void forEachConfig(const RowProblem &problem, const DeviceModel &device,
                     Emit<SplitRowsConfig> emit) const override {
    for (int64_t vector : vectorsToTry(problem))
      visitVector(problem, vector, device, emit);
  }

  static void visitVector(const RowProblem &problem, int64_t vector,
                          const DeviceModel &device,
                          Emit<SplitRowsConfig> emit) {
    SplitRowsConfig config;
    config.vector = static_cast<int>(vector);
    config.start = static_cast<int>(startFor(problem, vector));
    int64_t outputs = outputCount(problem);
    for (int blockThreads : {512, 256, 128, 1024}) {
      config.blockThreads = blockThreads;
      for (int items : {8, 4, 2}) {
        config.items = items;
        // The number of blocks for each SM; each row, or all rows, gets a share
        // of them.
        llvm::SmallVector<int, 5> tried;
        for (int perSm : {4, 8, 2, 16, 32}) {
          int64_t ranges = ceilDiv(perSm * device.smCount, outputs);
          config.ranges = static_cast<int>(std::min<int64_t>(ranges, kMaxKnob));
          if (llvm::is_contained(tried, config.ranges))
            continue;
          tried.push_back(config.ranges);
          for (int streaming : {1, 0}) { // H100: 2 to 3 %
            config.streaming = streaming;
            emit(config);
          }
        }
      }
    }
  }

  std::optional<Rejection> checkLimits(const RowProblem &problem,
                                       const RowSignature &,
                                       const SplitRowsConfig &config,
                                       const DeviceModel &) const override {
    int64_t outputs = outputCount(problem);
    auto counters = static_cast<double>(config.counterBytes(outputs));
    constexpr double kMostCounterBytes = 64 << 10;
    if (counters > kMostCounterBytes)
      return Rejection{PruneReason::Workspace, counters, kMostCounterBytes,
                       "B"};
    return std::nullopt;
  }

  /// Registers that the compiler takes, \p words of them for a vector (ptxas
  /// 13.0 for sm_90, all configs of the space). If an SM holds one block less
  /// than expected, a second wave of few blocks takes as long as the first
  /// wave.
  static int64_t wantedRegisters(const SplitRowsConfig &config, int64_t words) {
    constexpr int64_t kBase = 30, kLeast = 40;
    int64_t wanted = kBase + config.items * words;
    if (config.start != 0 && config.items > 2) // ends, and values of a vector
      wanted += 2 + 3 * (config.vector - words) / 2;
    return std::max(wanted, kLeast);
  }

public:
  template <Number N>
  MemoryPass<N> stream(const RowProblem &problem, const RowSignature &signature,
                       const SplitRowsConfig &config,
                       const DeviceModel &device) const {
    MemoryPass<N> kernel{rowWork(problem)};
    int64_t outputs = std::max<int64_t>(outputCount(problem), 1);
    kernel.tasks = outputs * config.ranges;
    int64_t words = ceilDiv(config.vector * bytesOf(signature.in), 4);
    kernel.block = {.threads = config.blockThreads,
                    .registersPerThread =
                        std::min(wantedRegisters(config, words),
                                 registerLimit(device, config.blockThreads,
                                               config.minBlocks())),
                    .sharedBytes = kScratchBytes / 8};
    int64_t ofTask =
        ceilDiv(problem.cols * (problem.rows / outputs), config.ranges);
    int64_t chunk = int64_t(config.blockThreads) * config.vector * config.items;
    kernel.loadRounds = std::max<int64_t>(1, ceilDiv(ofTask, chunk));
    kernel.loads = loadsOf(problem, config.items, config.vector);
    // Loops of unknown length, and partial statistics of each round (the
    // greatest of 623 rows of 2583: 3.2 us, 2.6 us by the resident kernel).
    constexpr double kLoopNs = 430;
    kernel.serialNs = reductionNs<N>(problem, config.blockThreads, 1, device) +
                      fitted<N>(kLoopNs, "loops", "ns");
    addStartCosts(kernel, problem, config.rowStart(), config.blockThreads);
    addHintCosts(kernel, problem, config.streaming != 0);
    addAccessCosts(kernel, problem, config.vector);
    addShuffleCosts(kernel, problem, 1, config.blockThreads);
    // Partial results, a counter that orders them, and the merge by the last
    // block. Blocks count one after the other.
    constexpr double kOrderNs = 820, kCountNs = 0.48;
    if (config.ranges > 1)
      kernel.serialNs +=
          named(N(3) * deviceValue<N>(device, &DeviceModel::l2LatencyNs) +
                    fitted<N>(kOrderNs, "order", "ns") +
                    given<N>(double(kernel.tasks), "tasks") *
                        fitted<N>(kCountNs, "count of each", "ns"),
                "merge of ranges", "ns");
    return kernel;
  }
};

} // namespace

std::unique_ptr<Template> makeSplitRowsTemplate(RowKind kind) {
  return std::make_unique<SplitRowsTemplate>(kind);
}

} // namespace kiln
