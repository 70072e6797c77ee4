//===- Sm90Plan.cpp -------------------------------------------------------===//
//
// Tensor maps say how operands lie in memory, so everything about layouts and
// batches is here: the kernel only names coordinates. A launch compares its
// matrices with those of the plan; where sizes are the same, as they are unless
// a dynamic extent has changed, the encoded prototype serves.
//
//===----------------------------------------------------------------------===//
#include "Families/Gemm/Sm90Plan.h"

#include "Driver/TensorMapElement.h"
#include "Families/Gemm/GemmTemplate.h"
#include "Families/Gemm/Sm90Estimate.h"
#include "Families/Gemm/Sm90Repack.h"
#include "Model/MathUtil.h"
#include "gemm/RepackConfig.h"
#include "gemm/Sm90GemmParams.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>

namespace kiln {

namespace {

/// A batch of row-major matrices in memory. Sizes in elements.
struct StoredMatrix {
  DeviceAddress address = 0;
  int64_t rows = 0, cols = 0, ld = 0, stride = 0;

  /// Whether both have the same sizes; addresses may differ.
  bool isLike(const StoredMatrix &other) const {
    return ((rows ^ other.rows) | (cols ^ other.cols) | (ld ^ other.ld) |
            (stride ^ other.stride)) == 0;
  }
};

/// The matrices of a launch as its product reads and writes them.
struct StoredMatrices {
  StoredMatrix a, b, c, d, residual;
};

class Sm90Binder final : public Binder {
public:
  Sm90Binder(const PlannedGemm &plannedProblem, const GemmSignature &signature,
             const Sm90GemmConfig &config, const DeviceModel &device)
      : plannedProblem(plannedProblem), signature(signature), config(config),
        aheadA(aheadOfA(signature, config)),
        aheadB(aheadOfB(signature, config)),
        boxesA(boxesOf(!config.swapAB, config.readsKMajorA(signature))),
        boxesB(boxesOf(config.swapAB, config.readsKMajorB(signature))),
        sharedBytes(static_cast<uint32_t>(config.sharedBytes(signature))),
        mostGroups(residentGroups(config, device)), smCount(device.smCount) {
    const GemmProblem &problem = plannedProblem.problem;
    auto strideOf = [&](int64_t packed) {
      return problem.batch > 1 ? packed : 0;
    };
    // Groups with ends share a matrix.
    auto flat = [&](int64_t packed) {
      return signature.hasFlatRows() ? 0 : strideOf(packed);
    };
    StoredMatrix a{0, problem.rowsA(), problem.colsA(), problem.lda,
                   flat(problem.strideA())};
    if (signature.gathers)
      a.ld = gatheredLda(problem);
    StoredMatrix b{0, problem.rowsB(), problem.colsB(), problem.ldb,
                   strideOf(problem.strideB())};
    copied(a, aheadA);
    copied(b, aheadB);
    const int64_t columns = problem.n / signature.columnsPerOutput();
    auto ofD = [&](int64_t ld, int64_t stride) {
      return StoredMatrix{0, problem.room, columns, ld, stride};
    };
    planned = {a, b, ofD(problem.ldc, strideOf(problem.strideC())),
               ofD(problem.ldd, flat(problem.strideD())),
               ofD(problem.ldResidual, flat(problem.strideResidual()))};
    plannedBatch = problem.batch;
    const TensorMapSpec fetched = pieceForm(
        config.swapAB ? config.pieceColumns(signature) : Sm90GemmConfig::kUnit);
    plannedMaps = {
        operandMap(formOf(boxesA), boxesA, a, plannedBatch),
        operandMap(formOf(boxesB), boxesB, b, plannedBatch),
        sized(fetched, planned.c, plannedBatch),
        sized(pieceForm(config.storedRows(signature)), planned.d, plannedBatch),
        sized(fetched, planned.residual, plannedBatch)};
  }

  void bind(const Arguments &arguments, const LaunchContext &context,
            LaunchSpec &spec) const noexcept override;

  /// The tensor maps of a launch; maps that it does not use stay out of the
  /// plan.
  struct Maps {
    TensorMapSpec a, b, c, d, residual;
  };
  const Maps &maps() const { return plannedMaps; }
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

