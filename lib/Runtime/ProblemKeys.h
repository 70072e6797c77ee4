//===- ProblemKeys.h - the keys of what is stored of a problem ------------===//
#pragma once

#include "Runtime/Inspection.h"

#include <string>

namespace kiln {

/// What kiln_problem_key answers: of the engine's named device, else of the
/// stream's.
llvm::Expected<std::string>
problemKey(Engine &engine, const kiln_problem *problem, CudaStream stream);

/// What kiln_problem_keys answers of the same devices.
llvm::Expected<std::string> problemKeys(Engine &engine,
                                        const kiln_problem *problem,
                                        CudaStream stream, bool asJson);

} // namespace kiln
