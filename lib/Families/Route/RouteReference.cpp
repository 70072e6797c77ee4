//===- RouteReference.cpp - the reference of route ------------------------===//
#include "Families/KernelReference.h"
#include "Families/Route/RouteFamily.h"
#include "route/ReferenceRouteConfig.h"

namespace kiln {

std::unique_ptr<Reference> makeRouteReference(const Problem &problem,
                                              const DeviceModel &device) {
  constexpr ReferenceRouteConfig kConfig{};
  return makeReference<ReferenceRouteParams>(
      makeKernelUnit(
          {"route/ReferenceRoute.cuh", "RouteSignature", "ReferenceRouteConfig",
           "ReferenceRouteParams", "referenceRoute"},
          referenceOf(routeProblemSchema(),
                      readRouteSignature(problem.signature), kConfig),
          device),
      kConfig.threads(),
      [=](const Arguments &arguments, const ReferencePart &part,
          ReferenceRouteParams &params) {
        params.route =
            makeRouteParams(readRouteProblem(arguments.problem), arguments);
        params.output = part.operand;
        return kConfig.blocks(part.rows());
      });
}

} // namespace kiln
