//===- Sources.h - the kernel sources that the library carries ------------===//
#pragma once

#include "Compile/EmbeddedSources.h"

#include <llvm/Support/Error.h>

#include <memory>

namespace kiln {

/// Every file of kernel_src, embedded at build time, or what overrides it. Made
/// at the first call, then shared. Thread-safe.
std::shared_ptr<const SourceSet> kernelSources();

/// Takes the kernel sources from \p directory from now on, for the whole
/// process: what KILN_KERNEL_SRC does for an author of kernels. Plans made
/// before keep theirs. Errors: those of SourceSet::loadDirectory.
llvm::Error overrideKernelSources(llvm::StringRef directory);

} // namespace kiln
