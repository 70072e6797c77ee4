//===- Sources.h - the kernel sources that the library carries ------------===//
#pragma once

#include "Compile/EmbeddedSources.h"

#include <memory>

namespace kiln {

/// Every file of kernel_src, embedded at build time. Made at the first call
/// (hashes all of it: about a millisecond), then shared. Thread-safe.
std::shared_ptr<const SourceSet> kernelSources();

} // namespace kiln
