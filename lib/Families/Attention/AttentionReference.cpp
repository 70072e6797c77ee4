//===- AttentionReference.cpp - the reference of attention ----------------===//
#include "Families/Attention/AttentionFamily.h"
#include "Families/Attention/LaunchedAttention.h"
#include "Families/KernelUnit.h"
#include "Families/ReferenceStep.h"
#include "attention/ReferenceAttentionConfig.h"

namespace kiln {

namespace {

class AttentionReference final : public Reference {
public:
  AttentionReference(const AttentionSignature &signature,
                     const DeviceModel &device)
      : unit(makeKernelUnit(
            {"attention/ReferenceAttention.cuh", "AttentionSignature",
             "ReferenceAttentionConfig", "ReferenceAttentionParams",
             "referenceAttention"},
            referenceOf(attentionProblemSchema(), signature, config), device)) {
  }

  const TranslationUnit &translationUnit() const override { return unit; }

  void bind(const Arguments &arguments, const ReferencePart &part,
            LaunchSpec &spec) const override {
    ReferenceAttentionParams params;
    AttentionProblem problem = readLaunchedAttention(arguments.problem);
    params.attention =
        makeAttentionParams(problem, arguments, defaultScale(problem.headDim));
    params.isLse = part.operand == AttentionOperand::Lse;
    addReferenceStep(part, params, config.blocks(part.rows()), config.threads(),
                     spec);
  }

private:
  static constexpr ReferenceAttentionConfig config{};
  TranslationUnit unit;
};

} // namespace

std::unique_ptr<Reference> makeAttentionReference(const Problem &problem,
                                                  const DeviceModel &device) {
  return std::make_unique<AttentionReference>(
      readAttentionSignature(problem.signature), device);
}

} // namespace kiln
