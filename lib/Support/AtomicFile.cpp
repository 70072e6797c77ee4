//===- AtomicFile.cpp -----------------------------------------------------===//
#include "Support/AtomicFile.h"

#include "Support/Format.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>

#include <atomic>
#include <cctype>
#include <ctime>
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

namespace kiln {

static int64_t toNs(const struct timespec &time) {
  // Stamps are compared, never added up: wrapping in the year 2262 is harmless.
  return static_cast<int64_t>(static_cast<uint64_t>(time.tv_sec) * 1000000000u +
                              static_cast<uint64_t>(time.tv_nsec));
}

FileIdentity FileIdentity::of(const struct stat &info) {
  return {static_cast<uint64_t>(info.st_dev),
          static_cast<uint64_t>(info.st_ino),
          static_cast<uint64_t>(info.st_size), toNs(info.st_mtim),
          toNs(info.st_ctim)};
}

static ReadStatus check(const struct stat &info, const ReadRules &rules) {
  if (!S_ISREG(info.st_mode))
    return ReadStatus::NotRegular;
  if (info.st_uid != ::geteuid() && !(rules.rootMayOwn && info.st_uid == 0))
    return ReadStatus::WrongOwner;
  if (info.st_mode & (S_IWGRP | S_IWOTH))
    return ReadStatus::WrongMode;
  if (static_cast<uint64_t>(info.st_size) > rules.maxBytes)
    return ReadStatus::TooLarge;
  return ReadStatus::Ok;
}

CheckedFile openChecked(FileOps &ops, int folder, const char *path,
                        const ReadRules &rules) {
  CheckedFile file;
  // O_NONBLOCK: a FIFO without a writer must not hold us up.
  const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
  int fd = retryInterrupted([&] { return ops.open(folder, path, flags, 0); });
  if (fd < 0) {
    file.errnoValue = errno;
    if (errno == ENOENT || errno == ENOTDIR)
      file.status = ReadStatus::Missing;
    else if (errno == ELOOP || errno == ENXIO || errno == ENODEV)
      file.status = ReadStatus::NotRegular; // a link; a socket
    else
      file.status = ReadStatus::Failed;
    return file;
  }
  file.fd = ScopedFd(ops, fd);
  if (retryInterrupted([&] { return ops.status(fd, file.info); }) < 0) {
    file.errnoValue = errno;
    file.status = ReadStatus::Failed;
    return file;
  }
  file.status = check(file.info, rules);
  return file;
}

int readUpTo(FileOps &ops, int fd, uint64_t total, std::string &bytes) {
  size_t have = bytes.size();
  bytes.resize(total);
  while (have < total) {
    ssize_t got = retryInterrupted(
        [&] { return ops.read(fd, bytes.data() + have, total - have); });
    if (got <= 0) {
      bytes.resize(have);
      return got < 0 ? errno : 0;
    }
    have += static_cast<size_t>(got);
  }
  return 0;
}

std::string temporaryName() {
  uint64_t random = 0;
  if (::getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random) {
    // Early in a boot there may be no entropy yet; O_EXCL still guards a name.
    static std::atomic<uint64_t> counter{0};
    struct timespec now = {};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    random = static_cast<uint64_t>(toNs(now)) ^ (++counter << 48);
  }
  char host[33] = {};
  if (::gethostname(host, sizeof host - 1) != 0 && errno != ENAMETOOLONG)
    host[0] = '\0';
  for (char *c = host; *c; ++c)
    if (!std::isalnum(static_cast<unsigned char>(*c)) && *c != '-')
      *c = '_';
  return fmt::format("{}{}.{}.{:016x}", llvm::StringRef(kTemporaryPrefix),
                     ::getpid(), static_cast<const char *>(host), random);
}

bool isTemporaryName(llvm::StringRef name) {
  auto isHostCharacter = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
  };
  if (!name.consume_front(kTemporaryPrefix))
    return false;
  auto [process, rest] = name.split('.');
  auto [host, random] = rest.split('.');
  return !process.empty() && llvm::all_of(process, llvm::isDigit) &&
         llvm::all_of(host, isHostCharacter) && random.size() == 16 &&
         llvm::all_of(random, [](char c) {
           return llvm::isDigit(c) || (c >= 'a' && c <= 'f');
         });
}

/// Creates a file of a new name; returns its descriptor, or -1 with errno.
static int createTemporary(FileOps &ops, int folder, std::string &name) {
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  int fd = -1;
  for (int attempt = 0; attempt < 8; ++attempt) {
    name = temporaryName();
    fd = retryInterrupted(
        [&] { return ops.open(folder, name.c_str(), flags, 0600); });
    if (fd >= 0 || errno != EEXIST)
      break;
  }
  return fd;
}

/// Returns 0 or an errno.
static int writeAll(FileOps &ops, int fd, llvm::StringRef bytes) {
  while (!bytes.empty()) {
    ssize_t written = retryInterrupted(
        [&] { return ops.write(fd, bytes.data(), bytes.size()); });
    if (written < 0)
      return errno;
    if (written == 0)
      return EIO; // nothing written and no reason given: do not spin on it
    bytes = bytes.drop_front(static_cast<size_t>(written));
  }
  return 0;
}

/// Writes, syncs and closes \p fd.
static WriteResult finishTemporary(FileOps &ops, ScopedFd fd,
                                   llvm::StringRef bytes) {
  if (int failure = writeAll(ops, fd.get(), bytes))
    return {failure, "write"};
  if (retryInterrupted([&] { return ops.sync(fd.get()); }) < 0)
    return {errno, "sync"};
  // Network file systems report a full disk here. The descriptor is gone even
  // if close was interrupted.
  if (ops.close(fd.release()) < 0 && errno != EINTR)
    return {errno, "close"};
  return {};
}

WriteResult replaceFile(FileOps &ops, int folder, const char *name,
                        llvm::StringRef bytes,
                        llvm::function_ref<bool()> mayReplace) {
  std::string temporary;
  int fd = createTemporary(ops, folder, temporary);
  if (fd < 0)
    return {errno, "create"};
  // Tells others, while it is open, that its writer lives. Nothing fails for
  // want of it.
  ops.tryLock(fd, kWriterLockOffset);

  WriteResult result = finishTemporary(ops, ScopedFd(ops, fd), bytes);
  if (result.ok() && mayReplace && !mayReplace())
    result = {ECANCELED, "compare"};
  if (result.ok() && retryInterrupted([&] {
                       return ops.rename(folder, temporary.c_str(), name);
                     }) < 0)
    result = {errno, "rename"};
  if (!result.ok()) {
    retryInterrupted([&] { return ops.unlink(folder, temporary.c_str()); });
    return result;
  }

  // Some network file systems know no fsync of a folder.
  if (retryInterrupted([&] { return ops.sync(folder); }) < 0 &&
      errno != EINVAL && errno != ENOTSUP)
    return {errno, "sync folder"};
  return {};
}

} // namespace kiln
