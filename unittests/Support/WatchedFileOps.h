//===- WatchedFileOps.h - a file system that tells what is read -----------===//
#pragma once

#include "Support/FileOps.h"

#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace kiln::testing {

/// Counts the files that are read among those with \p pattern in their paths,
/// and makes files look older than they are. Thread-safe.
class WatchedFileOps : public FileOps {
public:
  explicit WatchedFileOps(std::string pattern) : pattern(std::move(pattern)) {}

  int open(int folder, const char *path, int flags, mode_t mode) override {
    const int fd = FileOps::open(folder, path, flags, mode);
    std::lock_guard guard(mutex);
    if (fd >= 0 && std::string_view(path).find(pattern) != kNowhere)
      unread.insert(fd);
    return fd;
  }
  int close(int fd) override {
    {
      std::lock_guard guard(mutex);
      unread.erase(fd);
    }
    return FileOps::close(fd);
  }
  ssize_t read(int fd, void *to, size_t bytes) override {
    {
      std::lock_guard guard(mutex);
      count += static_cast<int>(unread.erase(fd));
    }
    return FileOps::read(fd, to, bytes);
  }
  int status(int fd, struct stat &info) override {
    return grow(FileOps::status(fd, info), info);
  }
  int statusAt(int folder, const char *path, struct stat &info) override {
    return grow(FileOps::statusAt(folder, path, info), info);
  }

  int reads() const {
    std::lock_guard guard(mutex);
    return count;
  }

  std::chrono::seconds age{0}; ///< that files have in addition

private:
  static constexpr size_t kNowhere = std::string_view::npos;

  int grow(int result, struct stat &info) const {
    info.st_mtim.tv_sec -= age.count();
    info.st_ctim.tv_sec -= age.count();
    return result;
  }

  const std::string pattern;
  mutable std::mutex mutex;
  std::set<int> unread;
  int count = 0;
};

} // namespace kiln::testing
