//===- RopeReference.cpp --------------------------------------------------===//
#include "Families/KernelReference.h"
#include "Families/Rope/RopeFamily.h"
#include "rope/HeadRopeConfig.h"

namespace kiln {

static RopeResult resultOf(int operand) {
  switch (operand) {
  case RopeOperand::KOut:
    return RopeResult::K;
  case RopeOperand::KCache:
    return RopeResult::KCache;
  case RopeOperand::VCache:
    return RopeResult::VCache;
  default:
    return RopeResult::Q;
  }
}

std::unique_ptr<Reference> makeRopeReference(const RopeSignature &signature,
                                             const DeviceModel &device) {
  constexpr ReferenceRopeConfig kConfig{};
  return makeReference<ReferenceRopeParams>(
      makeKernelUnit(
          {"rope/ReferenceRope.cuh", "RopeSignature", "ReferenceRopeConfig",
           "ReferenceRopeParams", "referenceRope"},
          referenceOf(ropeProblemSchema(), signature, kConfig), device),
      kConfig.threads(),
      [=](const Arguments &arguments, const ReferencePart &part,
          ReferenceRopeParams &params) {
        params.rope =
            makeRopeParams(readRopeProblem(arguments.problem), arguments);
        params.result = resultOf(part.operand);
        return kConfig.blocks(part.rows());
      });
}

} // namespace kiln
