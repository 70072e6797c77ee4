//===- Query.h - the state of a problem -----------------------------------===//
#pragma once

#include "Runtime/Engine.h"

#include <string>

namespace kiln {

kiln_workspace_info workspaceInfo(const WorkspaceLayout &layout);

/// Answers kiln_query. Starts no work; may read the cache.
llvm::Expected<kiln_query_result>
queryProblem(Engine &engine, const kiln_problem *problem, CudaStream stream);

/// Answers kiln_problem_key, for the engine's named device, else for the
/// stream's.
llvm::Expected<std::string>
problemKey(Engine &engine, const kiln_problem *problem, CudaStream stream);

} // namespace kiln
