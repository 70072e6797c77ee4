//===- Console.cpp --------------------------------------------------------===//
#include "cli/Console.h"

#include "Support/AtomicFile.h"
#include "Support/Printable.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/Path.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kiln::cli {

int exitCodeOf(ErrorCode code) {
  switch (code) {
  case ErrorCode::Success:
    return kExitDone;
  case ErrorCode::InvalidArgument:
  case ErrorCode::Unsupported:
  case ErrorCode::NoCandidate:
  case ErrorCode::Io:
    return kExitBadInput;
  case ErrorCode::DriverMissing:
  case ErrorCode::DriverTooOld:
  case ErrorCode::CompilerMissing:
    return kExitNoDevice;
  default:
    return kExitSomeFailed;
  }
}

static bool stdoutWasClosed = false;

void prepareStreams() {
  stdoutWasClosed = ::fcntl(STDOUT_FILENO, F_GETFD) < 0;
  for (int fd : {0, 1, 2})
    if (::fcntl(fd, F_GETFD) < 0)
      // The lowest free descriptor is the missing one. Should even this fail,
      // nothing can be said to anyone.
      (void)!::open("/dev/null", O_RDWR);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

static const char *programName = "kiln";
void setToolName(const char *name) { programName = name; }
const char *toolName() { return programName; }

/// Returns 0 or an errno.
static int writeAll(int fd, llvm::StringRef text) {
  while (!text.empty()) {
    ssize_t written =
        retryInterrupted([&] { return ::write(fd, text.data(), text.size()); });
    if (written < 0)
      return errno;
    text = text.drop_front(static_cast<size_t>(written));
  }
  return 0;
}

llvm::Error makeErrnoError(int errnoValue, const llvm::Twine &what) {
  return makeError(ErrorCode::Io, "{}: {}", what.str(),
                   std::strerror(errnoValue));
}

llvm::Error writeOutput(llvm::StringRef text) {
  int failure = stdoutWasClosed ? EBADF : writeAll(STDOUT_FILENO, text);
  if (failure == 0 || failure == EPIPE)
    return llvm::Error::success();
  return makeErrnoError(failure, "standard output");
}

/// Writes into what \p path names, whatever it is.
static llvm::Error writeInPlace(const std::string &path, llvm::StringRef text) {
  int fd = retryInterrupted([&] {
    return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  });
  if (fd < 0)
    return makeErrnoError(errno, path);
  int failure = writeAll(fd, text);
  if (::close(fd) != 0 && failure == 0)
    failure = errno;
  return failure ? makeErrnoError(failure, path) : llvm::Error::success();
}

/// The mode of a new file. Threads that create files meanwhile would see
/// another mask, so it is asked for once.
static mode_t modeOfNewFiles() {
  static const mode_t mode = [] {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    return static_cast<mode_t>(0666 & ~mask);
  }();
  return mode;
}

/// Replaces \p name in \p folder. \p mayBeInPlace: where the folder takes no
/// new file, the old one may still be written.
static llvm::Error replaceIn(const std::string &folder, const std::string &name,
                             llvm::StringRef text, bool mayBeInPlace) {
  const std::string path = folder + "/" + name;
  FileOps &ops = FileOps::system();
  ScopedFd place(ops, retryInterrupted([&] {
                   return ::open(folder.c_str(),
                                 O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                 }));
  if (!place)
    return mayBeInPlace ? writeInPlace(path, text)
                        : makeErrnoError(errno, path);
  struct stat before = {};
  const bool isThere =
      ::fstatat(place.get(), name.c_str(), &before, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISREG(before.st_mode);
  const WriteResult written = replaceFile(ops, place.get(), name.c_str(), text);
  if (!written.ok()) {
    if (mayBeInPlace && llvm::StringRef(written.step) == "create")
      return writeInPlace(path, text);
    return makeErrnoError(written.errnoValue, path);
  }
  const mode_t mode = isThere ? before.st_mode & 07777 : modeOfNewFiles();
  if (::fchmodat(place.get(), name.c_str(), mode, 0) != 0)
    return makeErrnoError(errno, path);
  return llvm::Error::success();
}

llvm::Error writeFile(const std::string &path, llvm::StringRef text) {
  if (path == "-")
    return writeOutput(text);
  struct stat info = {};
  const bool isThere = ::stat(path.c_str(), &info) == 0;
  // These stand for files that others have open.
  const bool isOpenElsewhere = llvm::any_of(
      std::initializer_list<llvm::StringRef>{"/dev/fd/", "/dev/std", "/proc/"},
      [&](llvm::StringRef start) {
        return llvm::StringRef(path).starts_with(start);
      });
  if ((isThere && !S_ISREG(info.st_mode)) || isOpenElsewhere)
    return writeInPlace(path, text);
  llvm::SmallString<256> file(path);
  if (isThere && llvm::sys::fs::real_path(path, file))
    return writeInPlace(path, text);
  if (!isThere && llvm::sys::fs::is_symlink_file(path))
    return writeInPlace(path, text); // its target does not exist yet
  std::string folder = llvm::sys::path::parent_path(file).str();
  return replaceIn(folder.empty() ? "." : folder,
                   llvm::sys::path::filename(file).str(), text,
                   /*mayBeInPlace=*/true);
}

llvm::Error writeFileIn(const std::string &folder, const std::string &name,
                        llvm::StringRef text) {
  return replaceIn(folder, name, text, /*mayBeInPlace=*/false);
}

std::string onOneLine(llvm::StringRef text) {
  std::string line;
  for (char c : text.trim())
    if (c != '\n' && c != '\r')
      line += c == '\t' ? ' ' : c;
    else if (!llvm::StringRef(line).ends_with("; "))
      line += "; ";
  return printable(line);
}

static void printLine(llvm::StringRef kind, llvm::StringRef message) {
  // Where stderr cannot be written the failure cannot be reported.
  (void)writeAll(STDERR_FILENO, fmt::format("{}: {}: {}\n", toolName(), kind,
                                            onOneLine(message)));
}

void printError(llvm::StringRef message) { printLine("error", message); }
void printWarning(llvm::StringRef message) { printLine("warning", message); }

//===----------------------------------------------------------------------===//
// Progress
//===----------------------------------------------------------------------===//

static size_t terminalColumns() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  return 80;
}

ProgressBar::ProgressBar(std::string title)
    : title(std::move(title)), enabled(::isatty(STDERR_FILENO)),
      start(std::chrono::steady_clock::now()) {}

ProgressBar::~ProgressBar() {
  if (enabled)
    (void)writeAll(STDERR_FILENO, "\r\x1b[K");
}

void ProgressBar::update(size_t done, size_t total, llvm::StringRef text) {
  if (!enabled || total == 0)
    return;
  auto now = std::chrono::steady_clock::now();
  if (done < total && now - drawn < std::chrono::milliseconds(100))
    return;
  drawn = now;
  constexpr size_t kBarColumns = 24;
  size_t filled = done * kBarColumns / total;
  std::string line = fmt::format(
      "{} [{}{}] {}/{} {:.0f} s {}", title, std::string(filled, '='),
      std::string(kBarColumns - filled, ' '), done, total,
      std::chrono::duration<double>(now - start).count(), printable(text));
  line.resize(std::min(line.size(), terminalColumns() - 1));
  (void)writeAll(STDERR_FILENO, "\r" + line + "\x1b[K");
}

//===----------------------------------------------------------------------===//
// Interrupts
//===----------------------------------------------------------------------===//

static std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free,
              "a signal handler sets it");

static constexpr int kInterrupts[] = {SIGINT, SIGTERM};

static void onInterrupt(int signal) {
  interrupted.store(true);
  std::signal(signal, SIG_DFL);
}

static bool isIgnored(int signal) {
  struct sigaction action = {};
  return ::sigaction(signal, nullptr, &action) == 0 &&
         action.sa_handler == SIG_IGN;
}

InterruptGuard::InterruptGuard() {
  interrupted.store(false);
  // A parent that started us with the signal ignored, as shells do for work in
  // the background, does not want it to end the work.
  for (int signal : kInterrupts)
    if (!isIgnored(signal))
      std::signal(signal, onInterrupt);
}

InterruptGuard::~InterruptGuard() {
  for (int signal : kInterrupts)
    if (!isIgnored(signal))
      std::signal(signal, SIG_DFL);
}

const std::atomic<bool> *interruptFlag() { return &interrupted; }

} // namespace kiln::cli
