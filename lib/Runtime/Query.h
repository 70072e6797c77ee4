//===- Query.h - how far a problem is -------------------------------------===//
#pragma once

#include "Runtime/Engine.h"

#include <string>

namespace kiln {

kiln_workspace_info workspaceInfo(const WorkspaceLayout &layout);

/// What kiln_query answers. Starts no work; may read the cache.
llvm::Expected<kiln_query_result>
queryProblem(Engine &engine, const kiln_problem *problem, CudaStream stream);

/// What kiln_problem_key answers: of the engine's named device, else of the
/// stream's.
llvm::Expected<std::string>
problemKey(Engine &engine, const kiln_problem *problem, CudaStream stream);

} // namespace kiln
