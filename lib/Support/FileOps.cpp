//===- FileOps.cpp --------------------------------------------------------===//
#include "Support/FileOps.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <fcntl.h>
#include <unistd.h>

namespace kiln {

int FileOps::open(int folder, const char *path, int flags, mode_t mode) {
  return ::openat(folder, path, flags, mode);
}

int FileOps::close(int fd) { return ::close(fd); }

ssize_t FileOps::read(int fd, void *to, size_t bytes) {
  return ::read(fd, to, bytes);
}

namespace {
/// Holds SIGXFSZ back from the calling thread: a write over RLIMIT_FSIZE raises
/// it beside EFBIG, and it ends a process that does not handle it. A signal
/// that a write has raised is taken; one that was pending before stays.
class FileSizeSignalGuard {
public:
  FileSizeSignalGuard() {
    ::sigemptyset(&signal);
    ::sigaddset(&signal, SIGXFSZ);
    sigset_t waiting;
    ::sigemptyset(&waiting);
    waitedBefore =
        ::sigpending(&waiting) == 0 && ::sigismember(&waiting, SIGXFSZ) == 1;
    isBlocked = ::pthread_sigmask(SIG_BLOCK, &signal, &before) == 0;
  }
  ~FileSizeSignalGuard() {
    int kept = errno;
    if (isBlocked) {
      const timespec atOnce = {};
      if (!waitedBefore)
        while (::sigtimedwait(&signal, nullptr, &atOnce) < 0 && errno == EINTR)
          ;
      ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    errno = kept;
  }
  FileSizeSignalGuard(const FileSizeSignalGuard &) = delete;
  FileSizeSignalGuard &operator=(const FileSizeSignalGuard &) = delete;

private:
  sigset_t signal, before;
  bool waitedBefore = false, isBlocked = false;
};
} // namespace

ssize_t FileOps::write(int fd, const void *from, size_t bytes) {
  FileSizeSignalGuard guard;
  return ::write(fd, from, bytes);
}

ssize_t FileOps::writeAt(int fd, const void *from, size_t bytes, off_t offset) {
  FileSizeSignalGuard guard;
  return ::pwrite(fd, from, bytes, offset);
}

int FileOps::truncate(int fd, off_t bytes) {
  FileSizeSignalGuard guard;
  return ::ftruncate(fd, bytes);
}

int FileOps::sync(int fd) { return ::fsync(fd); }

int FileOps::rename(int folder, const char *from, const char *to) {
  return ::renameat(folder, from, folder, to);
}

int FileOps::unlink(int folder, const char *path) {
  return ::unlinkat(folder, path, 0);
}

int FileOps::makeFolder(int folder, const char *path, mode_t mode) {
  return ::mkdirat(folder, path, mode);
}

int FileOps::touch(int fd) { return ::futimens(fd, nullptr); }

int FileOps::status(int fd, struct stat &info) { return ::fstat(fd, &info); }

int FileOps::statusAt(int folder, const char *path, struct stat &info) {
  return ::fstatat(folder, path, &info, AT_SYMLINK_NOFOLLOW);
}

static int setLock(int fd, off_t offset, short type) {
  struct flock range = {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = offset;
  range.l_len = 1;
  return ::fcntl(fd, F_OFD_SETLK, &range);
}

int FileOps::tryLock(int fd, off_t offset) {
  return setLock(fd, offset, F_WRLCK);
}

int FileOps::unlock(int fd, off_t offset) {
  return setLock(fd, offset, F_UNLCK);
}

FileOps &FileOps::system() {
  // Never destroyed: threads may write while the process exits.
  static FileOps &ops = *new FileOps;
  return ops;
}

void ScopedFd::reset() {
  if (fd < 0)
    return;
  int before = errno;
  ops->close(release());
  errno = before;
}

} // namespace kiln
