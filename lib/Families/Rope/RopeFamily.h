//===- RopeFamily.h - rotary embedding and writes to KV caches ------------===//
#pragma once

#include "Families/Rope/RopeProblem.h"
#include "Kernel/Family.h"

#include <memory>

namespace kiln {

/// Reads kiln_rope_args.
extern const CallReader kRopeCall;

/// For the family's own constructor: heads of tokens, each by a few lanes.
std::unique_ptr<Template> makeHeadRopeTemplate();

/// The operands of \p problem, their data and tolerances.
OperandTable ropeOperands(const RopeProblem &problem);

/// The family's reference: double precision, with an error bound. Immutable.
std::unique_ptr<Reference> makeRopeReference(const RopeSignature &signature,
                                             const DeviceModel &device);

} // namespace kiln
