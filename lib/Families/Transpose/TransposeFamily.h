//===- TransposeFamily.h - transposition of a matrix ----------------------===//
#pragma once

#include "Kernel/Family.h"

#include <memory>

namespace kiln {

/// Reads kiln_transpose_args.
extern const CallReader kTransposeCall;

/// For the family's own constructor: tiles through shared memory for rows that
/// are whole aligned vectors, for rows that begin anywhere, and for few rows.
std::unique_ptr<Template> makeTiledTransposeTemplate();
std::unique_ptr<Template> makeShiftedTransposeTemplate();
std::unique_ptr<Template> makeLineTransposeTemplate();

/// The family's reference, for one type; exact. Immutable.
std::unique_ptr<Reference> makeTransposeReference(DType type,
                                                  const DeviceModel &device);

} // namespace kiln
