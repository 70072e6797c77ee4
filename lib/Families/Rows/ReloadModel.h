//===- ReloadModel.h - the cost of rows that are read once for each pass --===//
//
// Shared by the estimates of the templates "reload" and "spread", which have
// the same kernel.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Rows/RowCosts.h"
#include "Model/MathUtil.h"

#include <cmath>

namespace kiln {

/// The way in which a row is read.
struct ReloadShape {
  int64_t vector = 8;     ///< elements of one access
  int64_t items = 1;      ///< vectors that a thread has in flight
  int64_t rowThreads = 1; ///< threads of a block that share a row
  int64_t cluster = 1;    ///< blocks of a cluster that share a row
  RowStart start = RowStart::Aligned;
  bool isStreaming = false;
  int64_t rowBlocks = 1; ///< blocks all over the GPU that share a row
  int64_t turns = 1;     ///< rows that these process one after the other
  double keptShare = 0;  ///< the share of a row that stays in shared memory

  /// Elements of a row that are in flight at once.
  int64_t chunk() const {
    return rowThreads * vector * items * cluster * rowBlocks;
  }
};

/// Adds the bytes and waits of the passes after the first one.
template <Number N>
void addPasses(MemoryPass<N> &kernel, const RowProblem &problem,
               const ReloadShape &shape) {
  const int passes = furtherPasses(problem);
  if (passes == 0)
    return;
  kernel.rereadBytes = furtherPassBytes(problem, shape.keptShare);
  kernel.rereadRounds = static_cast<int64_t>(
      std::ceil(passes * (1 - shape.keptShare) * double(kernel.loadRounds)));
  // The time from the statistics to the first load of the next pass.
  constexpr double kPassNs = 400;
  kernel.serialNs += given<N>(passes, "further passes") *
                     fitted<N>(kPassNs, "start of each", "ns");
}

/// Adds loads, passes and arithmetic to \p kernel, which has bytes, tasks and
/// block.
template <Number N>
void addReloading(MemoryPass<N> &kernel, const RowProblem &problem,
                  const ReloadShape &shape, const DeviceModel &device) {
  kernel.loadRounds = shape.turns * ceilDiv(problem.cols, shape.chunk());
  kernel.loads = loadsOf(problem, shape.items, shape.vector);
  kernel.sharedBytesPerTask =
      sharedOperandBytes(problem) / double(shape.rowBlocks);
  // Loops of unknown length, and partial statistics of each round (reductions
  // of 2165x269: 2.7 us, 1.9 us by the resident kernel).
  constexpr double kLoopNs = 300;
  kernel.serialNs =
      reductionNs<N>(problem, shape.rowThreads, shape.cluster, device) +
      fitted<N>(kLoopNs, "loops", "ns");
  addPasses(kernel, problem, shape);
  addHintCosts(kernel, problem, shape.isStreaming);
  addStartCosts(kernel, problem, shape.start,
                double(shape.cluster * shape.rowBlocks * shape.rowThreads));
  kernel.simdOps *= 1.5; // conversions and addresses of every pass
  addAccessCosts(kernel, problem, shape.vector);
  addShuffleCosts(kernel, problem, 1, shape.rowThreads);
  addBlockCosts(kernel, problem, shape.vector, shape.rowThreads);
  addSharedCosts(kernel, shape.keptShare * double(problem.rows) *
                             double(problem.cols) / double(shape.vector));
}

} // namespace kiln
