//===- RowTemplate.cpp ----------------------------------------------------===//
#include "Families/Rows/RowTemplate.h"

#include <algorithm>

namespace kiln {

namespace {
/// One operand of a row as accesses see it.
struct RowOperandShape {
  DType type;
  int64_t ld; ///< 0: one row for all
};
} // namespace

static llvm::SmallVector<RowOperandShape, 8> shapesOf(const RowProblem &p) {
  llvm::SmallVector<RowOperandShape, 8> shapes = {{p.dtype, p.ldx}};
  if (!isReduction(p.op))
    shapes.push_back({p.out, p.ldy});
  if (p.residual) {
    shapes.push_back({p.dtype, p.ldResidual});
    shapes.push_back({p.dtype, p.ldResidualOut});
  }
  if (p.weight || p.bias)
    shapes.push_back({p.dtype, 0});
  if (p.mask != RowMask::None)
    shapes.push_back({p.dtype, p.ldMask});
  return shapes;
}

int64_t widestVector(const RowProblem &problem, int64_t most) {
  constexpr int64_t kWidestAccess = 16;
  auto fits = [&](int64_t vector) {
    if (problem.cols % vector != 0)
      return false;
    for (const RowOperandShape &shape : shapesOf(problem)) {
      int64_t element = bytesOf(shape.type);
      int64_t access = std::min(kWidestAccess, vector * element);
      if (std::max(problem.align, element) % access != 0 ||
          shape.ld * element % access != 0)
        return false;
    }
    return true;
  };
  int64_t vector = most;
  while (vector > 1 && !fits(vector))
    vector /= 2;
  return vector;
}

int64_t outputCount(const RowProblem &problem) {
  return problem.allRows ? 1 : problem.rows;
}

/// Bytes of a row and of what is read with it, element by element: residual,
/// mask.
static double rowReadBytes(const RowProblem &problem) {
  int64_t matrices = 1 + problem.residual + (problem.mask == RowMask::Matrix);
  return static_cast<double>(problem.cols * matrices * bytesOf(problem.dtype));
}

double sharedOperandBytes(const RowProblem &problem) {
  int64_t rows = problem.weight + problem.bias + (problem.mask == RowMask::Row);
  return static_cast<double>(problem.cols * rows * bytesOf(problem.dtype));
}

StreamKernel rowStream(const RowProblem &p) {
  StreamKernel kernel;
  auto rows = static_cast<double>(p.rows);
  double elements = rows * static_cast<double>(p.cols);
  kernel.readBytes = rows * rowReadBytes(p) + sharedOperandBytes(p);
  if (isReduction(p.op))
    kernel.writeBytes = static_cast<double>(outputCount(p) * bytesOf(p.out));
  else
    kernel.writeBytes = elements * bytesOf(p.out) +
                        (p.residual ? elements * bytesOf(p.dtype) : 0) +
                        (p.quantizes() ? rows * sizeof(float) : 0);
  // Instructions of one element, counted in the machine code of the resident
  // kernel (ptxas 13.0 for sm_90): conversions, statistics, result, packing.
  double each = 5;
  if (isReduction(p.op))
    each = 2.5;
  if (p.op == RowOp::LayerNorm)
    each += 2;
  if (p.op == RowOp::Softmax)
    each += 6.5;
  each += 2 * p.weight + 2 * p.bias + 4 * p.residual;
  if (p.mask != RowMask::None)
    each += 6;
  if (p.quantizes() && p.isNorm())
    each += 3;
  kernel.simdOps = elements * each;
  kernel.specialOps = p.op == RowOp::Softmax ? 2 * elements : 0;
  return kernel;
}

double reductionNs(const RowProblem &problem, int64_t threads, int64_t cluster,
                   const DeviceModel &device) {
  // A shuffle and what merges, about 30 clocks each step; a round through
  // shared memory with its barrier, about 60; a barrier of a cluster, half a
  // microsecond (H200: 0.50 to 0.65 us), and as much until all of its blocks
  // have started.
  constexpr double kStepClocks = 30, kRoundClocks = 60, kClusterNs = 1200;
  double clocks = 0;
  for (int64_t lanes = std::min<int64_t>(threads, 32); lanes > 1; lanes /= 2)
    clocks += kStepClocks;
  for (int64_t warps = threads / 32; warps > 1; warps = (warps + 1) / 2)
    clocks += kStepClocks;
  // A barrier waits for the last of all warps.
  clocks += threads > 32 ? kRoundClocks + static_cast<double>(threads) / 8 : 0;
  double ns = clocks / (device.sustainedMemoryClockMHz * 1e-3);
  if (cluster > 1)
    ns += kClusterNs;
  bool isTwice = problem.quantizes() && problem.isNorm();
  return isTwice ? 2 * ns : ns;
}

int64_t workingRegisters(const RowSignature &signature, int64_t vector) {
  // Addresses, predicates and statistics; the vector as fp32 and packed, with
  // what is loaded beside it.
  constexpr int64_t kBase = 14;
  int64_t operands =
      signature.weight + signature.bias + (signature.mask == RowMask::Row);
  int64_t words = vector * bytesOf(signature.in) / 4;
  return kBase + vector / 2 + operands * words +
         (signature.op == RowOp::LayerNorm ? 6 : 0) +
         (signature.op == RowOp::Softmax ? 4 : 0);
}

} // namespace kiln
