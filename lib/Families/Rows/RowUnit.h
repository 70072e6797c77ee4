//===- RowUnit.h - texts and parameters of kernels over rows --------------===//
//
// The parts that the templates of these families and their reference share: a
// problem and its arguments become parameters, and a signature and a config
// become a translation unit.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Compile/TranslationUnit.h"
#include "Device/DeviceModel.h"
#include "Families/Rows/RowProblem.h"
#include "Kernel/Family.h"
#include "rows/RowParams.h"

#include <memory>

namespace kiln {

/// Fills in the parameters that no config changes: operands, extents, scalars,
/// and whether all rows count as one. Nanoseconds; allocates nothing.
RowParams makeRowParams(const RowProblem &problem, const Arguments &arguments);

/// The reference with which candidates for \p problem are compared. Immutable.
std::unique_ptr<Reference> makeRowReference(RowKind kind,
                                            const RowProblem &problem,
                                            const DeviceModel &device);

} // namespace kiln
