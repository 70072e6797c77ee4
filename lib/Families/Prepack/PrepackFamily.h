//===- PrepackFamily.h - weights of checkpoints, packed -------------------===//
#pragma once

#include "Families/Prepack/PrepackProblem.h"
#include "Kernel/Family.h"

#include <memory>

namespace kiln {

/// Reorders a weight of a checkpoint, with scales and zero points, into the
/// order of common/PackedWeights.h; template blocks.
std::unique_ptr<KernelFamily> makePrepackFamily();

/// For the family's own constructor.
std::unique_ptr<Template> makeBlockPrepackTemplate();

} // namespace kiln
