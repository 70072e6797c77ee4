//===- Families.h - the built-in kernel families --------------------------===//
#pragma once

#include "Kernel/Registry.h"

namespace kiln {

/// A registry with every built-in family. Microseconds.
Registry makeBuiltinRegistry();

} // namespace kiln
