//===- ElementwiseTemplate.h - what the family's kernels share ------------===//
#pragma once

#include "Families/Elementwise/ElementwiseProblem.h"
#include "Kernel/Family.h"
#include "elementwise/ElementwiseParams.h"

namespace kiln {

/// Operands, extents and scalars of a call: what no config changes.
/// Nanoseconds; allocates nothing.
ElementwiseParams makeElementwiseParams(const ElementwiseProblem &problem,
                                        const Arguments &arguments);

/// Names of a kernel of the family, as its translation unit spells them. The
/// strings are literals.
struct ElementwiseEntry {
  llvm::StringRef header;     ///< "elementwise/FlatElementwise.cuh"
  llvm::StringRef configType; ///< "FlatElementwiseConfig"
  llvm::StringRef function;   ///< "flatElementwise"
  llvm::StringRef paramsType; ///< "FlatElementwiseParams"
  llvm::StringRef unitName;   ///< "flat"
};
/// The translation unit that instantiates \p entry with a signature and a
/// config, whose text is \p configInitializer. The text asserts \p threads and
/// \p minBlocks, blocks that an SM must have registers for, as the host
/// computed them. Microseconds.
TranslationUnit makeElementwiseUnit(const ElementwiseEntry &entry,
                                    const ElementwiseSignature &signature,
                                    llvm::StringRef configInitializer,
                                    int threads, int minBlocks,
                                    const DeviceModel &device);

/// For the family's own constructor: the matrix as a line of vectors.
std::unique_ptr<Template> makeFlatElementwiseTemplate();

/// The family's reference, for problems of one signature. Immutable.
std::unique_ptr<Reference>
makeElementwiseReference(const ElementwiseSignature &signature,
                         const DeviceModel &device);

} // namespace kiln
