//===- RowFamily.h - the parts that make the families over rows -----------===//
#pragma once

#include "Families/Rows/RowProblem.h"
#include "Kernel/Family.h"

#include <memory>

namespace kiln {

/// Reads kiln_norm_args and its like.
const CallReader &rowCall(RowKind kind);

/// Rows that stay on the chip until they are written: in registers, in shared
/// memory as well, or spread over a cluster.
std::unique_ptr<Template> makeResidentRowsTemplate(RowKind kind);
/// Few rows of any length that blocks all over the GPU read once for each pass.
/// Not for reductions.
std::unique_ptr<Template> makeSpreadRowsTemplate(RowKind kind);
/// Rows that are read once for each pass: any length; the generic template.
std::unique_ptr<Template> makeReloadRowsTemplate(RowKind kind);
/// Rows of which several blocks reduce a range each. Only for reductions.
std::unique_ptr<Template> makeSplitRowsTemplate(RowKind kind);

/// The operands of \p problem in the order of RowOperand: their shapes, the
/// data with which trials fill them, and the tolerances of outputs. \p problem
/// comes from canonical values. Microseconds; thread-safe.
OperandTable rowOperands(const RowProblem &problem);

/// The reference with which candidates for \p problem are compared. Immutable.
std::unique_ptr<Reference> makeRowReference(RowKind kind,
                                            const RowProblem &problem,
                                            const DeviceModel &device);

} // namespace kiln
