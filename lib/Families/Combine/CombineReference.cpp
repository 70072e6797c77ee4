//===- CombineReference.cpp - parameters, and the reference ---------------===//
#include "Families/Combine/CombineFamily.h"

#include "Families/KernelReference.h"
#include "combine/ReferenceCombineConfig.h"

namespace kiln {

CombineParams makeCombineParams(const CombineProblem &p,
                                const Arguments &arguments) {
  using Operand = CombineOperand;
  CombineParams params;
  auto set = [&]<class T>(T *&pointer, int index, bool isThere = true) {
    if (isThere)
      pointer = reinterpret_cast<T *>(arguments.operands[index].address);
  };
  auto ldOf = [&](int index) {
    return arguments.operands[index].leadingDimension;
  };
  set(params.x, Operand::X);
  set(params.y, Operand::Y);
  set(params.shared, Operand::Shared, p.shared);
  set(params.residual, Operand::Residual, p.residual);
  set(params.residualOut, Operand::ResidualOut, p.storesSum());
  set(params.normWeight, Operand::NormWeight, p.norm);
  set(params.weights, Operand::Weights, p.isWeighted());
  params.applies = p.weights == CombineWeights::Applied;
  params.ldx = ldOf(Operand::X);
  params.ldy = ldOf(Operand::Y);
  params.ldShared = ldOf(Operand::Shared);
  params.ldResidual = ldOf(Operand::Residual);
  params.ldResidualOut = ldOf(Operand::ResidualOut);
  params.tokens = p.tokens;
  params.cols = static_cast<int>(p.cols);
  params.topK = static_cast<int>(p.topK);
  params.epsilon =
      static_cast<float>(arguments.scalars[CombineScalar::Epsilon]);
  return params;
}

std::unique_ptr<Reference> makeCombineReference(const Problem &problem,
                                                const DeviceModel &device) {
  constexpr ReferenceCombineConfig kConfig{};
  return makeReference<ReferenceCombineParams>(
      makeKernelUnit({"combine/ReferenceCombine.cuh", "CombineSignature",
                      "ReferenceCombineConfig", "ReferenceCombineParams",
                      "referenceCombine"},
                     referenceOf(combineProblemSchema(),
                                 readCombineSignature(problem.signature),
                                 kConfig),
                     device),
      kConfig.threads(),
      [=](const Arguments &arguments, const ReferencePart &part,
          ReferenceCombineParams &params) {
        params.combine =
            makeCombineParams(readCombineProblem(arguments.problem), arguments);
        params.isSum = part.operand == CombineOperand::ResidualOut;
        return kConfig.blocks(part.rows());
      });
}

} // namespace kiln
