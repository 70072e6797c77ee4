//===- BenchDraw.h - kiln bench --draw ------------------------------------===//
#pragma once

#include "kiln/Draw.h"

namespace kiln::cli {

/// Measures the problems of \p draw in the states that --state names. Answers
/// the exit code.
llvm::Expected<int> runDrawBench(const ParsedOptions &options,
                                 Environment environment,
                                 const Registry &registry,
                                 const DrawRequest &draw);

} // namespace kiln::cli
