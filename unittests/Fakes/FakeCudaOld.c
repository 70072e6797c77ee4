//===- FakeCudaOld.c - a driver too old for Kiln --------------------------===//
//
// libkiln_fake_cuda_old.so: serves CUDA 11.4 and has nothing newer than cuInit.
//
//===----------------------------------------------------------------------===//
#define EXPORTED __attribute__((visibility("default")))

EXPORTED int cuInit(unsigned flags) { return 0; }

EXPORTED int cuDriverGetVersion(int *version) {
  *version = 11040;
  return 0;
}
