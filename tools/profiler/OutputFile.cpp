//===- OutputFile.cpp -----------------------------------------------------===//
#include "profiler/OutputFile.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
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
    if (written < 0 && errno != EINTR)
      return errno;
    if (written > 0)
      done += static_cast<size_t>(written);
  }
  return 0;
}

void OutputFile::replace(const std::string &text) {
  const std::string temporary = path + ".part", final = path + ".json";
  const int fd =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  int failure = fd < 0 ? errno : writeAll(fd, text);
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
