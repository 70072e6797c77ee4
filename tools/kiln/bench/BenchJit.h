//===- BenchJit.h - how long compiling and loading take -------------------===//
#pragma once

#include "kiln/CommonOptions.h"

namespace kiln::cli {

/// Compiles the kernels that serve \p cases (what their records say, else the
/// first choices) one at a time without any cache, the minimum of some repeats
/// each, then all at once; on a live device also measures the way from a cached
/// file to the return of the first launch, and the first calls of some cases as
/// new problems. Prints and answers the exit code. Errors: CompilerMissing,
/// those of chooseDevice and of planning.
llvm::Expected<int> runJitBench(const ParsedOptions &options,
                                const Environment &environment,
                                const Registry &registry,
                                llvm::ArrayRef<Case> cases);

} // namespace kiln::cli
