//===- CudaApi.h - the driver's functions as a table ----------------------===//
//
// Private to Driver's sources: the one header that includes cuda.h.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/LaunchSpec.h"

#include <cuda.h>

// As in <cudaProfiler.h>, which not every package of cuda.h has.
extern "C" CUresult CUDAAPI cuProfilerStart(void);
extern "C" CUresult CUDAAPI cuProfilerStop(void);

namespace kiln {

/// One member per symbol, called after it as cuda.h renames it. In a source
/// that includes this header `api.cuMemAlloc(...)` therefore just works.
struct CudaApi {
#define KILN_CUDA_SYMBOL(name) decltype(&::name) name = nullptr;
#include "Driver/CudaSymbols.def"
};

/// Driver of CUDA 12.8 (r570), the oldest with every symbol above.
inline constexpr int kOldestDriver = 12080;

static_assert(sizeof(CUdeviceptr) == sizeof(DeviceAddress));
// The type asks for 128 bytes of alignment since CUDA 13.0, the functions that
// take its address for 64, which EncodedTensorMap has.
static_assert(sizeof(CUtensorMap) == sizeof(EncodedTensorMap));

} // namespace kiln
