//===- SampleFamily.h - the next token of each sequence -------------------===//
#pragma once

#include "Families/Sample/SampleProblem.h"
#include "Kernel/Family.h"

#include <memory>

namespace kiln {

/// Reads kiln_sample_args.
extern const CallReader kSampleCall;

/// For the family's own constructor: a row in many blocks, of which the last
/// one ends it; in a cluster; in a block.
std::unique_ptr<Template> makeSpreadSampleTemplate();
std::unique_ptr<Template> makeClusterSampleTemplate();
std::unique_ptr<Template> makeBlockSampleTemplate();

/// The operand table of a problem.
OperandTable sampleOperands(const SampleProblem &problem);

/// The family's reference, in double. Immutable.
std::unique_ptr<Reference> makeSampleReference(const Problem &problem,
                                               const DeviceModel &device);

/// The parameters of a launch, as far as no config decides them. Nanoseconds;
/// allocates nothing.
SampleParams makeSampleParams(const SampleProblem &problem,
                              const Arguments &arguments);

} // namespace kiln
