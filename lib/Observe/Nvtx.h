//===- Nvtx.h - ranges for the tool that is attached to the process -------===//
//
// NVTX is an interface of tools such as Nsight Systems and Nsight Compute. A
// program that has ranges finds the tool's library by the environment variable
// NVTX_INJECTION64_PATH, and hands it a table of pointers to functions, which
// the tool fills. NVIDIA's headers do that. This file does the same with a few
// declarations of its own, so that Kiln needs no header and no library. Facts:
// github.com/NVIDIA/NVTX, c/include/nvtx3/nvtxDetail (version 3 of the
// interface), which a test compares where a toolkit has the headers.
//
// Kiln's ranges are in the domain "kiln". Their categories are the phases.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Observe/Phase.h"

#include <llvm/Support/Error.h>

#include <string>

namespace kiln::observe {

/// A name that the tool keeps; null: none.
using NvtxName = const void *;

/// Loads the tool's library and attaches it; from now on kNvtx is watching.
/// The first call of the process attaches; later ones do nothing. Thread-safe;
/// takes as long as the tool does. Errors: Unsupported if there is no such
/// library, or it refuses.
llvm::Error attachNvtx(const std::string &injectionPath);

// Only while kNvtx is watching, after seeWatched(). Each takes as long as the
// tool does.

/// Opens a range of this thread.
void nvtxPush(Phase phase, const char *name) noexcept;
void nvtxPush(Phase phase, NvtxName name) noexcept;
/// Closes the range that this thread opened last.
void nvtxPop() noexcept;
/// Lets the tool keep a copy of \p name.
NvtxName nvtxRegister(const char *name) noexcept;

} // namespace kiln::observe
