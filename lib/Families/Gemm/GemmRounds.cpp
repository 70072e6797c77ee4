//===- GemmRounds.cpp -----------------------------------------------------===//
#include "Families/Gemm/GemmRounds.h"

#include "Families/Gemm/GatherStep.h"
#include "Model/MathUtil.h"
#include "Support/Format.h"

#include <algorithm>
#include <atomic>
#include <memory>

namespace kiln {

static std::atomic<int64_t> roundBytes = GemmRounds::kBytes;

RoundsOfBytes::RoundsOfBytes(int64_t bytes) { roundBytes = bytes; }
RoundsOfBytes::~RoundsOfBytes() { roundBytes = GemmRounds::kBytes; }

int64_t GemmRounds::bytes(bool isGeneric) {
  constexpr int64_t kGenericPart = 8;
  const int64_t most = roundBytes.load(std::memory_order_relaxed);
  return isGeneric ? most / kGenericPart : most;
}

/// Parts of thousands of rows have whole tiles; smaller parts have whole
/// vectors of an A that lies across k.
static int64_t unitOf(int64_t rows) {
  constexpr int64_t kTile = 256, kVector = 16;
  return rows >= kTile ? kTile : rows >= kVector ? kVector : 1;
}

/// Bytes of the workspace that a row has.
static int64_t rowBytes(const GemmProblem &problem, bool copiesRows) {
  int64_t bytes = 0;
  if (problem.quantizes())
    bytes += problem.outCols() * bytesOf(problem.sideType());
  if (copiesRows)
    bytes += gatheredRowBytes(problem);
  return bytes;
}

/// \p rows of each of \p matrices, of \p each bytes.
static GemmRounds roundsOf(int64_t rows, int64_t matrices, int64_t each) {
  return {rows, matrices, double(rows) * double(matrices) * double(each)};
}

GemmRounds GemmRounds::of(const GemmProblem &problem, bool copiesRows,
                          int64_t bytes) {
  const int64_t each = rowBytes(problem, copiesRows);
  if (each == 0 || problem.room * problem.batchA <= bytes / each)
    return roundsOf(problem.room, problem.batchA, each);
  int64_t rows = std::max<int64_t>(1, bytes / each);
  if (rows >= problem.room)
    return roundsOf(problem.room, rows / problem.room, each);
  rows = roundDown(rows, unitOf(rows));
  // Addresses of parts keep their alignment.
  if (isTransposedA(problem.layout))
    rows = std::min(roundUp(rows, unitOf(16)), problem.room);
  return roundsOf(rows, 1, each);
}

int64_t GemmRounds::evenRows(int64_t m) const {
  if (m <= rows)
    return std::max<int64_t>(m, 1);
  return std::min(rows, roundUp(ceilDiv(m, ceilDiv(m, rows)), unitOf(rows)));
}

int64_t GemmRounds::count(int64_t m, int64_t batch) const {
  return std::max<int64_t>(1,
                           ceilDiv(m, evenRows(m)) * ceilDiv(batch, matrices));
}

void GemmRounds::toPart(const GemmProblem &problem, int64_t firstRow,
                        int64_t rows, int64_t matrices, int64_t *values) {
  values[GemmField::M] = rows;
  // Derived of m.
  if (isTransposedA(problem.layout))
    values[GemmField::Lda] = problem.lda;
  if (isBlockScale(problem.scaleA.kind) && problem.scaleA.alongRows)
    values[GemmField::LdScaleA] = problem.scaleA.ld;
  if (isBlockScale(problem.scaleD.kind) && problem.scaleD.alongRows)
    values[GemmField::LdScaleD] = problem.scaleD.ld;
  if (problem.hasGroups()) {
    values[GemmField::FirstRow] = firstRow;
    values[GemmField::AllRows] = problem.m;
  } else
    values[GemmField::Batch] = matrices;
}

GemmProblem typicalRound(const GemmProblem &product, const GemmRounds &rounds,
                         int64_t count) {
  GemmProblem round = product;
  if (count <= 1)
    return typicalProduct(round);
  round.m = round.room = rounds.evenRows(product.m);
  if (product.hasGroups())
    // A part begins within a group.
    round.batch = std::min(product.batch, ceilDiv(product.batch, count) + 1);
  else
    round.batch = round.batchA = round.batchB =
        std::min(product.batch, rounds.matrices);
  return typicalProduct(round);
}

namespace {

/// Binds one round: the same arguments, with the addresses of its part.
class RoundsBinder final : public Binder {
public:
  RoundsBinder(std::shared_ptr<const Binder> part, const GemmRounds &rounds)
      : part(std::move(part)), limits(rounds) {}

