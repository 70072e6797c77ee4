//===- Console.cpp --------------------------------------------------------===//
#include "cli/Console.h"

#include "Support/AtomicFile.h"
#include "Support/Printable.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <sys/ioctl.h>
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

void prepareStreams() {
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

llvm::Error writeOutput(llvm::StringRef text) {
  int failure = writeAll(STDOUT_FILENO, text);
  if (failure == 0 || failure == EPIPE)
    return llvm::Error::success();
  return makeErrnoError(failure, "standard output");
}

llvm::Error writeFile(const std::string &path, llvm::StringRef text) {
  if (path == "-")
    return writeOutput(text);
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
  // Where stderr cannot be written there is nobody to tell.
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
  // Who started us with the signal ignored, as shells do for work in the
  // background, does not want it to end the work.
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
