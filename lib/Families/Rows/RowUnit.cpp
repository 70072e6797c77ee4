//===- RowUnit.cpp --------------------------------------------------------===//
#include "Families/Rows/RowUnit.h"

namespace kiln {

RowParams makeRowParams(const RowProblem &problem, const Arguments &arguments) {
  const OperandArgument *operands = arguments.operands;
  auto pointer = [&](int index) {
    return reinterpret_cast<void *>(operands[index].address);
  };
  RowParams params;
  params.x = pointer(RowOperand::X);
  params.y = pointer(RowOperand::Y);
  params.weight = pointer(RowOperand::Weight);
  params.bias = pointer(RowOperand::Bias);
  params.residual = pointer(RowOperand::Residual);
  params.residualOut = pointer(RowOperand::ResidualOut);
  params.mask = pointer(RowOperand::Mask);
  params.scales = static_cast<float *>(pointer(RowOperand::Scales));
  params.rows = problem.rows;
  params.cols = problem.cols;
  params.ldx = operands[RowOperand::X].leadingDimension;
  params.ldy = operands[RowOperand::Y].leadingDimension;
  params.ldResidual = operands[RowOperand::Residual].leadingDimension;
  params.ldResidualOut = operands[RowOperand::ResidualOut].leadingDimension;
  params.ldMask = operands[RowOperand::Mask].leadingDimension;
  if (problem.isNorm())
    params.epsilon = static_cast<float>(arguments.scalars[0]);
  else if (problem.op == RowOp::Softmax)
    params.scale = static_cast<float>(arguments.scalars[0]);
  params.allRows = problem.allRows;
  return params;
}

} // namespace kiln
