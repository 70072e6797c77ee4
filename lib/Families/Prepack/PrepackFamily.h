//===- PrepackFamily.h - weights of checkpoints, packed -------------------===//
#pragma once

#include "Families/Prepack/PrepackProblem.h"
#include "Kernel/Family.h"

#include <memory>

namespace kiln {

/// Reads kiln_prepack_args.
extern const CallReader kPrepackCall;

/// For the family's own constructor.
std::unique_ptr<Template> makeBlockPrepackTemplate();

/// Produces the results of the family's kernels, bit for bit, for operands in
/// host memory, at the addresses in \p params. One thread; about 2 ns an
/// element. \p problem must be canonical and not empty.
void packOnHost(const PrepackProblem &problem, const PrepackParams &params);

} // namespace kiln
