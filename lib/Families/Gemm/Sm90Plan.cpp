//===- Sm90Plan.cpp -------------------------------------------------------===//
//
// Tensor maps say how operands lie in memory, so everything about layouts and
// batches is here: the kernel only names coordinates. A launch compares its
// maps with those of the plan; where sizes are the same, as they are unless a
// dynamic extent has changed, the encoded prototype serves.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/Sm90Plan.h"

#include "Driver/TensorMapElement.h"
#include "Families/Gemm/GemmTemplate.h"
#include "Families/Gemm/Sm90Estimate.h"
#include "Families/Gemm/Sm90Repack.h"
#include "Families/ReusedTensorMap.h"
#include "Model/MathUtil.h"
#include "gemm/RepackConfig.h"
#include "gemm/Sm90GemmParams.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace kiln {

namespace {

/// A batch of row-major matrices in memory. Sizes in elements.
struct StoredMatrix {
  DeviceAddress address = 0;
  int64_t rows = 0, cols = 0, ld = 0, stride = 0;
};

/// The matrices of a launch as its product reads and writes them.
struct StoredMatrices {
  StoredMatrix a, b, c, d, residual;
};

class Sm90Binder final : public Binder {
public:
  Sm90Binder(const GemmProblem &problem, const GemmSignature &signature,
             const Sm90GemmConfig &config, const DeviceModel &device)
      : signature(signature), config(config),
        mostGroups(residentGroups(config, device)), smCount(device.smCount) {
    // Groups with ends share a matrix.
    auto flat = [&](int64_t stride) {
      return signature.hasFlatRows() ? 0 : stride;
    };
    StoredMatrix a{0, problem.rowsA(), problem.colsA(), problem.lda,
                   flat(problem.strideA())};
    if (signature.gathers)
      a.ld = gatheredLda(problem);
    StoredMatrix b{0, problem.rowsB(), problem.colsB(), problem.ldb,
                   problem.strideB()};
    copied(a, aheadOfA(signature, config));
    copied(b, aheadOfB(signature, config));
    planned.a = mapOfA(a, problem.batch);
    planned.b = mapOfB(b, problem.batch);
    int64_t columns = problem.n / signature.columnsPerOutput();
    planned.d =
        mapOfD({0, problem.room, columns, problem.ldd, flat(problem.strideD())},
               problem.batch);
    planned.c =
        fetchedMap({0, problem.room, columns, problem.ldc, problem.strideC()},
                   problem.batch);
    planned.residual = fetchedMap({0, problem.room, columns, problem.ldResidual,
                                   flat(problem.strideResidual())},
                                  problem.batch);
  }

  void bind(const Arguments &arguments, const LaunchContext &context,
            LaunchSpec &spec) const noexcept override;

  /// The tensor maps of a launch; maps that it does not use stay out of the
  /// plan.
  struct Maps {
    TensorMapSpec a, b, c, d, residual;
  };
  const Maps &maps() const { return planned; }
  bool loadsBoxesOfB() const { return !signature.isPacked(); }
  bool storesByTma() const { return config.storesByTma(signature); }
  bool fetchesC() const {
    return config.fetchedOperands(signature) > 0 && signature.readsC;
  }
  bool fetchesResidual() const {
    return config.fetchedOperands(signature) > 0 &&
           signature.pointwise.contains(PointwiseOp::Residual);
  }

private:
  int64_t elementBytes() const { return bytesOf(signature.in); }

  /// The matrix as \p ahead leaves it: batches without gaps.
  void copied(StoredMatrix &matrix, Ahead ahead) const {
    if (ahead == Ahead::Nothing)
      return;
    if (ahead == Ahead::Transpose)
      std::swap(matrix.rows, matrix.cols);
    matrix.ld = packedPitch(matrix.cols, elementBytes()) / elementBytes();
    matrix.stride = matrix.stride ? matrix.rows * matrix.ld : 0;
  }

