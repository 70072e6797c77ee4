//===- RowCosts.h - the time of rows beside their bytes -------------------===//
//
// Shared by the memory passes of all templates over rows. Counts of bytes and
// instructions are plain numbers; times and lost shares keep their names.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Chain.h"
#include "Families/Rows/RowProblem.h"
#include "Model/Bandwidth.h"
#include "Model/MemoryPass.h"
#include "rows/RowSignature.h"

namespace kiln {

/// The work of every template over rows: the bytes of \p problem, read and
/// written once, and its arithmetic.
PassWork rowWork(const RowProblem &problem);
/// Instructions of one element for the chain.
LinkCost chainCost(const RowProblem &problem);
/// Bytes of the operands that all rows share.
double sharedOperandBytes(const RowProblem &problem);
/// Bytes of the passes over all rows after the first, if a share of \p kept
/// stays on the chip.
double furtherPassBytes(const RowProblem &problem, double kept = 0);

// As RowSignature says.
bool hasBlocks(const RowProblem &problem);
bool hasStatistics(const RowProblem &problem);
bool reducesTwice(const RowProblem &problem);
/// Passes over a row after the first.
int furtherPasses(const RowProblem &problem);

/// Registers of a thread for results that wait for the scale of their block,
/// and for the values of a chain beside the one that it computes. A thread has
/// \p rows rows.
int64_t resultRegisters(const RowSignature &signature, int vector,
                        int rowThreads, int rows = 1);

/// \p vectors of \p elements elements from each matrix, in registers.
ThreadLoads loadsOf(const RowProblem &problem, int64_t vectors,
                    int64_t elements);

/// Adds to \p kernel the instructions for accesses of \p vector elements, in
/// addition to those of each element.
void addAccessCosts(PassWork &kernel, const RowProblem &problem,
                    int64_t vector);

/// Adds the shuffles for the statistics of \p rows rows a thread over
/// \p rowThreads lanes.
void addShuffleCosts(PassWork &kernel, const RowProblem &problem, int64_t rows,
                     int64_t rowThreads);
/// Adds the block scales, found by \p rowThreads lanes that have vectors of
/// \p vector elements.
void addBlockCosts(PassWork &kernel, const RowProblem &problem, int64_t vector,
                   int64_t rowThreads);

/// Adds the cost of \p vectors vectors that stay in shared memory.
void addSharedCosts(PassWork &kernel, double vectors);

/// Adds to \p kernel, which has \p threads threads for each row, the
/// instructions of rows with start \p start: the shifts of vectors, and the
/// ends. Returns how many ends a lane has in turn.
int64_t addStartOps(PassWork &kernel, const RowProblem &problem, RowStart start,
                    double threads);

/// \p ns, twice where reducesTwice().
template <Number N> N forEachReduction(const RowProblem &problem, const N &ns) {
  return reducesTwice(problem) ? given<N>(2, "reductions") * ns : ns;
}

/// Time in ns of reducing a row over \p threads of a block and \p cluster
/// blocks, twice where reducesTwice().
template <Number N>
N reductionNs(const RowProblem &problem, int64_t threads, int64_t cluster,
              const DeviceModel &device) {
  if ((threads == 1 && cluster == 1) || !hasStatistics(problem))
    return 0;
  // A shuffle and a merge take about 20 clocks each step. A round through
  // shared memory, whose barrier waits for the last of all warps, takes about
  // 150. The exchange between blocks of a cluster, which waits until all of
  // them have started, takes 0.9 us.
  constexpr double kRoundClocks = 150, kClusterNs = 900;
  // Means and deviations merge with a division.
  const double stepClocks = problem.op == RowOp::LayerNorm ? 40 : 20;
  double steps = 0;
  for (int64_t lanes = std::min(threads, kWarpThreads); lanes > 1; lanes /= 2)
    ++steps;
  for (int64_t warps = threads / kWarpThreads; warps > 1;
       warps = (warps + 1) / 2)
    ++steps;
  N clocks = given<N>(steps, "shuffles and merges") *
             fitted<N>(stepClocks, "each", "clk");
  if (threads > kWarpThreads)
    clocks += fitted<N>(kRoundClocks, "through shared memory", "clk");
  N ns = clocks / memoryClock<N>(device);
  // Many warps start one after the other (softmax of 8x151936 by clusters of 8:
  // blocks of 1024 threads take 0.4 us more than blocks of 512).
  constexpr double kThreadNs = 0.77, kFewThreads = 512;
  if (const double late = double(threads) - kFewThreads; late > 0)
    ns += given<N>(late, "late threads") * fitted<N>(kThreadNs, "start", "ns");
  if (cluster > 1)
    ns += fitted<N>(kClusterNs, "exchange in the cluster", "ns");
  return named(forEachReduction(problem, ns), "reduction", "ns");
}

/// Time in ns of the exchange of a row's blocks in a launch of \p blocks, twice
/// where reducesTwice().
template <Number N> N exchangeNs(const RowProblem &problem, int64_t blocks) {
  if (!hasStatistics(problem))
    return 0;
  // A round trip through L2, one more through the block, and blocks that start
  // and send one after the other (H200: softmax of 1x262144 by 64 to 132
  // blocks, layer norm of 3x133344, rms norm of 2x89856).
  constexpr double kExchangeNs = 1600, kBlockNs = 5.5;
  const N each = fitted<N>(kExchangeNs, "round trips", "ns") +
                 given<N>(double(blocks), "blocks") *
                     fitted<N>(kBlockNs, "start of each", "ns");
  return named(forEachReduction(problem, each), "exchange of blocks", "ns");
}

/// Adds the cost of evict-first stores where tasks follow each other, and of
/// reductions whose reads do not bypass L1.
template <Number N>
void addHintCosts(MemoryPass<N> &kernel, const RowProblem &problem,
                  bool isStreaming) {
  // Evict-first stores of one block turn DRAM from the reads of others to
  // writes sooner, which costs 3 % (H200 and H100: the mean of 900 pairs of
  // configs). If all blocks run at once they store when all reads are done:
  // within 1 % either way. Bypassing L1 with data that is only read gains 2 %.
  constexpr double kStoresLost = 0.03, kReadsLost = 0.02;
  if (isReduction(problem.op)) {
    if (!isStreaming)
      kernel.lostShare += fitted<N>(kReadsLost, "lost by reads through L1");
  } else if (isStreaming) {
    kernel.lostInWaves += fitted<N>(kStoresLost, "lost by stores in between");
  }
}

/// addStartOps(), and the time of ends in turn.
template <Number N>
void addStartCosts(MemoryPass<N> &kernel, const RowProblem &problem,
                   RowStart start, double threads) {
  // H100, rms norm of 3x7 by one lane a row: 0.9 us more than by 8.
  constexpr double kEndNs = 70;
  const int64_t rounds = addStartOps(kernel, problem, start, threads);
  if (rounds > 1)
    kernel.serialNs +=
        named(given<N>(double(rounds - 1), "further ends of a lane") *
                  given<N>(1.0 + problem.residual, "operands") *
                  fitted<N>(kEndNs, "each", "ns"),
              "ends", "ns");
}

} // namespace kiln
