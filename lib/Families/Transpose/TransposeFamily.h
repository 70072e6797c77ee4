//===- TransposeFamily.h - transposition of a matrix ----------------------===//
#pragma once

#include "Kernel/Family.h"

#include <memory>

namespace kiln {

/// y[c, r] = x[r, c] for elements of 1, 2 and 4 bytes; template tiled.
std::unique_ptr<KernelFamily> makeTransposeFamily();

/// For the family's own constructor: tiles through shared memory.
std::unique_ptr<Template> makeTiledTransposeTemplate();

/// The family's reference, for one type; exact. Immutable.
std::unique_ptr<Reference> makeTransposeReference(DType type,
                                                  const DeviceModel &device);

} // namespace kiln
