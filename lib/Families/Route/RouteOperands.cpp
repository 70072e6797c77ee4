//===- RouteOperands.cpp - operands, for trials and for kernels -----------===//
//
// Usual logits are N(0, 1). Outliers have few bits, so that many are equal,
// minus infinities, and tokens of nothing else, whose weights are NaN.
//
//===----------------------------------------------------------------------===//
#include "Families/ProblemFields.h"
#include "Families/Route/RouteFamily.h"

#include <limits>

namespace kiln {

static OperandSpec &describe(OperandTable &table, int index,
                             llvm::StringRef name, OperandRole role, DType type,
                             int64_t rows, int64_t cols, bool present = true) {
  OperandSpec &spec = table.operands[index];
  spec.name = name;
  spec.role = role;
  spec.type = type;
  spec.present = present;
  spec.rows = rows;
  spec.cols = spec.leadingDimension = cols;
  // Only logits have the problem's alignment.
  spec.alignment = bytesOf(type);
  spec.misalignment = misalignmentOf(spec.alignment, type);
  // Results are what the reference says, within its bound.
  spec.tolerance = {0, 1, 0};
  return spec;
}

static void describeLogits(const RouteProblem &p, OperandTable &table) {
  OperandSpec &logits = describe(table, RouteOperand::Logits, "logits",
                                 OperandRole::In, p.dtype, p.tokens, p.experts);
  logits.leadingDimension = p.ld;
  logits.alignment = 0;
  logits.misalignment = misalignmentOf(p.align, p.dtype);
  logits.outliers.mantissaBits = 2;
  logits.outliers.outlierPeriod = 200;
  logits.outliers.outlier = 60;
  logits.outliers.minusInfinityPeriod = 9;
  logits.outliers.rowPeriod = 7;
  logits.outliers.rowValue = -std::numeric_limits<double>::infinity();
}

static void describeInputs(const RouteProblem &p, OperandTable &table) {
  auto bias = [&](int index, llvm::StringRef name, bool present) {
    OperandSpec &spec = describe(table, index, name, OperandRole::In,
                                 DType::FP32, 1, p.experts, present);
    spec.usual.deviation = 0.2;
    spec.outliers.mantissaBits = 1;
  };
  bias(RouteOperand::LogitBias, "logit_bias", p.logitBias);
  bias(RouteOperand::ChoiceBias, "choice_bias", p.choiceBias);
  OperandSpec &count =
      describe(table, RouteOperand::TokenCount, "token_count", OperandRole::In,
               DType::INT32, 1, 1, p.tokenCount);
  count.usual.integers = {IntegerData::Values, p.tokens, p.tokens};
  count.outliers.integers = {IntegerData::Values, -1, p.tokens + 1};
}

OperandTable routeOperands(const RouteProblem &p) {
  OperandTable table;
  table.operands.resize(RouteOperand::Count);
  describeLogits(p, table);
  describeInputs(p, table);
  auto result = [&](int index, llvm::StringRef name, int64_t rows, int64_t cols,
                    bool present = true) {
    describe(table, index, name, OperandRole::Out,
             index == RouteOperand::Weights ? DType::FP32 : DType::INT32, rows,
             cols, present);
  };
  result(RouteOperand::Index, "index", 1, p.indexRoom());
  result(RouteOperand::Ends, "ends", 1, p.local);
  result(RouteOperand::Weights, "weights", p.tokens, p.topK);
  result(RouteOperand::Chosen, "chosen", p.tokens, p.topK, p.chosen);
  result(RouteOperand::Sizes, "sizes", 1, p.local, p.sizes);
  return table;
}

RouteParams makeRouteParams(const RouteProblem &p, const Arguments &arguments) {
  using Operand = RouteOperand;
  RouteParams params;
  auto set = [&]<class T>(T *&pointer, int index, bool isThere = true) {
    if (isThere)
      pointer = reinterpret_cast<T *>(arguments.operands[index].address);
  };
  set(params.logits, Operand::Logits);
  params.ld = arguments.operands[Operand::Logits].leadingDimension;
  params.tokens = static_cast<int>(p.tokens);
  params.experts = static_cast<int>(p.experts);
  params.topK = static_cast<int>(p.topK);
  if (p.isGrouped()) {
    params.groups = static_cast<int>(p.groups);
    params.topGroups = static_cast<int>(p.topGroups);
  }
  params.firstExpert = static_cast<int>(p.first);
  params.localExperts = static_cast<int>(p.local);
  params.align = static_cast<int>(p.groupAlign);
  params.renormalizes = p.renormalizes;
  params.scale = static_cast<float>(arguments.scalars[RouteScalar::Scale]);
  set(params.logitBias, Operand::LogitBias, p.logitBias);
  set(params.choiceBias, Operand::ChoiceBias, p.choiceBias);
  set(params.tokenCount, Operand::TokenCount, p.tokenCount);
  set(params.index, Operand::Index);
  set(params.ends, Operand::Ends);
  set(params.weights, Operand::Weights);
  set(params.chosen, Operand::Chosen, p.chosen);
  set(params.sizes, Operand::Sizes, p.sizes);
  return params;
}

} // namespace kiln