  int64_t rounds(const Arguments &arguments,
                 int32_t /*smCount*/) const noexcept override {
    const GemmProblem problem = readGemmProblem(arguments.problem);
    return limits.count(problem.m, problem.batchA);
  }

  void bind(const Arguments &arguments, const LaunchContext &context,
            LaunchSpec &spec) const noexcept override {
    const GemmProblem problem = readGemmProblem(arguments.problem);
    if (limits.count(problem.m, problem.batchA) == 1)
      return part->bind(arguments, context, spec);
    const int64_t each = limits.evenRows(problem.m);
    const int64_t down = ceilDiv(problem.m, each);
    const int64_t row = context.round % down * each;
    const int64_t matrix = context.round / down * limits.matrices;
    int64_t values[GemmField::Count];
    std::copy_n(arguments.problem, GemmField::Count, values);
    GemmRounds::toPart(problem, row, std::min(each, problem.m - row),
                       std::min(limits.matrices, problem.batchA - matrix),
                       values);
    Arguments ofPart = arguments;
    ofPart.problem = values;
    // Its first kernel follows those of the round before.
    ofPart.isDependent = arguments.isDependent && context.round == 0;
    shift(problem, row, matrix, ofPart);
    part->bind(ofPart, context, spec);
  }

private:
  static void shift(const GemmProblem &problem, int64_t row, int64_t matrix,
                    Arguments &arguments);

  std::shared_ptr<const Binder> part;
  GemmRounds limits;
};

} // namespace

/// Has \p arguments begin with \p row of \p matrix. Operands that are asked for
/// by the number of a row stay.
void RoundsBinder::shift(const GemmProblem &problem, int64_t row,
                         int64_t matrix, Arguments &arguments) {
  auto move = [&](int index, int64_t bytes, int64_t ofRow) {
    OperandArgument &operand = arguments.operands[index];
    if (operand.address)
      operand.address += static_cast<DeviceAddress>(
          bytes * (matrix * operand.batchStride + row * ofRow));
  };
  auto ld = [&](int index) {
    return arguments.operands[index].leadingDimension;
  };
  auto moveScales = [&](int index, const OperandScales &scales) {
    const bool isOfRows = scales.kind == ScaleKind::Row ||
                          (isBlockScale(scales.kind) && scales.alongRows);
    move(index, bytesOf(DType::FP32),
         isOfRows                    ? 1
         : isBlockScale(scales.kind) ? ld(index)
                                     : 0);
  };
  using Op = GemmOperand;
  const int64_t side = bytesOf(problem.sideType());
  if (!problem.gathers) {
    move(Op::A, bytesOf(problem.dtype),
         isTransposedA(problem.layout) ? 1 : ld(Op::A));
    moveScales(Op::ScaleA, problem.scaleA);
  }
  if (matrix > 0) { // no groups, and no packed weights
    move(Op::B, bytesOf(problem.typeB), 0);
    move(Op::Bias, side, 0);
    move(Op::ScaleB, bytesOf(DType::FP32), 0);
    move(Op::ColumnSumsB, bytesOf(DType::INT32), 0);
  }
  move(Op::C, side, ld(Op::C));
  move(Op::Residual, side, ld(Op::Residual));
  if (!problem.scatters)
    move(Op::D, bytesOf(problem.out), ld(Op::D));
  moveScales(Op::ScaleD, problem.scaleD);
  move(Op::ZeroA, bytesOf(DType::INT32), problem.zeroA == ScaleKind::Row);
  const bool mapsRows = problem.gathers || problem.scatters;
  if (problem.hasGroups()) {
    move(Op::RowIndex, bytesOf(DType::INT32), 1);
    move(Op::RowWeights, bytesOf(DType::FP32), mapsRows ? 0 : 1);
  }
}

void bindRounds(const GemmRounds &rounds, Plan &plan) {
  plan.binder = std::make_shared<RoundsBinder>(std::move(plan.binder), rounds);
  plan.hasRounds = true;
}

} // namespace kiln
