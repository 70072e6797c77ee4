//===- Query.h - how far a problem is -------------------------------------===//
#pragma once

#include "Runtime/Engine.h"

namespace kiln {

kiln_workspace_info workspaceInfo(const WorkspaceLayout &layout);

/// What kiln_query answers. Starts no work; may read the cache.
llvm::Expected<kiln_query_result>
queryProblem(Engine &engine, const kiln_problem *problem, CudaStream stream);

} // namespace kiln
