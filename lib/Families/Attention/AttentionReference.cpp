//===- AttentionReference.cpp - the reference of attention ----------------===//
#include "Families/Attention/AttentionFamily.h"
#include "Families/Attention/LaunchedAttention.h"
#include "Families/KernelReference.h"
#include "attention/ReferenceAttentionConfig.h"

namespace kiln {

std::unique_ptr<Reference> makeAttentionReference(const Problem &problem,
                                                  const DeviceModel &device) {
  constexpr ReferenceAttentionConfig kConfig{};
  return makeReference<ReferenceAttentionParams>(
      makeKernelUnit({"attention/ReferenceAttention.cuh", "AttentionSignature",
                      "ReferenceAttentionConfig", "ReferenceAttentionParams",
                      "referenceAttention"},
                     referenceOf(attentionProblemSchema(),
                                 readAttentionSignature(problem.signature),
                                 kConfig),
                     device),
      kConfig.threads(),
      [=](const Arguments &arguments, const ReferencePart &part,
          ReferenceAttentionParams &params) {
        AttentionProblem p = readLaunchedAttention(arguments.problem);
        params.attention =
            makeAttentionParams(p, arguments, defaultScale(p.headDim));
        params.isLse = part.operand == AttentionOperand::Lse;
        return kConfig.blocks(part.rows());
      });
}

} // namespace kiln
