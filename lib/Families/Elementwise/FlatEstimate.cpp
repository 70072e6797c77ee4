//===- FlatEstimate.cpp ---------------------------------------------------===//
#include "Families/Elementwise/FlatEstimate.h"

#include "Families/Chain.h"

#include <algorithm>

namespace kiln {

namespace {

/// Instructions of one element, ordinary and special.
struct Instructions {
  double simd = 0, special = 0;

  void add(double simdCount, double specialCount = 0) {
    simd += simdCount;
    special += specialCount;
  }
};

/// Conversion to fp32: a shift or a mask; two e4m3 take one cvt and two more
/// (sm_89), a dozen integer instructions each before.
double unpackCost(DType type, const DeviceModel &device) {
  if (type == DType::FP32)
    return 0;
  if (type != DType::E4M3)
    return 1;
  return device.computeCapability() >= 89 ? 1.5 : 12;
}

/// Conversion from fp32: pairs take one cvt where it exists.
double packCost(DType type, const DeviceModel &device) {
  if (type == DType::FP32)
    return 0;
  if (type != DType::E4M3)
    return device.computeCapability() >= 80 ? 0.5 : 2;
  return device.computeCapability() >= 89 ? 0.5 : 16;
}

/// Average number of vectors of a thread: a line of few rows has fewer than the
/// config's items.
double itemsOf(const ElementwiseProblem &p,
               const FlatElementwiseConfig &config) {
  if (config.start != FlatElementwiseConfig::kLine)
    return config.items;
  auto runs = static_cast<double>(config.lineRuns(p.rows, p.cols));
  return double(config.vectors(p.rows, p.cols)) / std::max(runs, 1.0);
}

/// Instructions of one vector for operands that do not begin at a multiple of
/// it: vectors of two accesses are shifted into place. \p items: itemsOf().
double startCost(const ElementwiseSignature &signature,
                 const FlatElementwiseConfig &config, double items) {
  double shift = 4.0 * config.vectorWords(signature) + 4;
  // These are done once for all items.
  double rows = signature.count(LinkShape::Row) * (shift + 10) / items;
  double perColumn = 2.0 * config.vector;
  if (config.start == FlatElementwiseConfig::kLine)
    return rows + signature.count(LinkShape::Column) * perColumn;
  if (config.start == FlatElementwiseConfig::kAny)
    return FlatElementwiseConfig::matrices(signature) * shift + rows;
  return 0;
}

Instructions instructionsOf(const ElementwiseSignature &signature,
                            const FlatElementwiseConfig &config, double items,
                            const DeviceModel &device) {
  Instructions count;
  double unpack = unpackCost(signature.in, device);
  count.add(unpack + packCost(signature.out, device));
  bool pairs = config.vector > 1 && signature.out != DType::FP32;
  for (PointwiseOp op : signature.chain.ops) {
    const LinkCost link = costOf(op, pairs);
    count.add(link.simd, link.special);
    if (shapeOf(op) == LinkShape::Matrix)
      count.add(unpack);
    else if (shapeOf(op) == LinkShape::Row) // once for all items
      count.add(unpack / items);
  }
  // Accesses, with their addresses unless these are at constant distances, and
  // their share of the thread's beginning and end.
  int operands = 2 + signature.count(LinkShape::Matrix) +
                 signature.count(LinkShape::Column);
  double perVector = (config.hasRuns(signature) ? 3.0 : 1.0) * operands;
  perVector += startCost(signature, config, items);
  // H100, 8191 x 8191 bf16 by single elements: bias and silu 107 us, a sum of
  // two matrices 170 us. They cost more than their instructions.
  constexpr int kNarrowBytes = 4;
  constexpr double kPerNarrow = 12;
  if (config.vector * bytesOf(signature.in) <= kNarrowBytes)
    perVector += kPerNarrow * operands;
  // H200, bias and gelu of 5 x 150001 bf16, where no thread has a second item:
  // 2.79 us with configs of one item, 2.92 us of four, 3.07 us of eight.
  constexpr double kPerThread = 80, kPerAbsent = 30;
  double perThread = kPerThread + kPerAbsent * (config.items - items);
  count.add((perVector + perThread / items) / config.vector);
  return count;
}

} // namespace

/// The bytes, instructions and loads of \p config.
static PassWork workOf(const ElementwiseProblem &p,
                       const ElementwiseSignature &signature,
                       const FlatElementwiseConfig &config,
                       const DeviceModel &device) {
  PassWork kernel;
  int64_t inBytes = bytesOf(p.dtype), outBytes = bytesOf(p.out);
  double elements = double(p.rows) * p.cols;
  int64_t matrices = 1 + signature.count(LinkShape::Matrix);
  int64_t rowLinks = signature.count(LinkShape::Row);
  int64_t columnLinks = signature.count(LinkShape::Column);
  kernel.tasks = std::max<int64_t>(config.chunks(signature, p.rows, p.cols), 1);
  kernel.block = {config.threads(), config.registers(signature), 0};
  kernel.persistentPerSm = config.blocksPerSm;
  kernel.readBytes = elements * matrices * inBytes +
                     double(rowLinks * p.cols + columnLinks * p.rows) * inBytes;
  kernel.writeBytes = elements * outBytes;
  // The caches deliver a row of values for every run of items, and the value of
  // a column for every vector.
  const double items = std::max(itemsOf(p, config), 1.0);
  kernel.loads = {.vectors = items,
                  .operands = matrices,
                  .elements = config.vector,
                  .elementBytes = inBytes,
                  .registers =
                      config.items * matrices * config.vectorWords(signature)};
  kernel.sharedBytesPerTask =
      (elements / items * rowLinks + elements / config.vector * columnLinks) *
      inBytes / double(kernel.tasks);
  // A vector of several accesses loads each of its sectors by two of them, and
  // so do two vectors that cover one; if they bypass L1, the second one reads
  // L2 again.
  if (config.hint == 1 && (config.vector * inBytes > kAccessBytes ||
                           config.start == FlatElementwiseConfig::kAny))
    kernel.rereadBytes = elements * matrices * inBytes;
  Instructions count = instructionsOf(signature, config, items, device);
  kernel.simdOps = elements * count.simd;
  kernel.specialOps = elements * count.special;
  return kernel;
}

template <Number N>
MemoryPass<N> flatStreamKernel(const ElementwiseProblem &p,
                               const ElementwiseSignature &signature,
                               const FlatElementwiseConfig &config,
                               const DeviceModel &device) {
  MemoryPass<N> kernel{workOf(p, signature, config, device)};
  // H100, by accesses of 4 bytes and less: 0.88 to 0.90 of the copy baseline,
  // where whole accesses reach 0.94 to 0.97 (bias and sum of fp32 4922 x 4481,
  // 183 x 250957, 76 x 17609; bias and silu of bf16 8191 x 8191).
  constexpr int64_t kNarrowBytes = 4;
  constexpr double kNarrowLoss = 0.07;
  if (config.vector * bytesOf(p.dtype) <= kNarrowBytes)
    kernel.lostShare = fitted<N>(kNarrowLoss, "lost by narrow accesses");
  // H200: loads that bypass L1 take 1 to 11 % more time than plain ones
  // wherever DRAM is the limit, in 25 problems of 10 MB to 2 GB. In 15 smaller
  // problems they take 1 to 3 % less. On an H100 both are equal to 1 %, except
  // for three matrices of large problems, where they are 3 to 40 % slower.
  constexpr double kStreamingLoadsLoss = 0.05, kPlainLoadNs = 60;
  if (config.hint == 1)
    kernel.lostShare += fitted<N>(kStreamingLoadsLoss, "lost by loads past L1");
  else
    kernel.serialNs = fitted<N>(kPlainLoadNs, "loads through L1", "ns");
  return kernel;
}

template MemoryPass<double> flatStreamKernel(const ElementwiseProblem &,
                                             const ElementwiseSignature &,
                                             const FlatElementwiseConfig &,
                                             const DeviceModel &);
template MemoryPass<Figure> flatStreamKernel(const ElementwiseProblem &,
                                             const ElementwiseSignature &,
                                             const FlatElementwiseConfig &,
                                             const DeviceModel &);

} // namespace kiln