  TensorMapSpec mapOf(const StoredMatrix &matrix, int64_t batch, DType type,
                      uint32_t boxCols, uint32_t boxRows,
                      TensorMapSwizzle swizzle) const;
  int64_t boxRows(bool isRowSide, int64_t extent) const;
  TensorMapSpec operandMap(const StoredMatrix &matrix, int64_t batch,
                           bool isRowSide, bool kMajor) const;
  int64_t stageBytes(const GemmProblem &problem) const;
  TensorMapSpec mapOfA(const StoredMatrix &a, int64_t batch) const {
    return operandMap(a, batch, !config.swapAB, config.readsKMajorA(signature));
  }
  TensorMapSpec mapOfB(const StoredMatrix &b, int64_t batch) const {
    return operandMap(b, batch, config.swapAB, config.readsKMajorB(signature));
  }
  TensorMapSpec pieceMap(const StoredMatrix &matrix, int64_t batch,
                         uint32_t boxRows) const;
  TensorMapSpec mapOfD(const StoredMatrix &d, int64_t batch) const {
    return pieceMap(d, batch, config.storedRows(signature));
  }
  TensorMapSpec fetchedMap(const StoredMatrix &matrix, int64_t batch) const {
    return pieceMap(matrix, batch,
                    config.swapAB ? config.pieceColumns(signature)
                                  : Sm90GemmConfig::kUnit);
  }

  StoredMatrix bindOperand(StoredMatrix matrix, Ahead ahead, int64_t batch,
                           bool depends, DeviceAddress &scratch,
                           LaunchSpec &spec) const;
  void bindSplits(const GemmProblem &problem, const LaunchContext &context,
                  GemmParams &params, LaunchSpec &spec) const;
  void setGeometry(const GemmProblem &problem, const LaunchContext &context,
                   KernelStep &step) const;
  void setParams(const GemmProblem &problem, const StoredMatrices &matrices,
                 Sm90GemmParams &params) const;
  int earlyOf(const GemmProblem &problem, const Arguments &arguments,
              const LaunchSpec &spec) const;
  void addMaps(const StoredMatrices &matrices, int64_t batch,
               const EncodedTensorMap *prototypes, const KernelStep &step,
               LaunchSpec &spec) const;

  GemmSignature signature;
  Sm90GemmConfig config;
  int64_t mostGroups;
  int64_t smCount;
  Maps planned;
};

} // namespace

TensorMapSpec Sm90Binder::mapOf(const StoredMatrix &matrix, int64_t batch,
                                DType type, uint32_t boxCols, uint32_t boxRows,
                                TensorMapSwizzle swizzle) const {
  int64_t bytes = bytesOf(type);
  TensorMapSpec map;
  map.elementType = static_cast<int32_t>(type);
  map.rank = 3;
  map.dims[0] = static_cast<uint64_t>(matrix.cols);
  map.dims[1] = static_cast<uint64_t>(matrix.rows);
  // All batches of a shared operand are its first.
  map.dims[2] = static_cast<uint64_t>(matrix.stride ? batch : 1);
  map.strides[0] = static_cast<uint64_t>(matrix.ld * bytes);
  // Not read with one batch, but it has to be a stride all the same.
  int64_t stride =
      batch > 1 && matrix.stride ? matrix.stride : matrix.ld * matrix.rows;
  map.strides[1] = static_cast<uint64_t>(stride * bytes);
  map.box[0] = boxCols;
  map.box[1] = boxRows;
  map.box[2] = 1;
  map.swizzle = swizzle;
  map.l2Promotion = config.promotion == 1   ? L2Promotion::None
                    : config.promotion == 2 ? L2Promotion::B128
                                            : L2Promotion::B256;
  return map;
}

/// Rows of a box of an operand that is stored along k. Each block of a cluster
/// that shares the tile has its part, in halves where a box has no place for
/// them. There are no more rows than the operand has, in whole pairs where they
/// are finished so: the row beyond is zeros then.
int64_t Sm90Binder::boxRows(bool isRowSide, int64_t extent) const {
  int rows = isRowSide ? config.rows() : config.columns();
  int sharers = isRowSide ? config.clusterColumns() : config.clusterRows();
  if (!isRowSide && Sm90GemmConfig::finishesPairs(signature))
    extent = roundUp(extent, 2);
  return std::min<int64_t>(Slab::boxRows(rows / sharers), extent);
}

