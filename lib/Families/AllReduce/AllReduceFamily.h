//===- AllReduceFamily.h - the parts that make the family allreduce -------===//
#pragma once

#include "Families/AllReduce/AllReduceProblem.h"
#include "Kernel/Family.h"
#include "allreduce/AllReduceParams.h"

namespace kiln {

/// Reads kiln_allreduce_args.
extern const CallReader kAllReduceCall;

/// Operands, extents and scalars of a call: the parameters that no config
/// changes. Nanoseconds; allocates nothing.
AllReduceParams makeAllReduceParams(const AllReduceProblem &problem,
                                    const Arguments &arguments);

/// For the family's own constructor: inputs are pushed to peers.
std::unique_ptr<Template> makePushRowsTemplate();

/// The family's reference. Immutable.
std::unique_ptr<Reference>
makeAllReduceReference(const AllReduceProblem &problem,
                       const DeviceModel &device);

} // namespace kiln
