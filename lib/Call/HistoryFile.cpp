//===- HistoryFile.cpp - the requests of engines in a file ----------------===//
#include "Call/HistoryFile.h"

#include "Support/AtomicFile.h"
#include "Support/Error.h"
#include "Support/OutputPath.h"
#include "Support/Printable.h"
#include "Support/ReadFile.h"

#include <llvm/ADT/StringSet.h>
#include <llvm/Support/Path.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

namespace kiln {

static constexpr llvm::StringLiteral kKind = "kiln_history";
static constexpr unsigned kVersion = 1;

static std::string headLine() {
  return fmt::format("{} {}\n", kKind.str(), kVersion);
}

/// Whether \p text is what a writer that died left of the head line.
static bool isTornHead(llvm::StringRef text) {
  return llvm::StringRef(headLine()).starts_with(text);
}

/// The reason why \p head is not the first line of a history; empty if it is.
static std::string judgeHead(llvm::StringRef head) {
  auto [kind, version] = head.split(' ');
  unsigned number = 0;
  if (kind != kKind || version.getAsInteger(10, number) || number == 0)
    return fmt::format("it is no history: the first line is not \"{} {}\"",
                       kKind.str(), kVersion);
  if (number > kVersion)
    return fmt::format("it is a history of version {}, this Kiln knows {}",
                       number, kVersion);
  return "";
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

llvm::Expected<History> History::parse(llvm::StringRef text,
                                       llvm::StringRef path) {
  History history;
  for (size_t number = 1; !text.empty(); ++number) {
    const bool isWhole = text.contains('\n');
    auto [line, rest] = text.split('\n');
    text = rest;
    auto skip = [&](const std::string &reason) {
      history.skipped.push_back(
          fmt::format("{}:{}: {}", path.str(), number, reason));
    };
    if (number == 1 && !isWhole && isTornHead(line)) {
      skip("the line has no end");
    } else if (number == 1) {
      if (std::string reason = judgeHead(line); !reason.empty())
        return makeError(ErrorCode::InvalidArgument, "{}: {}", path.str(),
                         reason);
    } else if (!isWhole) {
      skip("the line has no end");
    } else if (number > kMostHistoryLines + 1) {
      skip(fmt::format("lines beyond {} are not read", kMostHistoryLines));
      break;
    } else if (line.trim().empty()) {
      continue;
    } else if (auto request = ProblemLine::parse(line)) {
      history.requests.push_back(std::move(*request));
    } else {
      skip(printable(summarize(request.takeError()).message));
    }
  }
  return history;
}

llvm::Expected<History> History::read(const std::string &path) {
  auto text = readNamedFile(path, kMostHistoryBytes);
  if (!text)
    return text.takeError();
  return parse(*text, path);
}

/// The flags of all opens: nothing blocks.
static constexpr int kOpenFlags =
    O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;

/// Whether any user may make files in the folder of \p path.
static bool isInOpenFolder(const std::string &path) {
  const llvm::StringRef folder = llvm::sys::path::parent_path(path);
  struct stat info = {};
  return ::stat(folder.empty() ? "." : folder.str().c_str(), &info) == 0 &&
         (info.st_mode & S_IWOTH);
}

/// The reason why the open file \p info at \p path is not one that engines
/// share; empty if it is.
static std::string judgeFile(const std::string &path, const struct stat &info) {
  if (!S_ISREG(info.st_mode))
    return "it is no plain file";
  const bool isOthers = info.st_uid != 0 && info.st_uid != ::geteuid();
  if (isOthers && ((info.st_mode & S_IWOTH) || isInOpenFolder(path)))
    return "it belongs to another user, and any user may write to it or to its "
           "folder";
  if (static_cast<uint64_t>(info.st_size) > kMostHistoryBytes)
    return "it is too large";
  return "";
}

llvm::Expected<History> History::readShared(const std::string &path) {
  FileOps &ops = FileOps::system();
  const auto refuse = [&path](const std::string &reason) {
    return makeError(ErrorCode::InvalidArgument, "{}: {}", path, reason);
  };
  const ScopedFd fd(ops, retryInterrupted([&] {
                      return ops.open(AT_FDCWD, path.c_str(),
                                      O_RDONLY | kOpenFlags, 0);
                    }));
  if (!fd && errno == ENOENT)
    return History();
  struct stat info = {};
  if (!fd || ops.status(fd.get(), info) != 0)
    return refuse(std::strerror(errno));
  if (const std::string reason = judgeFile(path, info); !reason.empty())
    return refuse(reason);
  std::string text;
  if (const int failure =
          readUpTo(ops, fd.get(), static_cast<uint64_t>(info.st_size), text))
    return refuse(std::strerror(failure));
  return parse(text, path);
}

//===----------------------------------------------------------------------===//
// Appending
//===----------------------------------------------------------------------===//

namespace {

/// The file under its lock.
struct LockedFile {
  ScopedFd fd;
  std::string text; ///< its whole lines
  bool isBusy = false;
  std::string failure;
};

} // namespace

static bool awaitLock(FileOps &ops, int fd) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    if (ops.tryLock(fd, kWriterLockOffset) == 0)
      return true;
    if (errno != EAGAIN && errno != EACCES)
      return true; // a file system without locks
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

static LockedFile fail(const char *doing, int errnoValue) {
  LockedFile file;
  file.failure = fmt::format("{}: {}", doing, std::strerror(errnoValue));
  return file;
}

/// Opens \p path and takes its lock. No other writer changes its size then.
static LockedFile lock(FileOps &ops, const std::string &path,
                       struct stat &info) {
  LockedFile file;
  const int opened = retryInterrupted([&] {
    return ops.open(AT_FDCWD, path.c_str(), O_RDWR | O_CREAT | kOpenFlags,
                    0644);
  });
  if (opened < 0)
    return fail("opening it", errno);
  file.fd = ScopedFd(ops, opened);
  if (ops.status(opened, info) != 0)
    return fail("looking at it", errno);
  file.failure = judgeFile(path, info);
  if (!file.failure.empty())
    return file;
  file.isBusy = !awaitLock(ops, opened);
  if (!file.isBusy && ops.status(opened, info) != 0)
    return fail("looking at it", errno);
  return file;
}

/// Locks the file that \p path leads to and reads it.
static LockedFile openLocked(FileOps &ops, const std::string &path) {
  constexpr int kAttempts = 16;
  LockedFile file;
  struct stat info = {};
  for (int i = 0; i < kAttempts; ++i) {
    file = lock(ops, path, info);
    if (file.isBusy || !file.failure.empty())
      return file;
    if (isAt(ops, path, info))
      break;
    file = LockedFile(); // unlocks it, for the next attempt
    file.isBusy = true;  // deleted or replaced, again and again
  }
  if (file.isBusy)
    return file;
  if (const int failure = readUpTo(
          ops, file.fd.get(), static_cast<uint64_t>(info.st_size), file.text))
    return fail("reading it", failure);
  const bool isTorn = isTornHead(file.text);
  file.text.resize(file.text.rfind('\n') + 1); // npos + 1 is 0
  if (!file.text.empty())
    file.failure = judgeHead(llvm::StringRef(file.text).split('\n').first);
  else if (!isTorn)
    file.failure = "it is no history";
  return file;
}

HistoryAppend appendHistory(FileOps &ops, const std::string &path,
                            llvm::ArrayRef<std::string> lines) {
  HistoryAppend outcome;
  const LockedFile file = openLocked(ops, path);
  outcome.isBusy = file.isBusy;
  outcome.failure = file.failure;
  if (file.isBusy || !file.failure.empty())
    return outcome;
  llvm::StringSet<> known;
  size_t count = 0;
  for (llvm::StringRef rest = file.text; !rest.empty(); ++count) {
    auto [line, behind] = rest.split('\n');
    known.insert(line);
    rest = behind;
  }
  std::string added;
  outcome.isNew = count <= 1;
  if (count == 0) {
    added = headLine();
    ++count;
  }
  for (const std::string &line : lines) {
    if (!known.insert(line).second)
      continue;
    if (count++ > kMostHistoryLines) {
      ++outcome.leftOut;
      continue;
    }
    added += line + '\n';
    ++outcome.added;
  }
  const auto end = static_cast<off_t>(file.text.size());
  int failure = writeAllAt(ops, file.fd.get(), added, end);
  // The line that a dead writer left may be longer than the new ones.
  const off_t size = failure ? end : end + static_cast<off_t>(added.size());
  if (ops.truncate(file.fd.get(), size) != 0 && !failure)
    failure = errno;
  if (failure) {
    outcome.added = 0;
    outcome.failure = fmt::format("writing it: {}", std::strerror(failure));
  }
  return outcome;
}

} // namespace kiln
