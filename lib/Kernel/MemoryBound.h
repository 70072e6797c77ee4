//===- MemoryBound.h - problems whose rate in bytes tells all -------------===//
#pragma once

#include "Kernel/Family.h"

namespace kiln {

/// Whether memory sets the pace of \p problem on any GPU: there is so little
/// arithmetic for each byte that its rate tells nothing.
bool isMemoryBound(const KernelFamily &family, const Problem &problem);

} // namespace kiln
