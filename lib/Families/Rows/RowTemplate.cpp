//===- RowTemplate.cpp ----------------------------------------------------===//
#include "Families/Rows/RowTemplate.h"

#include <algorithm>
#include <cmath>

namespace kiln {

namespace {
/// One operand of a row, in the terms of accesses.
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
  if (p.sharedRows() > 0)
    shapes.push_back({p.dtype, 0});
  if (p.mask == RowMask::Matrix)
    shapes.push_back({p.dtype, p.ldMask});
  else if (p.matrices() > 0)
    shapes.push_back({p.dtype, p.ldLink});
  return shapes;
}

static constexpr int64_t kWidestAccess = 16;

int64_t widestVector(const RowProblem &problem, int64_t most) {
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

RowStart startFor(const RowProblem &problem, int64_t vector) {
  if (widestVector(problem, vector) == vector)
    return RowStart::Aligned;
  if (isReduction(problem.op)) // one matrix
    return RowStart::Alike;
  for (const RowOperandShape &shape : shapesOf(problem)) {
    if (shape.ld == 0)
      continue;
    int64_t element = bytesOf(shape.type);
    int64_t access = std::min(kWidestAccess, vector * element);
    if (std::max(problem.align, element) % access != 0 ||
        (shape.ld - problem.ldx) * element % access != 0)
      return RowStart::Any;
  }
  return RowStart::Alike;
}

llvm::SmallVector<int64_t, 2> vectorsToTry(const RowProblem &problem) {
  int64_t most = kWidestAccess / bytesOf(problem.dtype);
  int64_t widest = widestVector(problem, most);
  // Blocks with scales of their own begin with a vector.
  if (hasBlocks(problem))
    return {widest};
  // On an H100 accesses of 2 and 4 bytes reached 0.3 to 0.6 of the copy
  // baseline, and vectors of rows that begin anywhere 0.8 to 1.0.
  constexpr int64_t kLeastAccess = 8, kShortRow = 8;
  bool isNarrow = widest * bytesOf(problem.dtype) < kLeastAccess;
  if (widest == most || (isNarrow && problem.cols >= kShortRow * most))
    return {most};
  return {most, widest};
}

int leastRowThreads(const RowProblem &problem, int64_t vector) {
  constexpr int kMany = 8;
  if (!hasBlocks(problem))
    return 1;
  return scaledDepth(problem.scaleY.kind) / vector <= kWarpThreads
             ? kMany
             : static_cast<int>(kWarpThreads);
}

int64_t outputCount(const RowProblem &problem) {
  return problem.allRows ? 1 : problem.rows;
}

/// Bytes of a row and of the operands that are read with it element by element.
static double rowReadBytes(const RowProblem &problem) {
  int64_t matrices = 1 + problem.residual + problem.matrices();
  return static_cast<double>(problem.cols * matrices * bytesOf(problem.dtype));
}

double sharedOperandBytes(const RowProblem &problem) {
  return static_cast<double>(problem.cols * problem.sharedRows() *
                             bytesOf(problem.dtype));
}

/// Scales of y.
static double scaleCount(const RowProblem &p) {
  return static_cast<double>(p.rows) *
         static_cast<double>(p.scaleY.depthsOf(p.cols));
}

PassWork rowWork(const RowProblem &p) {
  PassWork kernel;
  kernel.pace = PassPace::Reduces;
  auto rows = static_cast<double>(p.rows);
  double elements = rows * static_cast<double>(p.cols);
  kernel.readBytes = rows * rowReadBytes(p) + sharedOperandBytes(p);
  if (isReduction(p.op))
    kernel.writeBytes = static_cast<double>(outputCount(p) * bytesOf(p.out));
  else
    kernel.writeBytes = elements * bytesOf(p.out) +
                        (p.residual ? elements * bytesOf(p.dtype) : 0) +
                        (p.quantizes() ? scaleCount(p) * sizeof(float) : 0);
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
  const LinkCost chain = chainCost(p);
  const int times = hasStatistics(p) ? 2 : 1; // for statistics, for results
  kernel.simdOps = elements * (each + times * chain.simd);
  kernel.specialOps =
      p.op == RowOp::Softmax ? 2 * elements : elements * times * chain.special;
  return kernel;
}

LinkCost chainCost(const RowProblem &problem) {
  LinkCost sum;
  for (PointwiseOp op : problem.chain.ops) {
    const LinkCost link = costOf(op, /*pairs=*/true);
    constexpr double kUnpack = 1;
    const bool hasVector =
        shapeOf(op) == LinkShape::Matrix || shapeOf(op) == LinkShape::Row;
    sum.simd += link.simd + (hasVector ? kUnpack : 0);
    sum.special += link.special;
  }
  return sum;
}

bool hasBlocks(const RowProblem &problem) {
  return signatureOf(problem).hasBlocks();
}
bool hasStatistics(const RowProblem &problem) {
  return signatureOf(problem).hasStatistics();
}
bool reducesTwice(const RowProblem &problem) {
  return signatureOf(problem).reducesTwice();
}
int furtherPasses(const RowProblem &problem) {
  return isReduction(problem.op) || !hasStatistics(problem) ? 0
         : reducesTwice(problem)                            ? 2
                                                            : 1;
}

int64_t resultRegisters(const RowSignature &signature, int vector,
                        int rowThreads, int rows) {
  constexpr int64_t kScale = 6, kOfLink = 2;
  int64_t registers = kOfLink * signature.chain.size();
  if (signature.hasBlocks()) {
    const int items = signature.scaleShare(vector, rowThreads).items;
    registers += kScale + (items > 1 ? rows : 1) * items * vector;
  }
  return registers;
}

ThreadLoads loadsOf(const RowProblem &problem, int64_t vectors,
                    int64_t elements) {
  constexpr int64_t kWordBytes = 4;
  const int64_t matrices = 1 + problem.residual + problem.matrices();
  const int64_t bytes = bytesOf(problem.dtype);
  return {.vectors = double(vectors),
          .operands = matrices,
          .elements = elements,
          .elementBytes = bytes,
          .registers = vectors * matrices *
                       ((elements * bytes + kWordBytes - 1) / kWordBytes)};
}

double furtherPassBytes(const RowProblem &problem, double kept) {
  // Later passes read the stored sum with a residual, not its terms.
  const double matrices = 1 - kept + double(problem.matrices());
  return furtherPasses(problem) * matrices * static_cast<double>(problem.rows) *
         static_cast<double>(problem.cols) * bytesOf(problem.dtype);
}

void addAccessCosts(PassWork &kernel, const RowProblem &problem,
                    int64_t vector) {
  // Addresses, bounds, and the issue of loads and stores: a vector of half the
  // width takes as long as a whole one (H200: a row of 7040 takes 4.4 us by 7
  // vectors of 4, 3.0 us by 4 vectors of 8). Operands that all rows share are
  // loaded without bounds of their own, a mask among them at no further cost.
  constexpr double kAccessOps = 14, kSharedShare = 0.7;
  double accesses = 1 + !isReduction(problem.op) + 2 * problem.residual +
                    double(problem.matrices()) +
                    kSharedShare * double(problem.sharedRows() -
                                          (problem.mask == RowMask::Row));
  double elements =
      static_cast<double>(problem.rows) * static_cast<double>(problem.cols);
  kernel.simdOps +=
      kAccessOps * accesses * elements / static_cast<double>(vector);
}

static constexpr double kStepOps = 7; // a shuffle, a merge, selects

void addBlockCosts(PassWork &kernel, const RowProblem &problem, int64_t vector,
                   int64_t rowThreads) {
  const RowSignature signature = signatureOf(problem);
  if (!signature.hasBlocks())
    return;
  constexpr double kScaleOps = 14; // its division, its inverse, its address
  const double lanes =
      signature
          .scaleShare(static_cast<int>(vector), static_cast<int>(rowThreads))
          .lanes;
  kernel.simdOps +=
      scaleCount(problem) * lanes * (kScaleOps + kStepOps * std::log2(lanes));
}

void addShuffleCosts(PassWork &kernel, const RowProblem &problem, int64_t rows,
                     int64_t rowThreads) {
  if (!hasStatistics(problem))
    return;
  double steps = std::log2(double(std::min<int64_t>(rowThreads, kWarpThreads)));
  kernel.simdOps +=
      kStepOps * steps *
      static_cast<double>(rows * kernel.tasks * kernel.clusterSize *
                          kernel.block.threads);
}

void addSharedCosts(PassWork &kernel, double vectors) {
  // A warp's vector takes 4 clocks to write and to read.
  constexpr double kSharedOps = 64;
  kernel.simdOps += kSharedOps * vectors;
}

int64_t addStartOps(PassWork &kernel, const RowProblem &problem, RowStart start,
                    double threads) {
  if (start == RowStart::Aligned)
    return 1;
  // Counted in the machine code of the resident kernel (ptxas 13.0 for sm_90):
  // some 30 instructions load and shift a vector of 8 elements. A lane has one
  // end, or several in turn where lanes are few.
  constexpr double kShift = 4, kEnds = 25, kMostEnds = 14;
  const double rounds = std::ceil(kMostEnds / threads);
  threads = std::max(threads, kMostEnds);
  auto rows = static_cast<double>(problem.rows);
  int64_t shifted = problem.sharedRows();
  if (start == RowStart::Any)
    shifted += 1 + problem.residual + problem.matrices();
  // Each access to a row's head or tail is a line of its own, and so takes a
  // clock of the SM's loads and stores, in which all lanes could work.
  constexpr double kLineOps = 128;
  int64_t accesses = 1 + !isReduction(problem.op) + 2 * problem.residual +
                     problem.matrices() + problem.sharedRows();
  double lines = static_cast<double>(accesses) * std::max(rounds, 2.0);
  kernel.simdOps +=
      rows * (static_cast<double>(problem.cols * shifted) * kShift +
              kEnds * threads + kLineOps * lines);
  return static_cast<int64_t>(rounds);
}

} // namespace kiln
