//===- FaultyFileOps.h - a file system that fails on demand ---------------===//
#pragma once

#include "Support/FileOps.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <string_view>

namespace kiln::testing {

/// Makes the n-th call from arm() on fail; sticky: and every later call of the
/// same function. For one thread.
class FaultyFileOps : public FileOps {
public:
  void arm(int nth, int errnoToSet, bool isSticky = false) {
    failAt = nth;
    error = errnoToSet;
    sticky = isSticky;
    calls = writingCalls = 0;
    failing = {};
  }
  void disarm() { arm(0, 0); }
  /// Every call of \p function fails from now on.
  void failAlways(std::string_view function, int errnoToSet) {
    arm(0, errnoToSet, true);
    failing = function;
  }

  int open(int folder, const char *path, int flags, mode_t mode) override {
    writingCalls += (flags & O_CREAT) != 0;
    return fails((flags & O_CREAT) ? "create" : "open")
               ? -1
               : FileOps::open(folder, path, flags, mode);
  }
  int close(int fd) override {
    int result = FileOps::close(fd); // a failed close closes all the same
    return fails("close") ? -1 : result;
  }
  ssize_t read(int fd, void *to, size_t bytes) override {
    return fails("read") ? -1 : FileOps::read(fd, to, shorten(bytes));
  }
  ssize_t write(int fd, const void *from, size_t bytes) override {
    ++writingCalls;
    return fails("write") ? -1 : FileOps::write(fd, from, shorten(bytes));
  }
  int sync(int fd) override { return fails("sync") ? -1 : FileOps::sync(fd); }
  int rename(int folder, const char *from, const char *to) override {
    ++writingCalls;
    if (renameSucceedsSilently) {
      FileOps::rename(folder, from, to);
      errno = EIO;
      return -1;
    }
    return fails("rename") ? -1 : FileOps::rename(folder, from, to);
  }
  int unlink(int folder, const char *path) override {
    ++writingCalls;
    return fails("unlink") ? -1 : FileOps::unlink(folder, path);
  }
  int makeFolder(int folder, const char *path, mode_t mode) override {
    ++writingCalls;
    return fails("makeFolder") ? -1 : FileOps::makeFolder(folder, path, mode);
  }
  int touch(int fd) override {
    return fails("touch") ? -1 : FileOps::touch(fd);
  }
  int status(int fd, struct stat &info) override {
    return fails("status") ? -1 : FileOps::status(fd, info);
  }
  int statusAt(int folder, const char *path, struct stat &info) override {
    return fails("statusAt") ? -1 : FileOps::statusAt(folder, path, info);
  }
  int tryLock(int fd, off_t offset) override {
    return fails("tryLock") ? -1 : FileOps::tryLock(fd, offset);
  }

  int calls = 0;                       ///< since arm()
  int writingCalls = 0;                ///< of which would change the disk
  bool shortTransfers = false;         ///< at most 7 bytes a call
  bool renameSucceedsSilently = false; ///< renames, then reports EIO

private:
  size_t shorten(size_t bytes) const {
    return shortTransfers ? std::min<size_t>(bytes, 7) : bytes;
  }
  bool fails(std::string_view function) {
    bool now = ++calls == failAt;
    if (now && sticky)
      failing = function;
    if (!now && failing != function)
      return false;
    errno = error;
    return true;
  }

  int failAt = 0, error = 0;
  bool sticky = false;
  std::string_view failing;
};

} // namespace kiln::testing
