//===- GemmGroups.cpp -----------------------------------------------------===//
#include "Families/Gemm/GemmGroups.h"

#include "Families/Gemm/GemmOperands.h"
#include "Families/Gemm/GemmProblem.h"
#include "Families/ProblemFields.h"
#include "Model/MathUtil.h"
#include "Support/Error.h"
#include "Support/Format.h"
#include "kiln/gemm.h"

#include <algorithm>
#include <cmath>

namespace kiln {

void GemmGroups::addFields(llvm::MutableArrayRef<Field> fields) {
  using F = GemmField;
  fields[F::Groups] = enumField("groups", false, kGemmGroupNames);
  fields[F::Room] = {
      .key = "room", .role = FieldRole::Capacity, .maximum = kMaxExtent};
  fields[F::GroupAlign] = {.key = "group_align",
                           .role = FieldRole::Extent,
                           .defaultValue = 1,
                           .minimum = 1,
                           .maximum = kMaxGroupAlign};
  fields[F::Gather] = flagField("gather");
  fields[F::Divisor] = {.key = "divisor",
                        .role = FieldRole::Extent,
                        .defaultValue = 1,
                        .minimum = 1,
                        .maximum = kMaxExtent};
  fields[F::Scatter] = flagField("scatter");
  fields[F::RowWeights] = flagField("row_weights");
}

/// GemmSignature::areGroupsValid(), and the rows of masked groups.
llvm::Error GemmGroups::check(const GemmProblem &p) {
  const bool mapsRows = p.gathers || p.scatters;
  if (p.groups != GroupKind::Ends) {
    if (mapsRows)
      return makeError(ErrorCode::Unsupported,
                       "gemm: gather and scatter need groups=ends");
    if (p.hasRowWeights)
      return makeError(ErrorCode::Unsupported,
                       "gemm: row_weights=1 needs groups=ends");
  }
  if (!p.hasGroups())
    return llvm::Error::success();
  if (p.batch > kMostGroups)
    return makeError(ErrorCode::Unsupported,
                     "gemm: batch={} groups, at most {} work", p.batch,
                     kMostGroups);
  if (isTransposedA(p.layout))
    return makeError(ErrorCode::Unsupported,
                     "gemm: groups need rows of A along k, layout=NT or NN");
  if (p.beta != 0)
    return makeError(ErrorCode::Unsupported,
                     "gemm: beta is set with groups, which take no C");
  if (p.compute == ComputeMode::TF32)
    return makeError(ErrorCode::Unsupported,
                     "gemm: compute=tf32 is not available with groups");
  if (p.scatters && p.pointwise.contains(PointwiseOp::Residual))
    return makeError(ErrorCode::Unsupported,
                     "gemm: a residual is not available with scatter");
  if (p.groups == GroupKind::Masked && p.m == 0 && p.room > 0)
    return makeError(ErrorCode::InvalidArgument,
                     "gemm: m=0, of masked groups m is how many rows to expect "
                     "of each");
  if (p.groups == GroupKind::Masked && p.room < p.m)
    return makeError(ErrorCode::InvalidArgument,
                     "gemm: room={} is less than m={}", p.room, p.m);
  return llvm::Error::success();
}

void GemmGroups::reset(const GemmProblem &p, Values &values) {
  resetIf(p.groups != GroupKind::Masked || p.room == p.m, GemmField::Room,
          values);
  if (p.groups != GroupKind::Ends)
    values.set(GemmField::GroupAlign, 1);
  if (!p.gathers)
    values.set(GemmField::Divisor, 1);
}

void GemmGroups::describe(const GemmProblem &p, OperandTable &table) {
  auto describeLine = [&](int index, llvm::StringRef name, int slot, DType type,
                          int64_t count, bool isPresent) -> OperandSpec & {
    OperandSpec &spec = table.operands[index];
    spec.name = name;
    spec.slot = slot;
    spec.type = type;
    spec.rows = 1;
    // An operand that is not there follows no extent.
    spec.cols = spec.leadingDimension = isPresent ? count : 0;
    alignToElement(spec);
    spec.present = isPresent;
    return spec;
  };
  const bool isMasked = p.groups == GroupKind::Masked;
  OperandSpec &sizes =
      describeLine(GemmOperand::GroupSizes, "group_sizes",
                   KILN_GEMM_GROUP_SIZES, DType::INT32, p.batch, p.hasGroups());
  sizes.usual.integers = {isMasked ? IntegerData::Counts : IntegerData::Ends, 0,
                          isMasked       ? p.room
                          : p.batch == 1 ? p.m
                                         : ceilDiv(p.m, 2),
                          isMasked ? p.m * p.batch : p.m, p.groupAlign};
  sizes.outliers = sizes.usual;
  OperandSpec &index =
      describeLine(GemmOperand::RowIndex, "row_index", KILN_GEMM_ROW_INDEX,
                   DType::INT32, p.m, p.gathers || p.scatters);
  index.usual.integers = {IntegerData::Indices, 0,
                          std::max<int64_t>(p.m - 1, 0)};
  index.outliers = index.usual;
  describeLine(GemmOperand::RowWeights, "row_weights", KILN_GEMM_ROW_WEIGHTS,
               DType::FP32, p.m, p.hasRowWeights);
}

//===----------------------------------------------------------------------===//
// Rows to expect
//===----------------------------------------------------------------------===//

/// Sizes of groups differ by so much of their mean, as those that trials draw
/// (IntegerInit.h).
static constexpr double kSpread = 0.3;

GemmProblem typicalProduct(const GemmProblem &problem) {
  GemmProblem typical = problem;
  if (!problem.hasGroups() || problem.batch == 0)
    return typical;
  double each = double(problem.m);
  if (problem.groups == GroupKind::Ends) {
    const double groups = double(problem.batch);
    const double withRows =
        groups * (1 - std::pow(1 - 1 / groups, std::max(each, 1.0)));
    typical.batch = std::max<int64_t>(1, std::llround(withRows));
    each /= double(typical.batch);
    // A single group has a known size.
    typical.meanRows = typical.batch > 1 ? each : 0;
  }
  // Sizes differ: a tile that holds the mean is too small for half of them.
  constexpr double kMostMore = 32;
  typical.m =
      std::llround(std::ceil(each + std::min(kSpread * each, kMostMore)));
  if (problem.groups == GroupKind::Ends)
    typical.m = std::min(typical.m, problem.m);
  typical.room = typical.m;
  typical.batchA = typical.batch;
  return typical;
}

/// Tiles of \p tile rows that sizes from 0 to \p most need, summed over all.
static double tilesUpTo(double most, double tile) {
  const double whole = std::floor(most / tile);
  return tile * whole * (whole + 1) / 2 + (whole + 1) * (most - whole * tile);
}

// Gate and up of Qwen3-235B at 4096 tokens, H200: the times of tiles of 96 to
// 320 rows follow it within 3 %.
double tilesAlongM(const GemmProblem &problem, int64_t tile) {
  if (problem.meanRows <= 0)
    return double(ceilDiv(problem.m, tile));
  const double least = problem.meanRows * (1 - kSpread),
               most = problem.meanRows * (1 + kSpread);
  return (tilesUpTo(most, double(tile)) - tilesUpTo(least, double(tile))) /
         (most - least);
}

std::string tilesAlongMText(const GemmProblem &problem, int64_t tile) {
  return fmt::format("{:.{}f}", tilesAlongM(problem, tile),
                     problem.meanRows > 0 ? 2 : 0);
}

} // namespace kiln
