/* A program as the profiler's helper meets it: it loads the helper as the
 * driver does, tells it ranges as NVTX does, and launches kernels of the
 * stand-in CUPTI. Its first argument says what it does. */
#include "Fakes/FakeCupti.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define GEMM "kiln_gemm_sm90_bm128_bn256_bk64_st4_wg2_cm1_cn1_sig1f55"
#define GEMM_FP8 "kiln_gemm_sm90_bm128_bn256_bk64_st4_wg2_cm1_cn1_sig0abc"
#define FILL "_Z4fillIfEvPT_i"

static void *library(const char *variable) {
  const char *path = getenv(variable);
  void *opened = path ? dlopen(path, RTLD_NOW) : NULL;
  if (!opened) {
    fprintf(stderr, "%s: %s\n", variable, path ? dlerror() : "not set");
    exit(99);
  }
  return opened;
}

/* NVTX: tables of functions that a tool fills. */

typedef void (*Function)(void);
static Function core[16], core2[16];
static Function *coreTable[16], *core2Table[16];

typedef struct Attributes {
  uint16_t version, size;
  uint32_t category;
  int32_t colorType;
  uint32_t color;
  int32_t payloadType, reserved0;
  uint64_t payload;
  int32_t messageType;
  const void *message;
} Attributes;

static int functionTable(int module, Function ***table, unsigned *size) {
  if (module != 1 && module != 5)
    return 0;
  *table = module == 1 ? coreTable : core2Table;
  *size = 16;
  return 1;
}

static const void *exportTable(uint32_t id) {
  static const struct {
    size_t size;
    int (*get)(int, Function ***, unsigned *);
  } callbacks = {sizeof callbacks, functionTable};
  return id == 1 ? &callbacks : NULL;
}

static void *domain;

static void startNvtx(void) {
  for (int i = 1; i < 16; ++i) {
    coreTable[i] = &core[i];
    core2Table[i] = &core2[i];
  }
  void *tool = library("NVTX_INJECTION64_PATH");
  int (*start)(const void *(*)(uint32_t)) =
      (int (*)(const void *(*)(uint32_t)))dlsym(tool,
                                                "InitializeInjectionNvtx2");
  if (!start || !start(exportTable))
    exit(98);
  domain = ((void *(*)(const char *))core2[12])("kiln");
  void (*name)(void *, uint32_t, const char *) =
      (void (*)(void *, uint32_t, const char *))core2[8];
  name(domain, 1, "step");
  name(domain, 2, "layer");
}

static void push(uint32_t category, const char *name) {
  const Attributes ascii = {2, sizeof ascii, category, 0, 0, 0, 0, 0, 1, name};
  ((int (*)(void *, const Attributes *))core2[4])(domain, &ascii);
}
static void pop(void) { ((int (*)(void *))core2[5])(domain); }
static void pushPlain(const char *name) {
  ((int (*)(const char *))core[9])(name);
}
static void popPlain(void) { ((int (*)(void))core[11])(); }

/* The stand-in CUPTI's control. */

static void (*launch)(const char *, uint32_t, uint64_t, uint64_t);
static void (*copy)(uint64_t, uint64_t, uint64_t);
static void (*fill)(uint64_t, uint64_t, uint64_t);
static void (*node)(uint64_t, uint64_t);
static void (*graph)(const KilnFakeNode *, size_t);
static void (*profiler)(int);
static void (*drop)(size_t);

static void start(void) {
  void *helper = library("CUDA_INJECTION64_PATH");
  ((int (*)(void))dlsym(helper, "InitializeInjection"))();
  const char *path = getenv("KILN_CUPTI");
  void *cupti = path ? dlopen(path, RTLD_NOW) : NULL;
  if (!cupti)
    exit(0);
  *(void **)&launch = dlsym(cupti, "kilnFakeCuptiLaunch");
  *(void **)&copy = dlsym(cupti, "kilnFakeCuptiCopy");
  *(void **)&fill = dlsym(cupti, "kilnFakeCuptiMemset");
  *(void **)&node = dlsym(cupti, "kilnFakeCuptiNode");
  *(void **)&graph = dlsym(cupti, "kilnFakeCuptiGraph");
  *(void **)&profiler = dlsym(cupti, "kilnFakeCuptiProfiler");
  *(void **)&drop = dlsym(cupti, "kilnFakeCuptiDrop");
}

/* Launches of two devices, whose times overlap, copies and memsets. */
static void kernels(void) {
  start();
  for (int i = 0; i < 10; ++i)
    launch(GEMM, 0, 1000 + 10000 * i, 5000 + 100 * i);
  launch(GEMM_FP8, 0, 101000, 4000);
  launch(FILL, 0, 103000, 4000);
  launch(FILL, 1, 1000, 2000);
  copy(4096, 110000, 500);
  fill(64, 111000, 1000);
  drop(3);
}

/* Layers that are launched, then captured once and replayed. */
static void ranges(void) {
  startNvtx();
  pushPlain("early"); /* before the driver starts */
  start();
  launch(FILL, 0, 500, 100);
  popPlain();
  push(1, "prefill");
  push(2, "layer 0");
  launch(GEMM, 0, 1000, 1000);
  pop();
  push(2, "layer 1");
  pushPlain("inner");
  launch(GEMM, 0, 2000, 2000);
  /* Domains are popped by themselves. */
  pop();
  launch(GEMM, 0, 4000, 50);
  popPlain();
  pop();
  push(1, "capture");
  push(2, "layer 0");
  node(10, 0);
  pop();
  push(2, "layer 1");
  node(11, 0);
  pop();
  pop();
  pushPlain("instantiate");
  node(20, 0);
  node(20, 10);
  node(21, 11);
  node(21, 0);
  node(22, 9); /* its original was not announced */
  popPlain();
  for (int step = 0; step < 3; ++step) {
    const uint64_t at = 10000 + 10000 * step;
    const KilnFakeNode nodes[] = {
        {20, GEMM, at, 1000}, {21, GEMM, at + 1000, 2000}, {22, FILL, at, 10}};
    push(1, "decode");
    graph(nodes, 3);
    pop();
  }
  launch(FILL, 0, 90000, 700);
}

static void startAndStop(void) {
  start();
  launch(FILL, 0, 1000, 100);
  profiler(1);
  launch(GEMM, 0, 2000, 1000);
  profiler(0);
  launch(FILL, 0, 4000, 100);
}

/* A child of fork has no file of its own; one that starts CUDA itself has. */
static void forks(int childStarts) {
  if (!childStarts) {
    start();
    launch(GEMM, 0, 1000, 1000);
  }
  pid_t child = fork();
  if (child == 0) {
    if (childStarts) {
      start();
      launch(GEMM, 0, 5000, 1000);
    }
    exit(0);
  }
  waitpid(child, NULL, 0);
  if (childStarts) {
    start();
    launch(GEMM, 0, 1000, 1000);
  }
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (!strcmp(what, "kernels"))
    kernels();
  else if (!strcmp(what, "ranges"))
    ranges();
  else if (!strcmp(what, "profiler"))
    startAndStop();
  else if (!strcmp(what, "fork"))
    forks(0);
  else if (!strcmp(what, "forkFirst"))
    forks(1);
  else if (!strcmp(what, "nothing"))
    start();
  else if (!strcmp(what, "killed")) {
    startAndStop();
    _exit(5);
  } else
    return 97;
  puts("done");
  return argc > 2 ? atoi(argv[2]) : 0;
}