  /// The boxes that bring a stage of an operand.
  struct Boxes {
    bool kMajor;       ///< along k, with rows of the extent
    bool finishesRows; ///< in whole pairs: the row beyond is zeros then
    int64_t count;     ///< of a stage
    int64_t mostRows;  ///< of a box, unless the operand has fewer
  };
  Boxes boxesOf(bool isRowSide, bool kMajor) const;
  static int64_t rowsOf(const Boxes &boxes, int64_t extent);
  int64_t stageBytes(const GemmProblem &problem) const;

  TensorMapSpec formOf(DType type, uint32_t boxCols, uint32_t boxRows,
                       TensorMapSwizzle swizzle) const;
  TensorMapSpec formOf(const Boxes &boxes) const;
  TensorMapSpec pieceForm(uint32_t boxRows) const;
  static TensorMapSpec sized(TensorMapSpec form, const StoredMatrix &matrix,
                             int64_t batch);
  static TensorMapSpec operandMap(const TensorMapSpec &form, const Boxes &boxes,
                                  const StoredMatrix &matrix, int64_t batch);

  StoredMatrix bindOperand(StoredMatrix matrix, Ahead ahead, int64_t batch,
                           bool depends, DeviceAddress &scratch,
                           LaunchSpec &spec) const;
  void zeroSplits(const GemmProblem &problem, const LaunchContext &context,
                  LaunchSpec &spec) const;
  void setGeometry(const GemmProblem &problem, const LaunchContext &context,
                   KernelStep &step) const;
  void setParams(const GemmProblem &problem, const LaunchContext &context,
                 const StoredMatrices &matrices, Sm90GemmParams &params) const;
  int earlyOf(const GemmProblem &problem, const Arguments &arguments,
              const LaunchSpec &spec) const;
  void addMaps(const StoredMatrices &matrices, int64_t batch,
               const EncodedTensorMap *prototypes, const KernelStep &step,
               LaunchSpec &spec) const;

