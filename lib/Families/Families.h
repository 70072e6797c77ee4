//===- Families.h - the built-in kernel families --------------------------===//
#pragma once

#include "Kernel/Registry.h"

namespace kiln {

#define KILN_FAMILY(make) std::unique_ptr<KernelFamily> make();
#include "Families/Families.def"

/// A registry with every built-in family. Microseconds.
Registry makeBuiltinRegistry();

} // namespace kiln
