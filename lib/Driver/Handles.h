//===- Handles.h - the driver's handles without its header ----------------===//
//
// cuda.h stays inside Driver's .cpp files. Its handles are pointers to structs
// without a definition. They have the same types here as there, so that no
// handle is passed for another. A device address is an integer (LaunchSpec.h).
//
//===----------------------------------------------------------------------===//
#pragma once

struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUgraphNode_st;

namespace kiln {

using CudaContext = CUctx_st *;   ///< CUcontext; null: none
using CudaModule = CUmod_st *;    ///< CUmodule
using CudaFunction = CUfunc_st *; ///< CUfunction
/// CUstream, cudaStream_t and kiln_stream; null: the legacy default stream
using CudaStream = CUstream_st *;
using CudaEvent = CUevent_st *;         ///< CUevent
using CudaGraph = CUgraph_st *;         ///< CUgraph
using CudaGraphExec = CUgraphExec_st *; ///< CUgraphExec
using CudaGraphNode = CUgraphNode_st *; ///< CUgraphNode

} // namespace kiln