/// Boxes of a slab: along k with rows of the extent, or along the extent with
/// rows of k.
TensorMapSpec Sm90Binder::operandMap(const StoredMatrix &matrix, int64_t batch,
                                     bool isRowSide, bool kMajor) const {
  int64_t rows = kMajor ? boxRows(isRowSide, matrix.rows) : config.blockK;
  TensorMapSpec map =
      mapOf(matrix, batch, signature.in,
            static_cast<uint32_t>(Sm90GemmConfig::slabElements(signature)),
            static_cast<uint32_t>(rows), TensorMapSwizzle::B128);
  if (signature.compute == ComputeMode::TF32)
    map.elementType = kTf32Element;
  return map;
}

/// Bytes of a stage that TMA brings.
int64_t Sm90Binder::stageBytes(const GemmProblem &problem) const {
  auto bytes = [&](bool isRowSide, bool kMajor, int64_t extent) -> int64_t {
    int rows = isRowSide ? config.rows() : config.columns();
    int sharers = isRowSide ? config.clusterColumns() : config.clusterRows();
    if (!kMajor)
      return int64_t(rows) * config.blockK * elementBytes();
    int64_t boxes = rows / Slab::boxRows(rows / sharers);
    return boxes * boxRows(isRowSide, extent) * config.blockK * elementBytes();
  };
  int64_t ofA =
      bytes(!config.swapAB, config.readsKMajorA(signature), problem.room);
  // Packed weights come without boxes, and kernels count them.
  return signature.isPacked()
             ? ofA
             : ofA + bytes(config.swapAB, config.readsKMajorB(signature),
                           problem.n);
}

/// Boxes as wide as the rows of a staged piece.
TensorMapSpec Sm90Binder::pieceMap(const StoredMatrix &matrix, int64_t batch,
                                   uint32_t boxRows) const {
  int bytes = bytesOf(signature.out);
  int rowBytes = config.stagedRowBytes(signature);
  TensorMapSwizzle swizzle = rowBytes == 128  ? TensorMapSwizzle::B128
                             : rowBytes == 64 ? TensorMapSwizzle::B64
                                              : TensorMapSwizzle::B32;
  return mapOf(matrix, batch, signature.out, rowBytes / bytes, boxRows,
               swizzle);
}

/// Whether what is added to \p spec next follows a kernel of this launch.
bool endsWithKernel(const LaunchSpec &spec) {
  return spec.stepCount &&
         spec.steps[spec.stepCount - 1].kind == LaunchStep::Kind::Kernel;
}

/// Where the product reads an operand: its own place, or the workspace, to
/// which a step before then copies it. \p depends: the launch does.
StoredMatrix Sm90Binder::bindOperand(StoredMatrix matrix, Ahead ahead,
                                     int64_t batch, bool depends,
                                     DeviceAddress &scratch,
                                     LaunchSpec &spec) const {
  if (ahead == Ahead::Nothing)
    return matrix;
  int64_t copies = matrix.stride ? batch : 1, bytes = elementBytes();
  RepackParams params;
  params.source = reinterpret_cast<const void *>(matrix.address);
  params.target = reinterpret_cast<void *>(scratch);
  params.rows = matrix.rows * copies;
  params.rowsPerBatch = matrix.rows;
  params.rowBytes = matrix.cols * bytes;
  params.sourcePitch = matrix.ld * bytes;
  params.sourceStride = matrix.stride * bytes;
  copied(matrix, ahead);
  params.targetPitch = matrix.ld * bytes;
  const bool mayBeginEarly = depends || endsWithKernel(spec);
  KernelStep &step = spec.addKernel(params);
  step.dependentLaunch = mayBeginEarly;
  bool transposes = ahead == Ahead::Transpose;
  step.function =
      transposes && hasAhead(signature, config, Ahead::Repack) ? 2 : 1;
  constexpr RepackConfig kRepack{};
  int64_t blocks = transposes ? kRepack.blocksOfTiles({static_cast<int>(bytes)},
                                                      params.rowsPerBatch,
                                                      matrix.rows, copies)
                              : kRepack.blocks(params.rows, params.targetPitch);
  step.grid.x = static_cast<uint32_t>(std::max<int64_t>(1, blocks));
  step.block.x = static_cast<uint32_t>(kRepack.threads());
  matrix.address = scratch;
  scratch += static_cast<DeviceAddress>(
      roundUp(copies * matrix.rows * params.targetPitch, 256));
  return matrix;
}

