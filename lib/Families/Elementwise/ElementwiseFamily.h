//===- ElementwiseFamily.h - the parts that make the family elementwise ---===//
#pragma once

#include "Families/Elementwise/ElementwiseProblem.h"
#include "Kernel/Family.h"
#include "elementwise/ElementwiseParams.h"

namespace kiln {

/// Reads kiln_elementwise_args.
extern const CallReader kElementwiseCall;

/// Operands, extents and scalars of a call: the parameters that no config
/// changes. Nanoseconds; allocates nothing.
ElementwiseParams makeElementwiseParams(const ElementwiseProblem &problem,
                                        const Arguments &arguments);

/// For the family's own constructor: the matrix as a line of vectors.
std::unique_ptr<Template> makeFlatElementwiseTemplate();

/// The family's reference, for problems of one signature. Immutable.
std::unique_ptr<Reference>
makeElementwiseReference(const ElementwiseSignature &signature,
                         const DeviceModel &device);

} // namespace kiln
