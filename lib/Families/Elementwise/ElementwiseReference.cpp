//===- ElementwiseReference.cpp - parameters, and the reference -----------===//
#include "Families/Elementwise/ElementwiseFamily.h"

#include "Families/KernelUnit.h"
#include "Families/ReferenceStep.h"
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

namespace {

class ElementwiseReference final : public Reference {
public:
  ElementwiseReference(const ElementwiseSignature &signature,
                       const DeviceModel &device)
      : unit(makeKernelUnit(
            {"elementwise/ReferenceElementwise.cuh", "ElementwiseSignature",
             "ReferenceElementwiseConfig", "ReferenceElementwiseParams",
             "referenceElementwise"},
            referenceOf(elementwiseProblemSchema(), signature, config),
            device)) {}

  const TranslationUnit &translationUnit() const override { return unit; }

  /// The only written operand is y.
  void bind(const Arguments &arguments, const ReferencePart &part,
            LaunchSpec &spec) const override {
    ElementwiseProblem problem = readElementwiseProblem(arguments.problem);
    ReferenceElementwiseParams params;
    params.operands = makeElementwiseParams(problem, arguments);
    addReferenceStep(part, params, config.blocks(part.rows(), problem.cols),
                     config.threads(), spec);
  }

private:
  static constexpr ReferenceElementwiseConfig config{};
  TranslationUnit unit;
};

} // namespace

std::unique_ptr<Reference>
makeElementwiseReference(const ElementwiseSignature &signature,
                         const DeviceModel &device) {
  return std::make_unique<ElementwiseReference>(signature, device);
}

} // namespace kiln
