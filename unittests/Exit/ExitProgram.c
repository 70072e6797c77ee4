/* A program that ends in one of many ways while Kiln compiles:

     kiln_exit_program NVRTC MODE HOW DELAY_US

   It always ends with code 7, and prints on stdout how many compilations were
   in progress when the end began. */
#include "kiln/kiln.h"

#include <cuda.h>

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kCode = 7, kBroken = 9 };

static kiln_engine *engine;
static CUcontext context;
static const char *how;
static int (*running)(void);

static void check(int isGood, const char *what) {
  if (isGood)
    return;
  fprintf(stderr, "%s: %s\n", what, kiln_last_error_message());
  _exit(kBroken);
}

static void waitUs(long us) {
  if (us == 0)
    return; /* nanosleep would take 50 us */
  const struct timespec time = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&time, NULL);
}

/* Called before the end: then the end waits for compilations. */
static void tellRunning(void) {
  printf("running %d\n", running ? running() : 0);
  fflush(stdout);
}

static void endProcess(void) {
  tellRunning();
  exit(kCode);
}

static void destroy(void) { kiln_engine_destroy(engine); }

static void *endOnThread(void *unused) {
  (void)unused;
  endProcess();
  return NULL;
}

static void query(void) {
  kiln_problem problem = KILN_INIT(kiln_problem);
  problem.text = "gemm m=512 n=4096 k=4096 dtype=bf16 layout=NT";
  kiln_query_result result = KILN_INIT(kiln_query_result);
  check(kiln_query(engine, &problem, NULL, &result) == KILN_SUCCESS, "query");
}

/* A thread that asks for a plan, while another one loads the compiler. */
static long endDelayUs;
static atomic_int hasAsked;
static void *endInLoading(void *unused) {
  (void)unused;
  cuCtxPushCurrent(context);
  query();
  atomic_store(&hasAsked, 1);
  waitUs(endDelayUs);
  endProcess();
  return NULL;
}

static void *destroyOnThread(void *unused) {
  (void)unused;
  destroy();
  return NULL;
}

/* Launches new problems without end, so that a compilation is always in
   progress. */
static void *launch(void *unused) {
  (void)unused;
  cuCtxPushCurrent(context);
  for (int64_t k = 64; k < 100000; k += 64) {
    kiln_gemm_args args = kiln_gemm_args_init();
    args.layout = KILN_LAYOUT_NT;
    args.m = 100;
    args.n = 1000 + 8 * (k % 7);
    args.k = k;
    args.a.type = k % 128 ? KILN_BF16 : KILN_FP16;
    args.a.data = args.b.data = (void *)0x100000;
    args.c.data = args.d.data = (void *)0x400000;
    kiln_gemm(engine, &args, NULL, NULL);
  }
  return NULL;
}

static long hookDelayUs;
static void endFromHook(void *unused, const kiln_event *event) {
  (void)unused;
  if (event->kind != KILN_EVENT_COMPILED && event->kind != KILN_EVENT_LOADED &&
      event->kind != KILN_EVENT_CHOSEN)
    return;
  waitUs(hookDelayUs);
  /* Hooks of other threads wait as well, and a program may call exit() once. */
  static atomic_flag isEnding = ATOMIC_FLAG_INIT;
  while (atomic_flag_test_and_set(&isEnding))
    pause();
  endProcess();
}

static void start(void *(*body)(void *), void *argument) {
  pthread_t thread;
  check(pthread_create(&thread, NULL, body, argument) == 0, "pthread_create");
  pthread_detach(thread);
}

static void openCompiler(const char *path) {
  void *nvrtc = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  check(nvrtc != NULL, "dlopen");
  *(void **)&running = dlsym(nvrtc, "kilnFakeNvrtcRunning");
  void (*takeTime)(const char *, int) = NULL;
  *(void **)&takeTime = dlsym(nvrtc, "kilnFakeNvrtcDelayWhen");
  if (takeTime)
    takeTime("", 30);
}

/* Makes the engine and begins to prepare. */
static void prepare(char **argv) {
  kiln_engine_options options = KILN_INIT(kiln_engine_options);
  options.mode = atoi(argv[2]);
  options.flags = KILN_ENGINE_IGNORE_ENVIRONMENT | KILN_ENGINE_MEMORY_ONLY;
  options.nvrtc_path = argv[1];
  options.driver_path = KILN_EXIT_DRIVER;
  if (strcmp(how, "hook") == 0) {
    options.event = endFromHook;
    hookDelayUs = atol(argv[4]);
  }
  check(kiln_engine_create(&options, &engine) == KILN_SUCCESS, "create");

  /* Ends while Kiln loads the compiler for the first time. */
  if (strcmp(how, "load") == 0) {
    endDelayUs = atol(argv[4]);
    start(endInLoading, NULL);
    while (!atomic_load(&hasAsked))
      sched_yield();
  } else if (strcmp(how, "other") == 0) {
    query(); /* so that the preparation is the only call after the loading */
    openCompiler(argv[1]);
  } else if (strcmp(how, "late") != 0) {
    openCompiler(argv[1]);
  }

  kiln_problem problems[2] = {KILN_INIT(kiln_problem), KILN_INIT(kiln_problem)};
  problems[0].text = "gemm m=512 n=4096 k=4096 dtype=bf16 layout=NT";
  problems[1].text = "gemm m=64 n=1024 k=8192 dtype=fp16 layout=NT";
  kiln_task *task = NULL;
  check(kiln_prepare(engine, problems, 2, NULL, &task) == KILN_SUCCESS,
        "prepare");
  /* As another library may at any time: its destructors are registered after
     all that Kiln has registered so far. */
  if (strcmp(how, "late") == 0)
    openCompiler(argv[1]);
}

/* The only thread that calls Kiln. It stays: its end would register handlers.
 */
static atomic_int hasPrepared;
static void *prepareOnThread(void *argv) {
  cuCtxPushCurrent(context);
  prepare(argv);
  atomic_store(&hasPrepared, 1);
  for (;;)
    pause();
  return NULL;
}

int main(int argc, char **argv) {
  check(argc == 5, "usage: kiln_exit_program NVRTC MODE HOW DELAY_US");
  how = argv[3];
  const long delayUs = atol(argv[4]);
  check(cuInit(0) == CUDA_SUCCESS &&
            cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
            cuCtxPushCurrent(context) == CUDA_SUCCESS,
        "the stand-in driver");
  if (strcmp(how, "atexit") == 0)
    atexit(destroy); /* runs last, as a static object's destructor would */

  if (strcmp(how, "other") == 0) {
    start(prepareOnThread, argv);
    while (!atomic_load(&hasPrepared))
      sched_yield();
  } else {
    prepare(argv);
  }
  /* No call may be in progress when an engine is destroyed. */
  if (strcmp(how, "destroy") != 0 && strcmp(how, "atexit") != 0 &&
      strcmp(how, "other") != 0)
    start(launch, NULL);
  if (strcmp(how, "hook") == 0 || strcmp(how, "load") == 0)
    for (;;)
      pause();
  waitUs(delayUs);
  if (strcmp(how, "thread") == 0) {
    start(endOnThread, NULL);
    for (;;)
      pause();
  }
  if (strcmp(how, "destroy") == 0) {
    start(destroyOnThread, NULL);
    waitUs(delayUs % 3000);
  }
  if (strcmp(how, "fork") == 0) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
      exit(kCode); /* does not wait for threads of its parent */
    int status = 0;
    check(waitpid(child, &status, 0) == child && WIFEXITED(status) &&
              WEXITSTATUS(status) == kCode,
          "the child ended in another way");
  }
  tellRunning();
  return kCode;
}
