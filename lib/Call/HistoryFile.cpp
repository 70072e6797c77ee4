//===- HistoryFile.cpp - the requests of engines in a file ----------------===//
#include "Call/HistoryFile.h"

#include "Support/AtomicFile.h"
#include "Support/Error.h"
#include "Support/OutputPath.h"
#include "Support/Printable.h"
#include "Support/ReadFile.h"

#include <llvm/ADT/StringSet.h>

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

namespace kiln {

static constexpr llvm::StringLiteral kKind = "kiln_history";
static constexpr unsigned kVersion = 1;

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
    if (number == 1) {
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

/// Opens \p path and reads it once its lock is held.
static LockedFile openLocked(FileOps &ops, const std::string &path) {
  constexpr int kFlags =
      O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  LockedFile file;
  const int opened = retryInterrupted(
      [&] { return ops.open(AT_FDCWD, path.c_str(), kFlags, 0644); });
  if (opened < 0)
    return fail("opening it", errno);
  file.fd = ScopedFd(ops, opened);
  struct stat info = {};
  if (ops.status(opened, info) != 0)
    return fail("looking at it", errno);
  if (!S_ISREG(info.st_mode))
    return fail("it is no plain file", EINVAL);
  if (!awaitLock(ops, opened)) {
    file.isBusy = true;
    return file;
  }
  // No other writer changes its size now.
  if (ops.status(opened, info) != 0)
    return fail("looking at it", errno);
  if (static_cast<uint64_t>(info.st_size) > kMostHistoryBytes)
    return fail("it is too large", EFBIG);
  if (const int failure =
          readUpTo(ops, opened, static_cast<uint64_t>(info.st_size), file.text))
    return fail("reading it", failure);
  file.text.resize(file.text.rfind('\n') + 1); // npos + 1 is 0
  if (!file.text.empty())
    file.failure = judgeHead(llvm::StringRef(file.text).split('\n').first);
  else if (info.st_size > 0)
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
  if (count == 0) {
    added = fmt::format("{} {}\n", kKind.str(), kVersion);
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