/// Gives splits the zeros where they exchange sums.
void Sm90Binder::bindSplits(const GemmProblem &problem,
                            const LaunchContext &context, GemmParams &params,
                            LaunchSpec &spec) const {
  if (config.splitK() == 1)
    return;
  int64_t bytes = config.zeroedBytes(problem.m, problem.n, problem.batch);
  context.zero(static_cast<uint64_t>(bytes), spec);
  params.partials = reinterpret_cast<float *>(context.zeroed);
}

/// Blocks are persistent: as many as run at once, or as have a tile. Blocks
/// that stage where their ring was are not: each has one tile, on any grid.
void Sm90Binder::setGeometry(const GemmProblem &problem,
                             const LaunchContext &context,
                             KernelStep &step) const {
  int64_t groups = config.groups(problem.m, problem.n, problem.batch);
  int64_t resident = std::clamp<int64_t>(context.smCount / config.groupBlocks(),
                                         1, mostGroups);
  if (problem.hasGroups())
    groups = groupBlocks(problem, config.blockM * config.clusterM,
                         config.blockN * config.clusterN, resident);
  int64_t running = config.stagesInRing() ? groups : std::min(groups, resident);
  step.grid.x = static_cast<uint32_t>(running * config.groupBlocks());
  step.block.x = static_cast<uint32_t>(config.threads());
  step.cluster.x = static_cast<uint32_t>(config.multicastBlocks());
  step.cooperative = config.splitK() > 1;
  step.sharedBytes = static_cast<uint32_t>(config.sharedBytes(signature));
}

/// Values of the config and the launch; makeGemmParams() has set the others.
void Sm90Binder::setParams(const GemmProblem &problem,
                           const StoredMatrices &matrices,
                           Sm90GemmParams &params) const {
  params.gemm.rasterGroup = config.rasterGroup;
  params.rasterAlongN = config.rasterAlongN;
  params.tilesFirst = config.tilesFirst;
  params.hints = config.hints;
  params.stageBytes = static_cast<int>(stageBytes(problem));
  params.batchStepA = matrices.a.stride != 0;
  params.batchStepB = matrices.b.stride != 0;
  params.batchStepC = matrices.c.stride != 0;
  params.batchStepResidual = matrices.residual.stride != 0;
}

/// The operands that the product, which is added to \p spec next, reads early.
int Sm90Binder::earlyOf(const GemmProblem &problem, const Arguments &arguments,
                        const LaunchSpec &spec) const {
  // Behind a copy the product may read at once what no copy writes: where the
  // launch does not depend, all before it has ended when its copy begins.
  const bool followsCopies = endsWithKernel(spec);
  const int constant = followsCopies && !arguments.isDependent
                           ? kEarlyA | kEarlyB
                           : constantOperands(arguments);
  // Behind a copy no other launch's idle SMs are in the way of an even share.
  const int64_t smsToFill = followsCopies ? 0 : smCount;
  const int inPlace =
      (aheadOfA(signature, config) == Ahead::Nothing ? kEarlyA : 0) |
      (aheadOfB(signature, config) == Ahead::Nothing ? kEarlyB : 0);
  return earlyOperandsOf(config, constant & inPlace, problem, arguments,
                         smsToFill);
}

