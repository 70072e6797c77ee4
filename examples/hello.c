//===- hello.c - the smallest use of Kiln, in C ---------------------------===//
//
// Computes D = A B with fp32 matrices of ones on the default stream and checks
// that every element of D is k. Exit codes: 0 done, 1 failed, 3 no GPU.
//
//===----------------------------------------------------------------------===//
#include "CudaDriver.h"

#include <kiln/kiln.h>

#include <stdio.h>

enum { kM = 48, kN = 32, kK = 64, kLargest = kM * kK };

static CudaDriver cuda;

/// Runs one GEMM on matrices that are all ones.
static kiln_status multiplyOnes(kiln_engine *engine, CudaAddress a,
                                CudaAddress b, CudaAddress d) {
  kiln_gemm_args args = kiln_gemm_args_init();
  args.m = kM;
  args.n = kN;
  args.k = kK;
  args.a.type = KILN_FP32; // B, C and D take A's type unless told otherwise
  args.a.data = (void *)(uintptr_t)a;
  args.b.data = (void *)(uintptr_t)b;
  args.d.data = (void *)(uintptr_t)d;
  return kiln_gemm(engine, &args, NULL, NULL);
}

int main(void) {
  int device = 0;
  const char *reason = cudaDriverOpen(&cuda, &device);
  if (reason) {
    fprintf(stderr, "hello: %s\n", reason);
    return kExitNoGpu;
  }

  static float host[kLargest];
  for (int i = 0; i < kLargest; ++i)
    host[i] = 1.0f;
  CudaAddress a = 0, b = 0, d = 0;
  if (cuda.memAlloc(&a, sizeof(host)) || cuda.memAlloc(&b, sizeof(host)) ||
      cuda.memAlloc(&d, sizeof(host)) ||
      cuda.memcpyHtoD(a, host, sizeof(host)) ||
      cuda.memcpyHtoD(b, host, sizeof(host))) {
    fprintf(stderr, "hello: no device memory\n");
    return 1;
  }

  kiln_engine *engine = NULL;
  kiln_status status = kiln_engine_create(NULL, &engine);
  if (status == KILN_SUCCESS)
    status = multiplyOnes(engine, a, b, d);
  if (status != KILN_SUCCESS) {
    fprintf(stderr, "hello: %s: %s\n", kiln_status_name(status),
            kiln_last_error_message());
    kiln_engine_destroy(engine);
    return 1;
  }

  // The copy is ordered after the GEMM: both use the default stream.
  int wrong = cuda.memcpyDtoH(host, d, sizeof(float) * kM * kN) != 0;
  for (int i = 0; i < kM * kN; ++i)
    wrong += host[i] != (float)kK;
  printf("Kiln %s: %d x %d x %d, %s\n", kiln_version_string(), kM, kN, kK,
         wrong ? "WRONG" : "correct");
  kiln_engine_destroy(engine);
  cuda.memFree(a);
  cuda.memFree(b);
  cuda.memFree(d);
  cuda.primaryCtxRelease(device);
  return wrong ? 1 : 0;
}
