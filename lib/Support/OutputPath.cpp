//===- OutputPath.cpp - names of files that a process writes --------------===//
#include "Support/OutputPath.h"

#include "Support/AtomicFile.h"

#include <llvm/ADT/SmallString.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/Path.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace kiln {

std::string processPath(llvm::StringRef path, llvm::StringRef process) {
  std::string result;
  for (size_t place; (place = path.find("%p")) != llvm::StringRef::npos;
       path = path.drop_front(place + 2))
    result += (path.take_front(place) + process).str();
  return result + path.str();
}

std::string processPath(llvm::StringRef path) {
  return processPath(path, std::to_string(::getpid()));
}

std::string absolutePath(const std::string &path) {
  llvm::SmallString<256> absolute(path);
  if (llvm::sys::fs::make_absolute(absolute))
    return path;
  return absolute.str().str();
}

std::string numberedPath(llvm::StringRef path, llvm::StringRef part) {
  const llvm::StringRef extension = llvm::sys::path::extension(path);
  return (path.drop_back(extension.size()) + "." + part + extension).str();
}

bool isAt(FileOps &ops, const std::string &path, const struct stat &info) {
  struct stat now = {};
  return ops.statusAt(AT_FDCWD, path.c_str(), now) == 0 &&
         now.st_dev == info.st_dev && now.st_ino == info.st_ino;
}

/// Opens \p path and takes its lock. EAGAIN: another owner has it.
static OwnedFile claim(FileOps &ops, const std::string &path, bool isPlain) {
  OwnedFile file{{}, path, 0};
  constexpr int kAttempts = 16; // others replace their file under the name
  for (int i = 0; i < kAttempts; ++i) {
    file.fd = ScopedFd(ops, ops.open(AT_FDCWD, path.c_str(),
                                     O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK |
                                         (isPlain ? O_NOFOLLOW : 0),
                                     0644));
    struct stat info = {};
    if (!file.fd || ops.status(file.fd.get(), info) != 0) {
      file.errnoValue = isPlain && errno == ELOOP ? EINVAL : errno;
      break;
    }
    if (isPlain && !S_ISREG(info.st_mode)) {
      file.errnoValue = EINVAL;
      break;
    }
    // A file system without locks has no such protection.
    if (ops.tryLock(file.fd.get(), kWriterLockOffset) != 0 &&
        (errno == EAGAIN || errno == EACCES)) {
      file.errnoValue = EAGAIN;
      break;
    }
    if (!isPlain || isAt(ops, path, info))
      return file;
  }
  if (!file.errnoValue)
    file.errnoValue = EAGAIN;
  file.fd.reset();
  return file;
}

OwnedFile openOwned(FileOps &ops, const std::string &path, bool isPlain) {
  OwnedFile file = claim(ops, path, isPlain);
  const std::string process = std::to_string(::getpid());
  constexpr int kMost = 100;
  for (int i = 1; i < kMost && file.errnoValue == EAGAIN; ++i)
    file = claim(ops,
                 numberedPath(path, i == 1 ? process
                                           : process + "." + std::to_string(i)),
                 isPlain);
  return file;
}

int writeAllAt(FileOps &ops, int fd, llvm::StringRef text, off_t offset) {
  while (!text.empty()) {
    const ssize_t step = ops.writeAt(fd, text.data(), text.size(), offset);
    if (step < 0 && errno == EINTR)
      continue;
    if (step <= 0)
      return step < 0 ? errno : ENOSPC;
    text = text.drop_front(static_cast<size_t>(step));
    offset += step;
  }
  return 0;
}

} // namespace kiln