  PlannedGemm plannedProblem;
  GemmSignature signature;
  Sm90GemmConfig config;
  // These follow from both, and launches do not derive them again.
  Ahead aheadA, aheadB;
  Boxes boxesA, boxesB;
  uint32_t sharedBytes;
  int64_t mostGroups;
  int64_t smCount;
  // The operands of the planned problem, and their maps.
  StoredMatrices planned;
  int64_t plannedBatch;
  Maps plannedMaps;
};

} // namespace

/// The boxes of an operand. Each block of a cluster that shares the tile has
/// its part of the rows, in halves where a box has no place for them.
Sm90Binder::Boxes Sm90Binder::boxesOf(bool isRowSide, bool kMajor) const {
  const int rows = isRowSide ? config.rows() : config.columns();
  const int sharers =
      isRowSide ? config.clusterColumns() : config.clusterRows();
  if (!kMajor) // rows of k, along the extent: as many bytes for any of them
    return {false, false, rows, config.blockK};
  const int64_t boxRows = Slab::boxRows(rows / sharers);
  return {true, !isRowSide && Sm90GemmConfig::finishesPairs(signature),
          rows / boxRows, boxRows};
}

/// Rows of a box: no more than the operand has.
int64_t Sm90Binder::rowsOf(const Boxes &boxes, int64_t extent) {
  if (!boxes.kMajor)
    return boxes.mostRows;
  return std::min(boxes.mostRows,
                  boxes.finishesRows ? roundUp(extent, 2) : extent);
}

/// The bytes of a stage that TMA loads.
int64_t Sm90Binder::stageBytes(const GemmProblem &problem) const {
  auto elements = [&](const Boxes &boxes, int64_t extent) {
    const int64_t depth = boxes.kMajor ? config.blockK : 1;
    return boxes.count * rowsOf(boxes, extent) * depth;
  };
  int64_t all = elements(boxesA, problem.room);
  // Packed weights come without boxes, and kernels count them.
  if (!signature.isPacked())
    all += elements(boxesB, problem.n);
  return all * elementBytes();
}

/// A map without sizes.
TensorMapSpec Sm90Binder::formOf(DType type, uint32_t boxCols, uint32_t boxRows,
                                 TensorMapSwizzle swizzle) const {
  TensorMapSpec map;
  map.elementType = static_cast<int32_t>(type);
  map.rank = 3;
  map.box[0] = boxCols;
  map.box[1] = boxRows;
  map.box[2] = 1;
  map.swizzle = swizzle;
  map.l2Promotion = config.promotion == 1   ? L2Promotion::None
                    : config.promotion == 2 ? L2Promotion::B128
                                            : L2Promotion::B256;
  return map;
}

/// Boxes of a slab.
TensorMapSpec Sm90Binder::formOf(const Boxes &boxes) const {
  TensorMapSpec map =
      formOf(signature.in,
             static_cast<uint32_t>(Sm90GemmConfig::slabElements(signature)),
             static_cast<uint32_t>(boxes.mostRows), TensorMapSwizzle::B128);
  if (signature.compute == ComputeMode::TF32)
    map.elementType = kTf32Element;
  return map;
}

/// Boxes as wide as the rows of a staged piece.
TensorMapSpec Sm90Binder::pieceForm(uint32_t boxRows) const {
  const int bytes = bytesOf(signature.out);
  const int rowBytes = config.stagedRowBytes(signature);
  TensorMapSwizzle swizzle = rowBytes == 128  ? TensorMapSwizzle::B128
                             : rowBytes == 64 ? TensorMapSwizzle::B64
                                              : TensorMapSwizzle::B32;
  return formOf(signature.out, rowBytes / bytes, boxRows, swizzle);
}

/// \p form, or a map of that form, with the sizes of \p matrix.
TensorMapSpec Sm90Binder::sized(TensorMapSpec form, const StoredMatrix &matrix,
                                int64_t batch) {
  const int64_t bytes = bytesOf(static_cast<DType>(form.elementType));
  form.dims[0] = static_cast<uint64_t>(matrix.cols);
  form.dims[1] = static_cast<uint64_t>(matrix.rows);
  // All batches of a shared operand are its first.
  form.dims[2] = static_cast<uint64_t>(matrix.stride ? batch : 1);
  form.strides[0] = static_cast<uint64_t>(matrix.ld * bytes);
  // Not read with one batch, but it has to be a stride all the same.
  const int64_t stride =
      batch > 1 && matrix.stride ? matrix.stride : matrix.ld * matrix.rows;
  form.strides[1] = static_cast<uint64_t>(stride * bytes);
  return form;
}

TensorMapSpec Sm90Binder::operandMap(const TensorMapSpec &form,
                                     const Boxes &boxes,
                                     const StoredMatrix &matrix,
                                     int64_t batch) {
  TensorMapSpec map = sized(form, matrix, batch);
  map.box[1] = static_cast<uint32_t>(rowsOf(boxes, matrix.rows));
  return map;
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

/// Zeroes the region in which splits exchange sums.
void Sm90Binder::zeroSplits(const GemmProblem &problem,
                            const LaunchContext &context,
                            LaunchSpec &spec) const {
  if (config.splitK() == 1)
    return;
  int64_t bytes = config.zeroedBytes(problem.m, problem.n, problem.batch);
  context.zero(static_cast<uint64_t>(bytes), spec);
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
  step.sharedBytes = sharedBytes;
}

/// Values of the config and the launch; makeGemmParams() has set the others.
void Sm90Binder::setParams(const GemmProblem &problem,
                           const LaunchContext &context,
                           const StoredMatrices &matrices,
                           Sm90GemmParams &params) const {
  params.gemm.rasterGroup = config.rasterGroup;
  if (config.splitK() != 1)
    params.gemm.partials = reinterpret_cast<float *>(context.zeroed);
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
  const int inPlace = (aheadA == Ahead::Nothing ? kEarlyA : 0) |
                      (aheadB == Ahead::Nothing ? kEarlyB : 0);
  return earlyOperandsOf(config, constant & inPlace, problem, arguments,
                         smsToFill);
}

/// In the order of Plan::tensorMaps.
void Sm90Binder::addMaps(const StoredMatrices &matrices, int64_t batch,
                         const EncodedTensorMap *prototypes,
                         const KernelStep &step, LaunchSpec &spec) const {
  auto add = [&](StoredMatrix StoredMatrices::*which, size_t member,
                 auto makeMap) {
    const StoredMatrix &matrix = matrices.*which;
    const auto offset = static_cast<uint32_t>(step.paramOffset + member);
    const EncodedTensorMap &prototype = *prototypes++;
    if (batch == plannedBatch && matrix.isLike(planned.*which)) [[likely]]
      spec.addTensorMap(prototype, matrix.address, offset);
    else
      spec.addTensorMap(makeMap(matrix), matrix.address, offset);
  };
  using Matrices = StoredMatrices;
  add(&Matrices::a, offsetof(Sm90GemmParams, a), [&](const StoredMatrix &a) {
    return operandMap(plannedMaps.a, boxesA, a, batch);
  });
  if (loadsBoxesOfB())
    add(&Matrices::b, offsetof(Sm90GemmParams, b), [&](const StoredMatrix &b) {
      return operandMap(plannedMaps.b, boxesB, b, batch);
    });
  auto addSide = [&](StoredMatrix Matrices::*which, size_t member,
                     const TensorMapSpec &form) {
    add(which, member,
        [&](const StoredMatrix &matrix) { return sized(form, matrix, batch); });
  };
  if (storesByTma())
    addSide(&Matrices::d, offsetof(Sm90GemmParams, d), plannedMaps.d);
  if (fetchesC())
    addSide(&Matrices::c, offsetof(Sm90GemmParams, c), plannedMaps.c);
  if (fetchesResidual())
    addSide(&Matrices::residual, offsetof(Sm90GemmParams, residual),
            plannedMaps.residual);
}

void Sm90Binder::bind(const Arguments &arguments, const LaunchContext &context,
                      LaunchSpec &spec) const noexcept {
  const LaunchedGemm launched(plannedProblem, arguments.problem);
  const GemmProblem &problem = *launched;
  auto stored = [&](int index, int64_t rows, int64_t cols) {
    const OperandArgument &operand = arguments.operands[index];
    return StoredMatrix{operand.address, rows, cols, operand.leadingDimension,
                        problem.batch > 1 ? operand.batchStride : 0};
  };
  DeviceAddress scratch = context.scratch;
  zeroSplits(problem, context, spec);
  StoredMatrix a = stored(GemmOperand::A, problem.rowsA(), problem.colsA());
  std::optional<GemmParams> gathered;
  if (problem.gathers) [[unlikely]] {
    gathered = makeGemmParams(problem, arguments);
    // Behind the kernels that copy (GemmTemplate.h).
    const int function = 1 + hasAhead(signature, config, Ahead::Repack) +
                         hasAhead(signature, config, Ahead::Transpose);
    addGather(problem, scratch, function, arguments.isDependent, *gathered,
              spec);
    a.address = scratch;
    a.ld = gathered->lda;
    scratch += static_cast<DeviceAddress>(gatherBytes(problem));
  }
  const int64_t columns = problem.n / signature.columnsPerOutput();
  const StoredMatrices matrices{
      bindOperand(a, aheadA, problem.batch, arguments.isDependent, scratch,
                  spec),
      bindOperand(stored(GemmOperand::B, problem.rowsB(), problem.colsB()),
                  aheadB, problem.batch, arguments.isDependent, scratch, spec),
      stored(GemmOperand::C, problem.room, columns),
      stored(GemmOperand::D, problem.room, columns),
      stored(GemmOperand::Residual, problem.room, columns)};
  const int early = earlyOf(problem, arguments, spec);
  KernelStep &step = spec.addKernelOf([&] {
    Sm90GemmParams params{
        .a = {},
        .b = {},
        .c = {},
        .d = {},
        .residual = {},
        .gemm = gathered ? *gathered : makeGemmParams(problem, arguments)};
    params.gemm.early = early;
    setParams(problem, context, matrices, params);
    return params;
  });
  step.dependentLaunch = early != 0 || problem.gathers;
  setGeometry(problem, context, step);
  addMaps(matrices, problem.batch, context.tensorMaps, step, spec);
}

void completeSm90Plan(const PlannedGemm &planned,
                      const GemmSignature &signature,
                      const Sm90GemmConfig &config, const DeviceModel &device,
                      Plan &plan) {
  auto binder =
      std::make_shared<Sm90Binder>(planned, signature, config, device);
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
