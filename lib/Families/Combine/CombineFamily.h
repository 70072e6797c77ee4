//===- CombineFamily.h - the sum of each token's choices ------------------===//
#pragma once

#include "Families/Combine/CombineProblem.h"
#include "Kernel/Family.h"
#include "combine/CombineParams.h"

#include <memory>

namespace kiln {

/// Reads kiln_combine_args.
extern const CallReader kCombineCall;

/// For the family's own constructor.
std::unique_ptr<Template> makeRowCombineTemplate();

/// The family's reference, in double. Immutable.
std::unique_ptr<Reference> makeCombineReference(const Problem &problem,
                                                const DeviceModel &device);

/// The parameters of a launch, as far as no config decides them. Nanoseconds;
/// allocates nothing.
CombineParams makeCombineParams(const CombineProblem &problem,
                                const Arguments &arguments);

} // namespace kiln
