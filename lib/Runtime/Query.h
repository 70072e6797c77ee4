//===- Query.h - the state of a problem -----------------------------------===//
#pragma once

#include "Runtime/Engine.h"

namespace kiln {

kiln_workspace_info workspaceInfo(const WorkspaceLayout &layout);

/// Answers kiln_query. Starts no work; may read the cache.
llvm::Expected<kiln_query_result>
queryProblem(Engine &engine, const kiln_problem *problem, CudaStream stream);

} // namespace kiln