/// In the order of Plan::tensorMaps.
void Sm90Binder::addMaps(const StoredMatrices &matrices, int64_t batch,
                         const EncodedTensorMap *prototypes,
                         const KernelStep &step, LaunchSpec &spec) const {
  auto add = [&](const StoredMatrix &matrix, const TensorMapSpec &map,
                 const TensorMapSpec &plannedMap, size_t member) {
    addTensorMap(map, plannedMap, *prototypes++, matrix.address,
                 step.paramOffset + member, spec);
  };
  const auto &[a, b, c, d, residual] = matrices;
  add(a, mapOfA(a, batch), planned.a, offsetof(Sm90GemmParams, a));
  if (loadsBoxesOfB())
    add(b, mapOfB(b, batch), planned.b, offsetof(Sm90GemmParams, b));
  if (storesByTma())
    add(d, mapOfD(d, batch), planned.d, offsetof(Sm90GemmParams, d));
  if (fetchesC())
    add(c, fetchedMap(c, batch), planned.c, offsetof(Sm90GemmParams, c));
  if (fetchesResidual())
    add(residual, fetchedMap(residual, batch), planned.residual,
        offsetof(Sm90GemmParams, residual));
}

void Sm90Binder::bind(const Arguments &arguments, const LaunchContext &context,
                      LaunchSpec &spec) const noexcept {
  GemmProblem problem = readGemmProblem(arguments.problem);
  auto stored = [&](int index, int64_t rows, int64_t cols) {
    const OperandArgument &operand = arguments.operands[index];
    return StoredMatrix{operand.address, rows, cols, operand.leadingDimension,
                        problem.batch > 1 ? operand.batchStride : 0};
  };
  DeviceAddress scratch = context.scratch;
  Sm90GemmParams params;
  params.gemm = makeGemmParams(problem, arguments);
  bindSplits(problem, context, params.gemm, spec);
  StoredMatrix a = stored(GemmOperand::A, problem.rowsA(), problem.colsA());
  if (problem.gathers) [[unlikely]] {
    // Behind the kernels that copy (GemmTemplate.h).
    const int function = 1 + hasAhead(signature, config, Ahead::Repack) +
                         hasAhead(signature, config, Ahead::Transpose);
    addGather(problem, scratch, function, arguments.isDependent, params.gemm,
              spec);
    a.address = scratch;
    a.ld = params.gemm.lda;
    scratch += static_cast<DeviceAddress>(gatherBytes(problem));
  }
  const int64_t columns = problem.n / signature.columnsPerOutput();
  const StoredMatrices matrices{
      bindOperand(a, aheadOfA(signature, config), problem.batch,
                  arguments.isDependent, scratch, spec),
      bindOperand(stored(GemmOperand::B, problem.rowsB(), problem.colsB()),
                  aheadOfB(signature, config), problem.batch,
                  arguments.isDependent, scratch, spec),
      stored(GemmOperand::C, problem.room, columns),
      stored(GemmOperand::D, problem.room, columns),
      stored(GemmOperand::Residual, problem.room, columns)};
  setParams(problem, matrices, params);
  params.gemm.early = earlyOf(problem, arguments, spec);
  KernelStep &step = spec.addKernel(params);
  step.dependentLaunch = params.gemm.early != 0 || problem.gathers;
  setGeometry(problem, context, step);
  addMaps(matrices, problem.batch, context.tensorMaps, step, spec);
}

void completeSm90Plan(const GemmProblem &problem,
                      const GemmSignature &signature,
                      const Sm90GemmConfig &config, const DeviceModel &device,
                      Plan &plan) {
  auto binder =
      std::make_shared<Sm90Binder>(problem, signature, config, device);
  plan.tensorMaps = {binder->maps().a};
  if (binder->loadsBoxesOfB())
    plan.tensorMaps.push_back(binder->maps().b);
  if (binder->storesByTma())
    plan.tensorMaps.push_back(binder->maps().d);
  if (binder->fetchesC())
    plan.tensorMaps.push_back(binder->maps().c);
  if (binder->fetchesResidual())
    plan.tensorMaps.push_back(binder->maps().residual);
  // In the order that KernelStep::function counts in.
  for (Ahead ahead : {Ahead::Repack, Ahead::Transpose})
    if (hasAhead(signature, config, ahead)) {
      plan.kernels.push_back(
          repackUnit(bytesOf(signature.in), ahead == Ahead::Transpose, device));
      plan.sharedBytes.push_back(0);
    }
  plan.binder = std::move(binder);
}

} // namespace kiln
