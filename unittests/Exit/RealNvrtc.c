/* The real NVRTC, named by KILN_EXIT_REAL, with a count of the compilations in
   progress, like the stand-in's. For manual runs of this folder's tests.

   All other functions are NVRTC's own addresses, found by dlsym, so that Kiln
   sees their library. */
#pragma GCC visibility push(default)
#include <nvrtc.h>
int kilnFakeNvrtcRunning(void);
#pragma GCC visibility pop

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_int running;

static void *find(const char *name) {
  static void *real;
  if (!real) {
    const char *path = getenv("KILN_EXIT_REAL");
    real = dlopen(path ? path : "libnvrtc.so", RTLD_NOW | RTLD_LOCAL);
  }
  void *function = real ? dlsym(real, name) : NULL;
  if (!function) {
    fprintf(stderr, "KILN_EXIT_REAL: %s\n", dlerror());
    abort();
  }
  return function;
}

#define FORWARD(name)                                                          \
  static void *find_##name(void) { return find(#name); }                       \
  __typeof__(name) name __attribute__((ifunc("find_" #name)))

FORWARD(nvrtcVersion);
FORWARD(nvrtcGetErrorString);
FORWARD(nvrtcGetNumSupportedArchs);
FORWARD(nvrtcGetSupportedArchs);
FORWARD(nvrtcCreateProgram);
FORWARD(nvrtcDestroyProgram);
FORWARD(nvrtcGetCUBINSize);
FORWARD(nvrtcGetCUBIN);
FORWARD(nvrtcGetProgramLogSize);
FORWARD(nvrtcGetProgramLog);

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count,
                                const char *const *options) {
  nvrtcResult (*function)(nvrtcProgram, int, const char *const *);
  *(void **)&function = find("nvrtcCompileProgram");
  atomic_fetch_add(&running, 1);
  const nvrtcResult result = function(program, count, options);
  atomic_fetch_sub(&running, 1);
  return result;
}

int kilnFakeNvrtcRunning(void) { return atomic_load(&running); }
