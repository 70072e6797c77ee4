//===- FakeCudaProfiler.cpp - a driver's side of a profiler ---------------===//
//
// Like a driver, the stand-in loads the library that CUDA_INJECTION64_PATH
// names and calls its InitializeInjection(), once. The functions of profilers
// reach the stand-in CUPTI, where a process has it.
//
//===----------------------------------------------------------------------===//
#include "Fakes/FakeCuda.h"
#include "Fakes/FakeCudaState.h"

#include <cstdlib>
#include <dlfcn.h>

namespace kiln::fake {

void loadInjection() {
  static const bool once = [] {
    const char *path = std::getenv("CUDA_INJECTION64_PATH");
    void *library = path && *path ? dlopen(path, RTLD_NOW) : nullptr;
    if (!library)
      return false;
    auto *initialise =
        reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
    return initialise && initialise() != 0;
  }();
  (void)once;
}

/// Tells the stand-in CUPTI of the process of a call, if it is loaded.
static void tellCupti(int starts) {
  const char *path = std::getenv("KILN_CUPTI");
  void *library =
      path && *path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : nullptr;
  if (!library)
    return;
  if (auto *tell = reinterpret_cast<void (*)(int)>(
          dlsym(library, "kilnFakeCuptiProfiler")))
    tell(starts);
  dlclose(library);
}

} // namespace kiln::fake

using namespace kiln::fake;

#pragma GCC visibility push(default)
extern "C" {

CUresult cuProfilerStart() {
  KILN_FAKE_ENTER(cuProfilerStart, Needs::Context);
  tellCupti(1);
  return CUDA_SUCCESS;
}

CUresult cuProfilerStop() {
  KILN_FAKE_ENTER(cuProfilerStop, Needs::Context);
  tellCupti(0);
  return CUDA_SUCCESS;
}

} // extern "C"
#pragma GCC visibility pop
