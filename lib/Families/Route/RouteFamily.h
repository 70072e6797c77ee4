//===- RouteFamily.h - the experts of each token --------------------------===//
#pragma once

#include "Families/Route/RouteProblem.h"
#include "Kernel/Family.h"

#include <memory>

namespace kiln {

/// Reads kiln_route_args.
extern const CallReader kRouteCall;

/// For the family's own constructor: one block or cluster for all tokens; any
/// number of blocks, and a second kernel.
std::unique_ptr<Template> makeClusterRouteTemplate();
std::unique_ptr<Template> makeSpreadRouteTemplate();

/// The operand table of a problem.
OperandTable routeOperands(const RouteProblem &problem);

/// The family's reference: choices in fp32, weights in double. Immutable.
std::unique_ptr<Reference> makeRouteReference(const Problem &problem,
                                              const DeviceModel &device);

/// The parameters of a launch, as far as no config decides them. Nanoseconds;
/// allocates nothing.
RouteParams makeRouteParams(const RouteProblem &problem,
                            const Arguments &arguments);

} // namespace kiln
