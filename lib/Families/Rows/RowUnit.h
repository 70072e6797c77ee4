//===- RowUnit.h - texts and parameters of kernels over rows --------------===//
//
// What the templates of these families and their reference share: how a problem
// and its arguments become parameters, how a signature and a config become a
// translation unit.
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

/// Fills what no config changes: operands, extents, scalars, whether all rows
/// are one. Nanoseconds; allocates nothing.
RowParams makeRowParams(const RowProblem &problem, const Arguments &arguments);

/// What candidates for \p problem are compared with. Immutable.
std::unique_ptr<Reference> makeRowReference(RowKind kind,
                                            const RowProblem &problem,
                                            const DeviceModel &device);

} // namespace kiln
