//===- Handles.h - the driver's handles without its header ----------------===//
//
// cuda.h stays inside Driver's .cpp files. Its handles are pointers and travel
// as such; a device address is an integer (LaunchSpec.h).
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

using CudaContext = void *;  ///< CUcontext; null: none
using CudaModule = void *;   ///< CUmodule
using CudaFunction = void *; ///< CUfunction
using CudaStream = void *;   ///< CUstream; null: the legacy default stream
using CudaEvent = void *;    ///< CUevent
using CudaGraph = void *;    ///< CUgraph

} // namespace kiln
