//===- Sources.h - the kernel sources that the library carries ------------===//
#pragma once

#include "Compile/EmbeddedSources.h"

#include <llvm/Support/Error.h>

#include <memory>

namespace kiln {

/// Every file of kernel_src, embedded at build time, or the files that override
/// them. Made at the first call, then shared. Thread-safe.
std::shared_ptr<const SourceSet> kernelSources();

/// Takes the kernel sources from \p directory from now on, for the whole
/// process: like KILN_KERNEL_SRC for an author of kernels. Earlier plans keep
/// theirs. Errors: those of SourceSet::loadDirectory.
llvm::Error overrideKernelSources(llvm::StringRef directory);

} // namespace kiln
