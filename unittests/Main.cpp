// The one main() of every test binary. A binary that is asked for the suite
// "gpu" on a machine without a GPU says so and exits with 77, which ctest
// reports as skipped.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <dlfcn.h>
#include <string_view>

/// True when libcuda opens, initialises and reports a device. Asks the driver
/// library itself so that no Kiln code decides whether Kiln's tests run.
static bool hasGpu() {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver)
    return false;
  auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  auto count =
      reinterpret_cast<int (*)(int *)>(dlsym(driver, "cuDeviceGetCount"));
  int devices = 0;
  return init && count && init(0) == 0 && count(&devices) == 0 && devices > 0;
}

int main(int argc, char **argv) {
  bool wantsGpu = false;
  for (int i = 1; i < argc; ++i)
    wantsGpu |= std::string_view(argv[i]) == "--test-suite=gpu";
  if (wantsGpu && !hasGpu()) {
    std::printf("SKIPPED: no GPU on this machine\n");
    return 77;
  }
  doctest::Context context(argc, argv);
  context.setOption("no-path-filenames", true);
  return context.run();
}
