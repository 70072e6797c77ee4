//===- ReloadModel.cpp ----------------------------------------------------===//
#include "Families/Rows/ReloadModel.h"

#include "Families/Rows/RowTemplate.h"
#include "Model/MathUtil.h"

#include <algorithm>
#include <cmath>

namespace kiln {

/// Operands that all rows share.
static int64_t sharedOperands(const RowSignature &signature) {
  return signature.weight + signature.bias + (signature.mask == RowMask::Row);
}

int64_t reloadRegisters(const RowSignature &signature,
                        const ReloadShape &shape) {
  // Addresses, predicates and statistics; of rows that begin anywhere the ends.
  constexpr int64_t kBase = 24, kEnds = 8;
  const int64_t words = ceilDiv(shape.vector * bytesOf(signature.in), 4);
  // Reductions forget a vector once it is added.
  if (isReduction(signature.op))
    return 24 + shape.items * words;
  // What covers a vector that lies anywhere is two.
  const int64_t covering = shape.start == RowStart::Any ? 2 : 1;
  const bool isShifted = shape.start != RowStart::Aligned;
  const int64_t shared = sharedOperands(signature) * words;
  const int64_t row = words * covering;
  const int64_t mask = signature.mask == RowMask::Matrix ? row : 0;
  // In flight in the first pass and in those behind it.
  const int64_t first = shape.items * (row + signature.residual * row + mask);
  const int64_t later = shape.items * (row + mask) +
                        (shape.isAhead ? (shape.items - 1) * shared : 0);
  // The vector in turn as fp32, with what is loaded beside it: operands that
  // are ahead are shifted by then.
  return kBase + std::max(first, later) + shape.vector / 2 +
         shared * (isShifted && !shape.isAhead ? 2 : 1) +
         (isShifted ? kEnds : 0) + (signature.op == RowOp::LayerNorm ? 6 : 0) +
         (signature.op == RowOp::Softmax ? 4 : 0);
}

/// What passes behind the first read, and wait for.
static void addPasses(StreamKernel &kernel, const RowProblem &problem,
                      const ReloadShape &shape) {
  const int passes = reducesTwice(problem) ? 2 : 1;
  // The sum with a residual is read again, not its terms.
  const double left = 1 - shape.keptShare;
  const double matrices = left + (problem.mask == RowMask::Matrix);
  kernel.rereadBytes = passes * matrices * static_cast<double>(problem.rows) *
                       static_cast<double>(problem.cols) *
                       bytesOf(problem.dtype);
  kernel.rereadRounds = static_cast<int64_t>(
      std::ceil(passes * left * static_cast<double>(kernel.loadRounds)));
  // From the statistics to the first load of the next pass.
  constexpr double kPassNs = 400;
  kernel.serialNs += kPassNs * passes;
}

void addReloading(StreamKernel &kernel, const RowProblem &problem,
                  const ReloadShape &shape, const DeviceModel &device) {
  kernel.loadRounds = shape.turns * ceilDiv(problem.cols, shape.chunk());
  kernel.sharedBytesPerTask =
      sharedOperandBytes(problem) / static_cast<double>(shape.rowBlocks);
  kernel.serialNs =
      reductionNs(problem, shape.rowThreads, shape.cluster, device);
  // Loops whose length is not known, and partial statistics of each round
  // (reductions of 2165x269: 2.7 us, by the resident kernel 1.9).
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
