//===- ElementwiseTemplate.h - what the family's kernels share ------------===//
#pragma once

#include "Families/Elementwise/ElementwiseProblem.h"
#include "Kernel/Family.h"
#include "elementwise/ElementwiseParams.h"

namespace kiln {

/// Operands, extents and scalars of a call. Allocates nothing.
ElementwiseParams makeElementwiseParams(const ElementwiseProblem &problem,
                                        const Arguments &arguments);

/// Text of a translation unit that instantiates a kernel of the family.
struct ElementwiseEntry {
  llvm::StringRef header;     ///< "elementwise/FlatElementwise.cuh"
  llvm::StringRef configType; ///< "FlatElementwiseConfig"
  llvm::StringRef function;   ///< "flatElementwise"
  llvm::StringRef paramsType; ///< "FlatElementwiseParams"
  llvm::StringRef unitName;   ///< "flat"
};
TranslationUnit makeElementwiseUnit(const ElementwiseEntry &entry,
                                    const ElementwiseSignature &signature,
                                    llvm::StringRef configInitializer,
                                    int threads, int minBlocks,
                                    const DeviceModel &device);

std::unique_ptr<Template> makeFlatElementwiseTemplate();

/// The family's reference, for one problem.
std::unique_ptr<Reference>
makeElementwiseReference(const ElementwiseSignature &signature,
                         const DeviceModel &device);

} // namespace kiln
