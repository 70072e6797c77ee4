//===- HostPrepack.h - weights packed by the host -------------------------===//
#pragma once

#include "Families/Prepack/PrepackProblem.h"

namespace kiln {

/// Produces the results of the family's kernels, bit for bit, for operands in
/// host memory, at the addresses in \p params. One thread; about 2 ns an
/// element. \p problem must be canonical and not empty.
void packOnHost(const PrepackProblem &problem, const PrepackParams &params);

} // namespace kiln
