//===- FileOps.h - the system calls that the cache makes ------------------===//
//
// A seam, so that tests can make the n-th call fail with any errno. Functions
// return what the system call returns and set errno; they retry nothing.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <sys/stat.h>
#include <sys/types.h>

namespace kiln {

/// The file system. Thread-safe; stateless unless a test derives from it.
class FileOps {
public:
  virtual ~FileOps() = default;

  virtual int open(int folder, const char *path, int flags, mode_t mode);
  virtual int close(int fd);
  virtual ssize_t read(int fd, void *to, size_t bytes);
  /// Over RLIMIT_FSIZE it fails with EFBIG and no signal is delivered.
  virtual ssize_t write(int fd, const void *from, size_t bytes);
  /// Like write(), at \p offset.
  virtual ssize_t writeAt(int fd, const void *from, size_t bytes, off_t offset);
  virtual int truncate(int fd, off_t bytes);
  virtual int sync(int fd);
  virtual int rename(int folder, const char *from, const char *to);
  virtual int unlink(int folder, const char *path);
  virtual int makeFolder(int folder, const char *path, mode_t mode);
  virtual int status(int fd, struct stat &info);
  /// Stamps an own file with the present time, however it was opened.
  virtual int touch(int fd);
  /// Does not follow \p path if it is a symbolic link.
  virtual int statusAt(int folder, const char *path, struct stat &info);
  /// Locks the byte at \p offset for writing, whether the file has it or not,
  /// or fails at once with EAGAIN. The lock belongs to the open file
  /// description: closing another descriptor of the file does not drop it, and
  /// the kernel frees it with its holder.
  virtual int tryLock(int fd, off_t offset);
  virtual int unlock(int fd, off_t offset);

  /// The real one.
  static FileOps &system();
};

/// A file descriptor that is closed when it goes. Moves, never copies.
class ScopedFd {
public:
  ScopedFd() = default;
  ScopedFd(FileOps &ops, int fd) : ops(&ops), fd(fd) {}
  ScopedFd(ScopedFd &&other) noexcept : ops(other.ops), fd(other.release()) {}
  ScopedFd &operator=(ScopedFd &&other) noexcept {
    reset();
    ops = other.ops;
    fd = other.release();
    return *this;
  }
  ~ScopedFd() { reset(); }

  int get() const { return fd; }
  explicit operator bool() const { return fd >= 0; }
  int release() {
    int released = fd;
    fd = -1;
    return released;
  }
  /// Closes. An error of close is dropped, and errno keeps its value.
  void reset();

private:
  FileOps *ops = nullptr;
  int fd = -1;
};

} // namespace kiln
