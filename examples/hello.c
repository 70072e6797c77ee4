//===- hello.c - the smallest use of Kiln, in C ---------------------------===//
//
// Computes D = A B with fp32 matrices of ones on the default stream and prints
// an element of D, which is k. Exit codes: 0 done, 1 failed, 3 no GPU.
//
//===----------------------------------------------------------------------===//
#include "CudaDriver.h"

#include <kiln/kiln.h>

#include <stdio.h>

enum { kM = 48, kN = 32, kK = 64, kLargest = kM * kK };

static int fail(const char *what, const char *why) {
  fprintf(stderr, "hello: %s: %s\n", what, why);
  return 1;
}

int main(void) {
  CudaDriver cuda;
  int device = 0;
  const char *reason = cudaDriverOpen(&cuda, &device);
  if (reason) {
    fail("no GPU", reason);
    return kExitNoGpu;
  }

  static float host[kLargest];
  for (int i = 0; i < kLargest; ++i)
    host[i] = 1.0f;
  CudaAddress ones = 0, d = 0;
  if (cuda.memAlloc(&ones, sizeof(host)) || cuda.memAlloc(&d, sizeof(host)) ||
      cuda.memcpyHtoD(ones, host, sizeof(host)))
    return fail("device memory", "CUDA refuses it");

  kiln_gemm_args args = kiln_gemm_args_init();
  args.m = kM;
  args.n = kN;
  args.k = kK;
  args.a.type = KILN_FP32; // B, C and D take A's type unless told otherwise
  args.a.data = args.b.data = (void *)(uintptr_t)ones;
  args.d.data = (void *)(uintptr_t)d;
  kiln_engine *engine = NULL;
  kiln_status status = kiln_engine_create(NULL, &engine);
  if (status == KILN_SUCCESS)
    status = kiln_gemm(engine, &args, NULL, NULL);
  if (status != KILN_SUCCESS)
    return fail(kiln_status_name(status), kiln_last_error_message());

  // The copy is ordered after the GEMM: both use the default stream.
  if (cuda.memcpyDtoH(host, d, sizeof(float) * kM * kN))
    return fail("D", "cannot be copied");
  printf("Kiln %s: D[0] = %g, the sum of %d ones\n", kiln_version_string(),
         host[0], kK);
  kiln_engine_destroy(engine);
  cuda.memFree(ones);
  cuda.memFree(d);
  return 0;
}
