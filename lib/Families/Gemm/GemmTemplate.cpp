//===- GemmTemplate.cpp ---------------------------------------------------===//
#include "Families/Gemm/GemmTemplate.h"

#include "Model/RegisterWall.h"

#include <algorithm>

namespace kiln {

GemmProduct::GemmProduct(const Problem &problem, RowCopies copies,
                         int64_t roundBytes)
    : gemm(readGemmProblem(problem.values.array().data())),
      quantizes(gemm.quantizes()) {
  signature = readGemmSignature(problem.signature);
  // Masked groups have more rows than a plan knows.
  constexpr int kVector = 16;
  if (copies.aligns && signature.isPacked() && signature.alignA < kVector &&
      signature.groups != GroupKind::Masked) {
    signature.alignA = kVector;
    alignsA = !gemm.gathers;
  }
  rounds = GemmRounds::of(gemm, alignsA || (copies.gathers && gemm.gathers),
                          roundBytes);
  roundCount = rounds.count(gemm.m, gemm.batchA);
  GemmProblem whole = gemm;
  if (quantizes || roundCount > 1) [[unlikely]] {
    FieldValues &values = changed.emplace(problem.values.array().begin(),
                                          problem.values.array().end());
    if (quantizes)
      toProduct(values.data());
    whole = readGemmProblem(values.data());
    if (roundCount > 1)
      GemmRounds::toPart(whole, 0, rounds.rows, rounds.matrices, values.data());
    gemm = readGemmProblem(values.data());
  }
  if (quantizes) {
    // The problem's own alignment counts: loaded kernels are known by it. An
    // odd row of D costs the product its vectors.
    signature.out = gemm.out;
    signature.scaleD = ScaleKind::None;
    signature.alignD = std::max(signature.alignD, bytesOf(gemm.out));
  }
  typical = typicalRound(whole, rounds, roundCount);
}

/// The scales \p of, which are argument \p given, as kernels take them. Scales
/// of packed weights have an order of their own.
static ScaleParams scaleParams(const GemmProblem &problem,
                               const OperandScales &of,
                               const OperandArgument &given) {
  ScaleParams to;
  if (of.kind == ScaleKind::None)
    return to;
  to.data = reinterpret_cast<const float *>(given.address);
  to.batchStride = given.batchStride;
  if (problem.isPacked())
    return to;
  if (of.kind == ScaleKind::Row)
    to.rowStride = 1;
  else if (isBlockScale(of.kind)) {
    to.rowStride = of.alongRows ? 1 : given.leadingDimension;
    to.depthStride = of.alongRows ? given.leadingDimension : 1;
  }
  return to;
}

/// Sets the groups, and the index and weights of rows that are elsewhere.
static void setGroups(const GemmProblem &problem,
                      const OperandArgument *operands, GemmParams &params) {
  auto input = [&](int index) {
    return reinterpret_cast<const void *>(operands[index].address);
  };
  if (problem.groups == GroupKind::Ends)
    params.strideA = params.strideD = params.strideResidual =
        params.scaleA.batchStride = 0;
  params.groups.sizes =
      static_cast<const int *>(input(GemmOperand::GroupSizes));
  params.groups.align = static_cast<int>(problem.groupAlign);
  params.groups.first = static_cast<int>(problem.firstRow);
  params.groups.all = static_cast<int>(problem.allRows);
  params.groups.divisor = static_cast<int>(problem.divisor);
  params.groups.index = static_cast<const int *>(input(GemmOperand::RowIndex));
  params.groups.weights =
      static_cast<const float *>(input(GemmOperand::RowWeights));
}

GemmParams makeGemmParams(const GemmProblem &problem,
                          const Arguments &arguments) {
  const OperandArgument *operands = arguments.operands;
  auto input = [&](int index) {
    return reinterpret_cast<const void *>(operands[index].address);
  };
  auto scalar = [&](int index) {
    return reinterpret_cast<const float *>(arguments.scalarAddresses[index]);
  };
  GemmParams params;
  params.a = input(GemmOperand::A);
  params.b = input(GemmOperand::B);
  params.c = input(GemmOperand::C);
  params.d = reinterpret_cast<void *>(operands[GemmOperand::D].address);
  params.bias = input(GemmOperand::Bias);
  params.residual = input(GemmOperand::Residual);
  params.m = problem.room;
  params.n = problem.n;
  params.k = problem.k;
  params.batch = problem.batch;
  params.lda = operands[GemmOperand::A].leadingDimension;
  params.ldb = operands[GemmOperand::B].leadingDimension;
  params.ldc = operands[GemmOperand::C].leadingDimension;
  params.ldd = operands[GemmOperand::D].leadingDimension;
  params.ldResidual = operands[GemmOperand::Residual].leadingDimension;
  params.strideA = operands[GemmOperand::A].batchStride;
  params.strideB = operands[GemmOperand::B].batchStride;
  params.strideC = operands[GemmOperand::C].batchStride;
  params.strideD = operands[GemmOperand::D].batchStride;
  params.strideBias = operands[GemmOperand::Bias].batchStride;
  params.strideResidual = operands[GemmOperand::Residual].batchStride;
  params.scaleA =
      scaleParams(problem, problem.scaleA, operands[GemmOperand::ScaleA]);
  params.scaleB =
      scaleParams(problem, problem.scaleB, operands[GemmOperand::ScaleB]);
  params.zeroB = input(GemmOperand::ZeroB);
  if (problem.hasGroups()) [[unlikely]]
    setGroups(problem, operands, params);
  if (problem.zeroA != ScaleKind::None) {
    const OperandArgument &zero = operands[GemmOperand::ZeroA];
    const OperandArgument &sums = operands[GemmOperand::ColumnSumsB];
    params.zeroA = {
        reinterpret_cast<const int *>(zero.address), zero.batchStride,
        reinterpret_cast<const int *>(sums.address), sums.batchStride};
  }
  params.alpha = static_cast<float>(arguments.scalars[GemmScalar::Alpha]);
  params.beta = static_cast<float>(arguments.scalars[GemmScalar::Beta]);
  params.alphaPtr = scalar(GemmScalar::Alpha);
  params.betaPtr = scalar(GemmScalar::Beta);
  return params;
}

/// Tiles of rows that groups may have.
static int64_t mostRowTiles(const GemmProblem &problem, int64_t tileM) {
  int64_t each = ceilDiv(problem.room, tileM);
  if (problem.groups == GroupKind::Masked)
    return each * problem.batch;
  return std::min(each + problem.batch, std::max<int64_t>(problem.m, 1));
}

int64_t groupBlocks(const GemmProblem &problem, int64_t tileM, int64_t tileN,
                    int64_t resident) {
  int64_t tiles = mostRowTiles(problem, tileM) * ceilDiv(problem.n, tileN);
  return std::clamp<int64_t>(tiles, 1, resident);
}

int constantOperands(const Arguments &arguments) {
  return (arguments.isEarly(GemmOperand::A) ? kEarlyA : 0) |
         (arguments.isEarly(GemmOperand::B) ? kEarlyB : 0);
}

int earlyOperands(int operands, const GemmProblem &problem,
                  const Arguments &arguments, const EarlyLaunch &launch) {
  // Which matrices a launch reads is known when the kernel ahead has ended.
  if (3 * launch.blocks < 2 * launch.smCount || problem.hasGroups())
    return 0;
  auto reads = [&](int index, int64_t extent, int64_t tile) {
    bool isOfBatch =
        problem.batch > 1 && arguments.operands[index].batchStride == 0;
    int64_t sharers = ceilDiv(extent, tile) * (isOfBatch ? problem.batch : 1);
    constexpr int64_t kLongOfFlight = 4;
    return sharers <= 1 ||
           (sharers == 2 && problem.k <= kLongOfFlight * launch.stepsInFlight);
  };
  if (!reads(GemmOperand::A, problem.n, launch.tileN))
    operands &= ~kEarlyA;
  if (!reads(GemmOperand::B, problem.m, launch.tileM))
    operands &= ~kEarlyB;
  return operands;
}

std::optional<Rejection> checkRegisters(int64_t registers, int64_t threads,
                                        int64_t minBlocks,
                                        const DeviceModel &device) {
  // Registers that the launch bounds leave a thread, as occupancy counts them.
  int64_t limit = registerLimit(device, threads, minBlocks);
  if (registers > limit)
    return Rejection{PruneReason::Registers, double(registers), double(limit),
                     "registers a thread"};
  return std::nullopt;
}

std::optional<Rejection> checkAccumulators(double accumulators) {
  constexpr double kMost = 128;
  if (accumulators > kMost)
    return Rejection{PruneReason::Registers, accumulators, kMost,
                     "accumulators a thread"};
  return std::nullopt;
}

std::optional<Rejection> checkSplits(const GemmProblem &problem, int64_t blockK,
                                     int splitK) {
  int64_t ranges = ceilDiv(std::max<int64_t>(problem.k, 1), blockK);
  if (splitK > 1 && splitK > ranges)
    return Rejection{PruneReason::Dominated, double(splitK), double(ranges),
                     "splits"};
  return std::nullopt;
}

} // namespace kiln
