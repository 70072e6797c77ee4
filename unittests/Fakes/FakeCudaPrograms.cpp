//===- FakeCudaPrograms.cpp - what programs call and Kiln does not --------===//
//
// The examples are programs of their own: they have pinned memory and copy rows
// of matrices. Device memory is host memory here.
//
//===----------------------------------------------------------------------===//
#include "Fakes/FakeCudaState.h"

#include <cstdlib>
#include <cstring>
#include <thread>

using namespace kiln::fake;

namespace {

const char *sourceOf(const CUDA_MEMCPY2D &copy) {
  return copy.srcMemoryType == CU_MEMORYTYPE_HOST
             ? static_cast<const char *>(copy.srcHost)
             : reinterpret_cast<const char *>(copy.srcDevice);
}
char *targetOf(const CUDA_MEMCPY2D &copy) {
  return copy.dstMemoryType == CU_MEMORYTYPE_HOST
             ? static_cast<char *>(copy.dstHost)
             : reinterpret_cast<char *>(copy.dstDevice);
}

/// Success where the device has the rows on each side that names it.
CUresult checkMemory2d(const CUDA_MEMCPY2D &copy) {
  if (copy.Height == 0 || copy.WidthInBytes == 0)
    return CUDA_SUCCESS;
  if (copy.WidthInBytes > copy.srcPitch || copy.WidthInBytes > copy.dstPitch)
    return CUDA_ERROR_INVALID_VALUE;
  auto check = [&](CUmemorytype type, uint64_t address, size_t pitch) {
    const uint64_t bytes = (copy.Height - 1) * pitch + copy.WidthInBytes;
    return type == CU_MEMORYTYPE_HOST ? CUDA_SUCCESS
                                      : checkMemory(address, bytes);
  };
  const CUresult source =
      check(copy.srcMemoryType, copy.srcDevice, copy.srcPitch);
  return source != CUDA_SUCCESS
             ? source
             : check(copy.dstMemoryType, copy.dstDevice, copy.dstPitch);
}

CUresult copyRows(const CUDA_MEMCPY2D *copy) {
  if (!copy)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = checkMemory2d(*copy); result != CUDA_SUCCESS)
    return result;
  if (isHollow(targetOf(*copy), copy->Height * copy->WidthInBytes))
    return CUDA_SUCCESS;
  for (size_t row = 0; row < copy->Height; ++row)
    std::memcpy(targetOf(*copy) + row * copy->dstPitch,
                sourceOf(*copy) + row * copy->srcPitch, copy->WidthInBytes);
  return CUDA_SUCCESS;
}

/// As for the functions of CudaSymbols.def, whose calls are counted.
CUresult requireContext() {
  if (!state.initialised)
    return CUDA_ERROR_NOT_INITIALIZED;
  return current ? stickyOf(current) : CUDA_ERROR_INVALID_CONTEXT;
}

} // namespace

#define REQUIRE_CONTEXT()                                                      \
  if (CUresult entered = requireContext(); entered != CUDA_SUCCESS)            \
  return entered

#pragma GCC visibility push(default)
extern "C" {

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
  REQUIRE_CONTEXT();
  constexpr size_t kAlignment = 4096;
  return posix_memalign(memory, kAlignment, bytes) == 0
             ? CUDA_SUCCESS
             : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFreeHost(void *memory) {
  REQUIRE_CONTEXT();
  std::free(memory);
  return CUDA_SUCCESS;
}

/// Waits for the stream first: its own work may write the source. Into a
/// capture, rows are copies of their own.
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (copy && cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
      status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    CUresult result = checkMemory2d(*copy);
    for (size_t row = 0; row < copy->Height && result == CUDA_SUCCESS; ++row)
      result = cuMemcpyDtoDAsync(copy->dstDevice + row * copy->dstPitch,
                                 copy->srcDevice + row * copy->srcPitch,
                                 copy->WidthInBytes, stream);
    return result;
  }
  if (CUresult result = cuStreamSynchronize(stream); result != CUDA_SUCCESS)
    return result;
  return copyRows(copy);
}

CUresult cuEventSynchronize(CUevent event) {
  CUresult result;
  while ((result = cuEventQuery(event)) == CUDA_ERROR_NOT_READY)
    std::this_thread::yield();
  return result;
}

/// Kernels of programs are PTX, which does nothing here.
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned,
                        unsigned, unsigned, unsigned, CUstream, void **,
                        void **) {
  REQUIRE_CONTEXT();
  return CUDA_SUCCESS;
}

} // extern "C"
#pragma GCC visibility pop
