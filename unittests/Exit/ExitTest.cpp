// Processes that end while compilations are in progress, without destroying
// their engine: each ends with its own exit code. The stand-in of NVRTC aborts
// if its destructors run during a compilation.
//
// With the real NVRTC, and more rounds:
//   KILN_EXIT_NVRTC=build/release/lib/libkiln_real_nvrtc.so
//   KILN_EXIT_ROUNDS=200 KILN_EXIT_REAL=/usr/local/cuda/lib64/libnvrtc.so
//   KilnExitTests
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/wait.h>
#include <vector>

static std::string environmentOr(const char *name, const std::string &usual) {
  const char *value = std::getenv(name);
  return value ? value : usual;
}

static const char *const kDriver = KILN_BINARY_DIR "/lib/libkiln_fake_cuda.so";
static constexpr int kCode = 7;

namespace {
struct Ending {
  bool isAsMeant = false;
  int running = 0; ///< compilations in progress at the end
  std::string output;
};
} // namespace

static Ending endingOf(const std::string &command) {
  Ending ending;
  FILE *pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe);
  char buffer[4096];
  while (size_t bytes = fread(buffer, 1, sizeof buffer, pipe))
    ending.output.append(buffer, bytes);
  const int status = pclose(pipe);
  ending.isAsMeant = WIFEXITED(status) && WEXITSTATUS(status) == kCode;
  const std::string tag = "running ";
  if (size_t at = ending.output.rfind(tag); at != std::string::npos)
    ending.running = std::atoi(ending.output.c_str() + at + tag.size());
  return ending;
}

/// Runs \p command for each of \p rounds delays, spread over \p spanUs; returns
/// in how many runs a compilation was in progress at the end.
template <class Command>
static int endMany(int rounds, int spanUs, const Command &command) {
  int inside = 0;
  for (int i = 0; i < rounds; ++i) {
    const int delayUs =
        static_cast<int>(int64_t(spanUs) * (i * 7919 % 1000) / 1000);
    const std::string line = command(delayUs);
    const Ending ending = endingOf(line);
    CAPTURE(line);
    CAPTURE(ending.output);
    CHECK(ending.isAsMeant);
    inside += ending.running > 0;
  }
  return inside;
}

static std::string nvrtcPath() {
  return environmentOr("KILN_EXIT_NVRTC",
                       KILN_BINARY_DIR "/lib/libkiln_fake_nvrtc.so");
}

static int roundsOr(int usual) {
  const int wanted = std::atoi(environmentOr("KILN_EXIT_ROUNDS", "0").c_str());
  return wanted > 0 ? wanted : usual;
}

/// With the real NVRTC compilations take longer, and begin later.
static int spanUs() {
  return std::getenv("KILN_EXIT_NVRTC") ? 3000000 : 250000;
}

/// KILN_MODE_TUNE, _PREDICT and _BACKGROUND.
static const std::vector<int> kModes = {0, 10, 20};

TEST_CASE("a program that ends while kernels compile ends as it means to") {
  for (int mode : kModes) {
    int inside = 0;
    auto endBy = [&](const char *how, int rounds, int span) {
      inside += endMany(rounds, span, [&](int delayUs) {
        return "timeout 60 " KILN_EXIT_PROGRAM " " + nvrtcPath() + " " +
               std::to_string(mode) + " " + how + " " + std::to_string(delayUs);
      });
    };
    for (const char *how : {"return", "thread", "load", "late", "hook",
                            "destroy", "fork", "other", "atexit"}) {
      const bool isUsual = std::string(how) == "return";
      endBy(how, isUsual ? roundsOr(8) : (roundsOr(8) + 3) / 4, spanUs());
      endBy(how, 3, 0); // before the preparation's thread begins
    }
    // On a busy machine compilations begin later.
    for (int span = 2 * spanUs(); inside == 0 && span < 32 * spanUs();
         span *= 2)
      endBy("return", 4, span);
    MESSAGE("mode " << mode << ": in " << inside
                    << " endings something was compiled");
    CHECK(inside > 0);
  }
}

#ifdef KILN_EXIT_PYTHON
TEST_CASE("Python ends while kernels compile as it means to") {
  for (int mode : kModes) {
    const int inside = endMany(roundsOr(4), spanUs(), [&](int delayUs) {
      return "timeout 60 " KILN_EXIT_PYTHON " -B " KILN_SOURCE_DIR
             "/unittests/Exit/exitProgram.py " KILN_LIBRARY " " +
             std::string(kDriver) + " " + nvrtcPath() + " " +
             std::to_string(mode) + " " + std::to_string(delayUs);
    });
    MESSAGE("mode " << mode << ": in " << inside
                    << " endings something was compiled");
  }
}
#endif
