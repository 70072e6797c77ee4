//===- SampleReference.cpp - the reference of sample ----------------------===//
#include "Families/KernelReference.h"
#include "Families/Sample/SampleFamily.h"
#include "sample/ReferenceSampleConfig.h"

namespace kiln {

std::unique_ptr<Reference> makeSampleReference(const Problem &problem,
                                               const DeviceModel &device) {
  constexpr ReferenceSampleConfig kConfig{};
  return makeReference<ReferenceSampleParams>(
      makeKernelUnit(
          {"sample/ReferenceSample.cuh", "SampleSignature",
           "ReferenceSampleConfig", "ReferenceSampleParams", "referenceSample"},
          referenceOf(sampleProblemSchema(),
                      readSampleSignature(problem.signature), kConfig),
          device),
      kConfig.threads(),
      [=](const Arguments &arguments, const ReferencePart &part,
          ReferenceSampleParams &params) {
        params.sample =
            makeSampleParams(readSampleProblem(arguments.problem), arguments);
        params.output = part.operand;
        return kConfig.blocks(part.rows());
      });
}

} // namespace kiln
