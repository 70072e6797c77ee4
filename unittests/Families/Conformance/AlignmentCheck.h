//===- AlignmentCheck.h - what signatures and trials know of alignment ----===//
#pragma once

#include "Kernel/Family.h"

#include <set>
#include <string>

namespace kiln::conformance {

/// What is wrong with problems like \p problem, with extents of 64: a leading
/// dimension or a stride that is odd is told apart from packed rows, by the
/// signature or by what is pruned, or a kernel whose vectors need aligned rows
/// is given it.
/// \p tested receives the keys of those that such a problem reads.
std::string faultOfLeadingDimensions(const KernelFamily &family,
                                     const Problem &problem,
                                     std::set<std::string> &tested);

/// What is wrong with the operands of problems like \p problem that promise as
/// little alignment as they may: trials try at least one with no more.
std::string faultOfMisalignment(const KernelFamily &family,
                                const Problem &problem);

} // namespace kiln::conformance
