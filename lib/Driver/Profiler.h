//===- Profiler.h - what profilers of the driver record -------------------===//
#pragma once

#include "Driver/Driver.h"

#include <llvm/Support/Error.h>

namespace kiln {

/// Lets profilers that wait for it record what happens in the current context
/// (`nsys --capture-range=cudaProfilerApi`, `ncu --profile-from-start off`).
/// Takes as long as the profiler does; nothing without one. Errors:
/// InvalidArgument without a current context; those of the driver.
llvm::Error startProfilers(const Driver &driver);
/// Ends that. Kernels that still run may be missed.
llvm::Error stopProfilers(const Driver &driver);

} // namespace kiln
