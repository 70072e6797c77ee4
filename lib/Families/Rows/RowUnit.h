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

/// Names of a kernel over rows, as its translation unit spells them. The
/// strings are literals.
struct RowEntry {
  llvm::StringRef header;     ///< "rows/ResidentRows.cuh"
  llvm::StringRef configType; ///< "ResidentRowsConfig"
  llvm::StringRef function;   ///< "residentRows"
  llvm::StringRef paramsType = "RowParams";
};
/// The translation unit that instantiates \p entry with a signature and a
/// config, whose text is \p configInitializer. \p threads and \p sharedBytes
/// are what the host computed, which the text asserts; \p minBlocks: blocks
/// that an SM must have registers for. Microseconds.
TranslationUnit makeRowUnit(const RowEntry &entry, llvm::StringRef unitName,
                            const RowSignature &signature,
                            llvm::StringRef configInitializer, int threads,
                            int sharedBytes, int minBlocks,
                            const DeviceModel &device);

/// What candidates for \p problem are compared with. Immutable.
std::unique_ptr<Reference> makeRowReference(RowKind kind,
                                            const RowProblem &problem,
                                            const DeviceModel &device);

} // namespace kiln
