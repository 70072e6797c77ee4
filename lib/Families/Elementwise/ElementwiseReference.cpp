//===- ElementwiseReference.cpp - parameters, and the reference -----------===//
#include "Families/Elementwise/ElementwiseFamily.h"

#include "Families/KernelReference.h"
#include "elementwise/ReferenceElementwiseConfig.h"

namespace kiln {

ElementwiseParams makeElementwiseParams(const ElementwiseProblem &problem,
                                        const Arguments &arguments) {
  const OperandArgument *operands = arguments.operands;
  ElementwiseParams params;
  params.x =
      reinterpret_cast<const void *>(operands[ElementwiseOperand::X].address);
  params.y = reinterpret_cast<void *>(operands[ElementwiseOperand::Y].address);
  for (int i = 0; i < PointwiseChain::kMaxOps; ++i)
    params.operands[i] = reinterpret_cast<const void *>(
        operands[ElementwiseOperand::FirstLink + i].address);
  params.rows = problem.rows;
  params.cols = problem.cols;
  // The problem's leading dimensions count: the kernel depends on whether all
  // are packed.
  params.ldx = problem.ldx;
  params.ldy = problem.ldy;
  params.ldOperand = problem.ldOperand;
  params.scale =
      static_cast<float>(arguments.scalars[ElementwiseScalar::Scale]);
  params.scalePtr = reinterpret_cast<const float *>(
      arguments.scalarAddresses[ElementwiseScalar::Scale]);
  return params;
}

std::unique_ptr<Reference>
makeElementwiseReference(const ElementwiseSignature &signature,
                         const DeviceModel &device) {
  constexpr ReferenceElementwiseConfig kConfig{};
  return makeReference<ReferenceElementwiseParams>(
      makeKernelUnit(
          {"elementwise/ReferenceElementwise.cuh", "ElementwiseSignature",
           "ReferenceElementwiseConfig", "ReferenceElementwiseParams",
           "referenceElementwise"},
          referenceOf(elementwiseProblemSchema(), signature, kConfig), device),
      kConfig.threads(),
      // The only written operand is y.
      [=](const Arguments &arguments, const ReferencePart &part,
          ReferenceElementwiseParams &params) {
        ElementwiseProblem problem = readElementwiseProblem(arguments.problem);
        params.operands = makeElementwiseParams(problem, arguments);
        return kConfig.blocks(part.rows(), problem.cols);
      });
}

} // namespace kiln
