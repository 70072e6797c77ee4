//===- OutputFile.cpp -----------------------------------------------------===//
#include "profiler/OutputFile.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

namespace kiln::profiler {

void OutputFile::choose(const std::string &folder) {
  // A pid is given out again, and stays the same in exec.
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  path = folder + "/" + std::to_string(::getpid()) + "-" + std::to_string(now);
}

/// Returns 0 or an errno.
static int writeAll(int fd, const std::string &text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return written < 0 ? errno : ENOSPC;
    done += static_cast<size_t>(written);
  }
  return 0;
}

/// Like writeAll(). A write over the program's RLIMIT_FSIZE raises SIGXFSZ,
/// which would end the program.
static int writeGuarded(int fd, const std::string &text) {
  sigset_t signal, before;
  ::sigemptyset(&signal);
  ::sigaddset(&signal, SIGXFSZ);
  ::pthread_sigmask(SIG_BLOCK, &signal, &before);
  const int failure = writeAll(fd, text);
  const timespec atOnce = {};
  if (failure == EFBIG && !::sigismember(&before, SIGXFSZ))
    (void)::sigtimedwait(&signal, nullptr, &atOnce);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return failure;
}

void OutputFile::replace(const std::string &text) {
  const std::string temporary = path + ".part", final = path + ".json";
  const int fd =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  int failure = fd < 0 ? errno : writeGuarded(fd, text);
  if (fd >= 0 && ::close(fd) != 0 && !failure)
    failure = errno;
  if (!failure && ::rename(temporary.c_str(), final.c_str()) != 0)
    failure = errno;
  if (failure && !hasFailed) {
    hasFailed = true;
    std::fprintf(stderr, "kiln profiler: %s: %s\n", final.c_str(),
                 std::strerror(failure));
  }
}

} // namespace kiln::profiler
