//===- ReloadModel.cpp ----------------------------------------------------===//
#include "Families/Rows/ReloadModel.h"

#include "Families/Rows/RowTemplate.h"
#include "Model/MathUtil.h"

#include <cmath>

namespace kiln {

/// Adds the bytes and waits of the passes after the first one.
static void addPasses(MemoryPass &kernel, const RowProblem &problem,
                      const ReloadShape &shape) {
  const int passes = reducesTwice(problem) ? 2 : 1;
  // Later passes read the stored sum with a residual, not its terms.
  const double left = 1 - shape.keptShare;
  const double matrices = left + (problem.mask == RowMask::Matrix);
  kernel.rereadBytes = passes * matrices * static_cast<double>(problem.rows) *
                       static_cast<double>(problem.cols) *
                       bytesOf(problem.dtype);
  kernel.rereadRounds = static_cast<int64_t>(
      std::ceil(passes * left * static_cast<double>(kernel.loadRounds)));
  // The time from the statistics to the first load of the next pass.
  constexpr double kPassNs = 400;
  kernel.serialNs += kPassNs * passes;
}

void addReloading(MemoryPass &kernel, const RowProblem &problem,
                  const ReloadShape &shape, const DeviceModel &device) {
  kernel.loadRounds = shape.turns * ceilDiv(problem.cols, shape.chunk());
  kernel.sharedBytesPerTask =
      sharedOperandBytes(problem) / static_cast<double>(shape.rowBlocks);
  kernel.serialNs =
      reductionNs(problem, shape.rowThreads, shape.cluster, device);
  // Loops of unknown length, and partial statistics of each round (reductions
  // of 2165x269: 2.7 us, 1.9 us by the resident kernel).
  constexpr double kLoopNs = 300;
  kernel.serialNs += kLoopNs;
  if (!isReduction(problem.op))
    addPasses(kernel, problem, shape);
  addHintCosts(kernel, problem, shape.isStreaming);
  addStartCosts(
      kernel, problem, shape.start,
      static_cast<double>(shape.cluster * shape.rowBlocks * shape.rowThreads));
  kernel.simdOps *= 1.5; // conversions and addresses of every pass
  addAccessCosts(kernel, problem, shape.vector);
  addShuffleCosts(kernel, 1, shape.rowThreads);
  addSharedCosts(kernel, shape.keptShare * static_cast<double>(problem.rows) *
                             static_cast<double>(problem.cols) /
                             static_cast<double>(shape.vector));
}

} // namespace kiln
