//===- ElementwiseTemplate.cpp - texts, parameters and the reference ------===//
#include "Families/Elementwise/ElementwiseTemplate.h"

#include "Families/KernelUnit.h"
#include "Support/Format.h"
#include "elementwise/FlatElementwiseConfig.h"

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
  // Those of the problem: whether all are packed decides about the kernel.
  params.ldx = problem.ldx;
  params.ldy = problem.ldy;
  params.ldOperand = problem.ldOperand;
  params.scale =
      static_cast<float>(arguments.scalars[ElementwiseScalar::Scale]);
  params.scalePtr = reinterpret_cast<const float *>(
      arguments.scalarAddresses[ElementwiseScalar::Scale]);
  return params;
}

TranslationUnit makeElementwiseUnit(const ElementwiseEntry &entry,
                                    const ElementwiseSignature &signature,
                                    llvm::StringRef configInitializer,
                                    int threads, int minBlocks,
                                    const DeviceModel &device) {
  return makeKernelUnit(
      {.header = entry.header,
       .signatureType = "ElementwiseSignature",
       .configType = entry.configType,
       .paramsType = entry.paramsType,
       .function = entry.function},
      {.unitName = fmt::format("kiln_elementwise_{}", entry.unitName),
       .signature = initializerText(signature),
       .config = configInitializer.str(),
       .threads = threads,
       .minBlocks = minBlocks,
       .check = fmt::format("kConfig.minBlocks(kSignature) == {}", minBlocks)},
      device);
}

namespace {

class ElementwiseReference final : public Reference {
public:
  ElementwiseReference(const ElementwiseSignature &signature,
                       const DeviceModel &device)
      : unit(makeElementwiseUnit({"elementwise/ReferenceElementwise.cuh",
                                  "ReferenceElementwiseConfig",
                                  "referenceElementwise",
                                  "ReferenceElementwiseParams", "reference"},
                                 signature, "{}", config.threads(),
                                 config.minBlocks(signature), device)) {}

  const TranslationUnit &translationUnit() const override { return unit; }

  /// The one written operand is y.
  void bind(const Arguments &arguments, int, int64_t rowBegin, int64_t rowEnd,
            DeviceAddress values, DeviceAddress bounds,
            LaunchSpec &spec) const override {
    ElementwiseProblem problem = readElementwiseProblem(arguments.problem);
    ReferenceElementwiseParams params;
    params.operands = makeElementwiseParams(problem, arguments);
    params.rowBegin = rowBegin;
    params.rowEnd = rowEnd;
    params.reference = reinterpret_cast<double *>(values);
    params.bound = reinterpret_cast<double *>(bounds);
    KernelStep &step = spec.addKernel(params);
    step.grid.x =
        static_cast<uint32_t>(config.blocks(rowEnd - rowBegin, problem.cols));
    step.block.x = static_cast<uint32_t>(config.threads());
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
