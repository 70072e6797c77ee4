//===- GatherFamily.h - the parts that make the family gather -------------===//
#pragma once

#include "Families/Gather/GatherProblem.h"
#include "Kernel/Family.h"
#include "gather/GatherParams.h"

namespace kiln {

/// Reads kiln_gather_args.
extern const CallReader kGatherCall;

/// Operands, extents and scalars of a call: the parameters that no config
/// changes. Nanoseconds; allocates nothing.
GatherParams makeGatherParams(const GatherProblem &problem,
                              const Arguments &arguments);

/// For the family's own constructor: lanes that share rows.
std::unique_ptr<Template> makeLaneGatherTemplate();

/// The family's reference. Immutable.
std::unique_ptr<Reference> makeGatherReference(const GatherProblem &problem,
                                               const DeviceModel &device);

} // namespace kiln
