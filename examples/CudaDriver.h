//===- CudaDriver.h - the part of the CUDA driver that the examples use ---===//
//
// Opened at run time, so that the examples build without a toolkit and say
// clearly when there is no GPU. A program of yours would include cuda.h.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_CUDADRIVER_H
#define KILN_EXAMPLES_CUDADRIVER_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Exit code of an example on a machine without a GPU or its driver.
enum { kExitNoGpu = 3 };

typedef struct CUstream_st *CudaStream;
typedef struct CUctx_st *CudaContext;
typedef struct CUgraph_st *CudaGraph;
typedef struct CUgraphExec_st *CudaGraphExec;
typedef unsigned long long CudaAddress;

/// One member per driver function; each returns 0 on success.
typedef struct CudaDriver {
  int (*init)(unsigned flags);
  int (*deviceGet)(int *device, int ordinal);
  int (*deviceGetName)(char *name, int length, int device);
  int (*primaryCtxRetain)(CudaContext *context, int device);
  int (*primaryCtxRelease)(int device);
  int (*ctxPushCurrent)(CudaContext context);
  int (*memAlloc)(CudaAddress *address, size_t bytes);
  int (*memFree)(CudaAddress address);
  int (*memcpyHtoD)(CudaAddress target, const void *source, size_t bytes);
  int (*memcpyDtoH)(void *target, CudaAddress source, size_t bytes);
  int (*memsetD8Async)(CudaAddress address, unsigned char value, size_t bytes,
                       CudaStream stream);
  int (*streamCreate)(CudaStream *stream, unsigned flags);
  int (*streamDestroy)(CudaStream stream);
  int (*streamSynchronize)(CudaStream stream);
  int (*streamBeginCapture)(CudaStream stream, int mode);
  int (*streamEndCapture)(CudaStream stream, CudaGraph *graph);
  int (*graphInstantiate)(CudaGraphExec *executable, CudaGraph graph,
                          unsigned long long flags);
  int (*graphLaunch)(CudaGraphExec executable, CudaStream stream);
  int (*graphExecDestroy)(CudaGraphExec executable);
  int (*graphDestroy)(CudaGraph graph);
} CudaDriver;

/// CU_STREAM_NON_BLOCKING and CU_STREAM_CAPTURE_MODE_GLOBAL.
enum { kStreamNonBlocking = 1, kCaptureGlobal = 0 };

/// Opens the driver, which KILN_DRIVER may name as it may for Kiln, and its
/// first device, whose primary context becomes current. Returns null on
/// success, else the reason why there is no GPU.
static const char *cudaDriverOpen(CudaDriver *cuda, int *device) {
  static const char *const kSymbols[] = {"cuInit",
                                         "cuDeviceGet",
                                         "cuDeviceGetName",
                                         "cuDevicePrimaryCtxRetain",
                                         "cuDevicePrimaryCtxRelease_v2",
                                         "cuCtxPushCurrent_v2",
                                         "cuMemAlloc_v2",
                                         "cuMemFree_v2",
                                         "cuMemcpyHtoD_v2",
                                         "cuMemcpyDtoH_v2",
                                         "cuMemsetD8Async",
                                         "cuStreamCreate",
                                         "cuStreamDestroy_v2",
                                         "cuStreamSynchronize",
                                         "cuStreamBeginCapture_v2",
                                         "cuStreamEndCapture",
                                         "cuGraphInstantiateWithFlags",
                                         "cuGraphLaunch",
                                         "cuGraphExecDestroy",
                                         "cuGraphDestroy"};
  enum { kCount = sizeof(kSymbols) / sizeof(*kSymbols) };
  const char *name = getenv("KILN_DRIVER");
  void *library = dlopen(name ? name : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return "no NVIDIA driver (libcuda.so.1 cannot be opened)";
  void *addresses[kCount];
  for (int i = 0; i < (int)kCount; ++i)
    if (!(addresses[i] = dlsym(library, kSymbols[i])))
      return "the NVIDIA driver is too old";
  // POSIX gives object and function pointers one representation.
  memcpy(cuda, addresses, sizeof(*cuda));

  CudaContext context = NULL;
  if (cuda->init(0) || cuda->deviceGet(device, 0))
    return "no GPU";
  if (cuda->primaryCtxRetain(&context, *device) ||
      cuda->ctxPushCurrent(context))
    return "the GPU gives no context";
  return NULL;
}

#ifdef __cplusplus
} // extern "C"
static_assert(sizeof(CudaDriver) == 20 * sizeof(void *),
              "one symbol for each member");
#else
_Static_assert(sizeof(CudaDriver) == 20 * sizeof(void *),
               "one symbol for each member");
#endif

#endif // KILN_EXAMPLES_CUDADRIVER_H
