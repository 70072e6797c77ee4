// Effects of a write on the process that calls it.
#include "Support/AtomicFile.h"

#include "Support/TemporaryFolder.h"

#include <doctest/doctest.h>

#include <csignal>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace kiln;
using kiln::testing::filesIn;
using kiln::testing::TemporaryFolder;

static constexpr rlim_t kLimit = 4096;

static bool isWaiting(int signal) {
  sigset_t waiting;
  return ::sigpending(&waiting) == 0 && ::sigismember(&waiting, signal) == 1;
}

static bool isBlocked(int signal) {
  sigset_t mask;
  return ::pthread_sigmask(SIG_BLOCK, nullptr, &mask) == 0 &&
         ::sigismember(&mask, signal) == 1;
}

/// Runs \p body, which answers whether all is well, in a process that may write
/// kLimit bytes to a file; 0 if it was, minus a signal that killed it.
template <class Body> static int runLimited(Body body) {
  pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit files = {kLimit, kLimit}, none = {0, 0};
    ::setrlimit(RLIMIT_FSIZE, &files);
    ::setrlimit(RLIMIT_CORE, &none);
    ::_exit(body() ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// Whether replacing a file with more than the limit fails as it should.
static bool isRefused(const TemporaryFolder &folder) {
  int fd = ::open(folder.path.c_str(), O_RDONLY | O_DIRECTORY);
  WriteResult result =
      replaceFile(FileOps::system(), fd, "file", std::string(2 * kLimit, 'x'));
  ::close(fd);
  return result.errnoValue == EFBIG && filesIn(folder.path).empty();
}

TEST_CASE("F9: a limit of file sizes is an error and no signal") {
  TemporaryFolder folder;
  CHECK(runLimited([&] {
          return isRefused(folder) && !isWaiting(SIGXFSZ) &&
                 !isBlocked(SIGXFSZ);
        }) == 0);
}

TEST_CASE("F9: the signal of somebody else is left to them") {
  TemporaryFolder folder;
  CHECK(runLimited([&] {
          sigset_t only;
          ::sigemptyset(&only);
          ::sigaddset(&only, SIGXFSZ);
          ::pthread_sigmask(SIG_BLOCK, &only, nullptr);
          if (!isRefused(folder) || isWaiting(SIGXFSZ) || !isBlocked(SIGXFSZ))
            return false;
          ::raise(SIGXFSZ);
          return isRefused(folder) && isWaiting(SIGXFSZ);
        }) == 0);
}
