//===- AlignmentCheck.h - alignment in signatures and trials --------------===//
#pragma once

#include "Kernel/Family.h"

#include <set>
#include <string>

namespace kiln::conformance {

/// The fault of problems like \p problem, with extents of 64; empty for none.
/// The signature or the pruner has to tell an odd leading dimension or stride
/// apart from packed rows, so that no kernel is given rows that its vectors
/// cannot read. \p tested receives the keys of the fields that such a problem
/// reads.
std::string faultOfLeadingDimensions(const KernelFamily &family,
                                     const Problem &problem,
                                     std::set<std::string> &tested);

/// The fault of the operands of problems like \p problem that promise the least
/// alignment: at least one of them is tried with no more.
std::string faultOfMisalignment(const KernelFamily &family,
                                const Problem &problem);

} // namespace kiln::conformance
