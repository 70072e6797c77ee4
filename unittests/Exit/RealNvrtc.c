/* The real NVRTC, named by KILN_EXIT_REAL, with a count of the compilations in
   progress, as the stand-in has it. For the tests of this folder by hand. */
#pragma GCC visibility push(default)
#include <nvrtc.h>
nvrtcResult nvrtcSetFlowCallback(nvrtcProgram program,
                                 int (*flow)(void *, void *), void *payload);
int kilnFakeNvrtcRunning(void);
#pragma GCC visibility pop

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static void *real;
static atomic_int running;

__attribute__((constructor)) static void load(void) {
  const char *path = getenv("KILN_EXIT_REAL");
  real = dlopen(path ? path : "libnvrtc.so", RTLD_NOW | RTLD_LOCAL);
  if (!real) {
    fprintf(stderr, "KILN_EXIT_REAL: %s\n", dlerror());
    abort();
  }
}

#define FORWARD(name, parameters, arguments)                                   \
  nvrtcResult name parameters {                                                \
    nvrtcResult(*function) parameters;                                         \
    *(void **)&function = dlsym(real, #name);                                  \
    return function arguments;                                                 \
  }

FORWARD(nvrtcVersion, (int *major, int *minor), (major, minor))
FORWARD(nvrtcGetNumSupportedArchs, (int *count), (count))
FORWARD(nvrtcGetSupportedArchs, (int *archs), (archs))
FORWARD(nvrtcCreateProgram,
        (nvrtcProgram * program, const char *source, const char *name,
         int count, const char *const *headers, const char *const *names),
        (program, source, name, count, headers, names))
FORWARD(nvrtcDestroyProgram, (nvrtcProgram * program), (program))
FORWARD(nvrtcGetCUBINSize, (nvrtcProgram program, size_t *size),
        (program, size))
FORWARD(nvrtcGetCUBIN, (nvrtcProgram program, char *cubin), (program, cubin))
FORWARD(nvrtcGetProgramLogSize, (nvrtcProgram program, size_t *size),
        (program, size))
FORWARD(nvrtcGetProgramLog, (nvrtcProgram program, char *log), (program, log))
FORWARD(nvrtcSetFlowCallback,
        (nvrtcProgram program, int (*flow)(void *, void *), void *payload),
        (program, flow, payload))

const char *nvrtcGetErrorString(nvrtcResult result) {
  const char *(*function)(nvrtcResult);
  *(void **)&function = dlsym(real, "nvrtcGetErrorString");
  return function(result);
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count,
                                const char *const *options) {
  nvrtcResult (*function)(nvrtcProgram, int, const char *const *);
  *(void **)&function = dlsym(real, "nvrtcCompileProgram");
  atomic_fetch_add(&running, 1);
  const nvrtcResult result = function(program, count, options);
  atomic_fetch_sub(&running, 1);
  return result;
}

int kilnFakeNvrtcRunning(void) { return atomic_load(&running); }
