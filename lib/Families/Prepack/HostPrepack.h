//===- HostPrepack.h - weights packed by the host -------------------------===//
#pragma once

#include "Families/Prepack/PrepackProblem.h"

namespace kiln {

/// Does what the family's kernels do, bit for bit, for operands in host memory,
/// whose addresses \p params has. One thread; about 2 ns an element. \p problem
/// must be canonical and not empty.
void packOnHost(const PrepackProblem &problem, const PrepackParams &params);

} // namespace kiln
