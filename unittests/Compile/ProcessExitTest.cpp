#include "Compile/ProcessExit.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace kiln;

static int trace = -1; ///< where the children below write what they do

static void say(char what) {
  if (::write(trace, &what, 1) != 1)
    ::_exit(2);
}

/// The output of a forked child that runs \p body and then calls exit(). No
/// handler of this process may run in it, so it ends in the last of its own.
template <class Body> static std::string traceOf(const Body &body) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    trace = ends[1];
    std::atexit([] { // registered first: runs last
      say(CompilerStay().isGranted() ? 'B' : 'b');
      ::_exit(0);
    });
    body();
    std::exit(0);
  }
  ::close(ends[1]);
  std::string text;
  char c = 0;
  while (::read(ends[0], &c, 1) == 1)
    text += c;
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  return text;
}

/// Starts a thread that stays in the compiler until it sees the process end.
static void stayUntilTheEnd() {
  static std::atomic<bool> isIn;
  isIn = false;
  std::thread([] {
    {
      const CompilerStay stay;
      isIn = stay.isGranted();
      while (!isProcessEnding())
        std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      say(mayCallHooks() ? 'H' : 'h');
    }
    for (;;)
      ::pause();
  }).detach();
  while (!isIn)
    std::this_thread::yield();
}

TEST_CASE("the end of a process waits for compilations and lets none begin") {
  CHECK(traceOf([] { watchProcessExit(); }) == "b");
  CHECK(traceOf([] {
          watchProcessExit();
          watchProcessExit();
          stayUntilTheEnd();
        }) == "hb");
  CHECK_FALSE(isProcessEnding());
  CHECK(mayCallHooks());
}

TEST_CASE("a thread that ends the process from inside of the compiler does not "
          "wait for itself") {
  CHECK(traceOf([] {
          watchProcessExit();
          std::thread([] {
            const CompilerStay stay, another;
            say(mayCallHooks() ? 'H' : 'h');
            std::exit(0);
          }).join();
        }) == "Hb");
}

TEST_CASE("the end of a process waits for a compiler that is being loaded") {
  CHECK(traceOf([] {
          watchProcessExit();
          foreseeCompilation();
          static std::atomic<bool> isLoaded, hasBegun;
          std::thread([] {
            const CompilerStay stay;
            {
              const CompilerLoading loading;
              for (int i = 0; i < 3; ++i) {
                std::atexit([] { say(isLoaded ? 'd' : 'D'); });
                hasBegun = true;
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
              }
              isLoaded = true;
            }
            say('l');
          }).detach();
          while (!hasBegun)
            std::this_thread::yield();
        }) == "ldddb");
}

/// Registers a destructor of a library: no compilation may begin behind it.
static void registerDestructor() {
  std::atexit([] { say(CompilerStay().isGranted() ? 'D' : 'd'); });
}

TEST_CASE("no compilation begins behind destructors that were there when one "
          "was foreseen") {
  // A library of another owner, such as NVRTC that PyTorch has loaded.
  auto load = [] {
    if (!::dlopen(KILN_BINARY_DIR "/lib/libkiln_fake_cuda_old.so", RTLD_NOW))
      ::_exit(3);
    registerDestructor();
  };
  auto endOnOtherThread = [] { std::thread([] { std::exit(0); }).join(); };
  auto foreseeOnOtherThread = [] {
    std::thread([] { foreseeCompilation(); }).join();
  };
  CHECK(traceOf([&] {
          foreseeCompilation();
          load();
          foreseeCompilation();
          endOnOtherThread();
        }) == "db");
  CHECK(traceOf([&] {
          foreseeOnOtherThread();
          load();
          foreseeOnOtherThread();
        }) == "db");
  // The thread that ends the process foresaw one before.
  CHECK(traceOf([&] {
          foreseeCompilation();
          load();
        }) == "db");
  CHECK(traceOf([&] {
          std::thread([&] {
            foreseeCompilation();
            load();
            std::exit(0);
          }).join();
        }) == "db");
  // Without a loading, as NVRTC's of a compilation for another library.
  CHECK(traceOf([&] {
          foreseeCompilation();
          registerDestructor();
        }) == "db");
}

TEST_CASE("threads that foresaw a compilation come and go without a handler "
          "each") {
  CHECK(traceOf([] {
          foreseeCompilation();
          registerDestructor();
          for (int i = 0; i < 100; ++i)
            std::thread([] { foreseeCompilation(); }).join();
          std::thread([] { std::exit(0); }).join();
        }) == "Db");
}

TEST_CASE("a forked child waits for no compilation of its parent") {
  const auto start = std::chrono::steady_clock::now();
  CHECK(traceOf([] {
          watchProcessExit();
          stayUntilTheEnd();
          const pid_t child = ::fork();
          if (child == 0)
            return; // it ends with the handlers and stays of its parent
          int status = 0;
          ::waitpid(child, &status, 0);
          ::_exit(status);
        }) == "B");
  CHECK(std::chrono::steady_clock::now() - start < kExitNoticeAfter);
}

TEST_CASE("a log hears that the end waits long") {
  CHECK(traceOf([] {
          watchProcessExit();
          static ExitNotice *notice;
          notice = new ExitNotice(Log([](LogLevel, llvm::StringRef) {
            say('l');
            delete notice; // as a hook may destroy its engine
          }));
          static std::atomic<bool> isIn;
          std::thread([] {
            const CompilerStay stay;
            isIn = true;
            std::this_thread::sleep_for(kExitNoticeAfter +
                                        std::chrono::milliseconds(500));
            say('e');
          }).detach();
          while (!isIn)
            std::this_thread::yield();
        }) == "leb");
}
