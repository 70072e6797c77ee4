//===- ProblemKeys.h - the keys of what is stored of a problem ------------===//
#pragma once

#include "Runtime/Inspection.h"

#include <string>

namespace kiln {

/// The answer of kiln_problem_key, for the engine's named device or else for
/// the stream's. Errors: InvalidArgument for ranges, which may have several
/// records.
llvm::Expected<std::string>
problemKey(Engine &engine, const kiln_problem *problem, CudaStream stream);

/// The answer of kiln_problem_keys, for the same device.
llvm::Expected<std::string> problemKeys(Engine &engine,
                                        const kiln_problem *problem,
                                        CudaStream stream, bool asJson);

} // namespace kiln
