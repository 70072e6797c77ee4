//===- Console.h - stdout, stderr and exit codes --------------------------===//
#pragma once

#include "Support/Error.h"

#include <llvm/ADT/StringRef.h>
#include <llvm/ADT/Twine.h>
#include <llvm/Support/Error.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>

namespace kiln::cli {

/// Exit codes, for scripts.
inline constexpr int kExitDone = 0;
inline constexpr int kExitSomeFailed = 1;
inline constexpr int kExitBadInput = 2;
inline constexpr int kExitNoDevice = 3; ///< no GPU, driver or NVRTC

/// The exit code of a command that ended with \p code.
int exitCodeOf(ErrorCode code);

/// Before anything else: makes descriptors 0 to 2 exist, so that no file of the
/// cache becomes stdout, and ignores SIGPIPE and SIGXFSZ, so that neither a
/// closed pipe nor a limit of file sizes kills work in progress. If stdout was
/// closed, writeOutput() fails.
void prepareStreams();

/// How lines on stderr and help call the program; "kiln" unless it is set.
/// \p name must live for ever.
void setToolName(const char *name);
const char *toolName();

/// Formats `errno` as "what: No such file or directory" with code Io.
llvm::Error makeErrnoError(int errnoValue, const llvm::Twine &what);

/// Writes all of \p text to stdout. A closed pipe is not an error. Errors: Io.
llvm::Error writeOutput(llvm::StringRef text);

/// Replaces the file \p path with \p text; "-" is stdout. A plain file, even
/// behind a link, holds the whole old text or the whole new one, whatever
/// happens; it keeps its mode. Pipes and devices are written in place, and so
/// is a file in a folder that takes no new files. Errors: Io.
llvm::Error writeFile(const std::string &path, llvm::StringRef text);

/// As above for a file in \p folder, which exists. Kiln makes up its name, so
/// whatever lies there under that name is replaced itself, even a link of
/// others.
llvm::Error writeFileIn(const std::string &folder, const std::string &name,
                        llvm::StringRef text);

/// One line on stderr, such as "kiln: error: ..." or "kiln: warning: ...".
void printError(llvm::StringRef message);
void printWarning(llvm::StringRef message);

/// \p text with each run of line breaks replaced by "; ", and the rest as
/// printable() shows it.
std::string onOneLine(llvm::StringRef text);

/// A line on stderr that shows how far work is, on a terminal only; erased on
/// destruction. For one thread.
class ProgressBar {
public:
  explicit ProgressBar(std::string title);
  ~ProgressBar();
  ProgressBar(const ProgressBar &) = delete;
  ProgressBar &operator=(const ProgressBar &) = delete;

  /// Redraws at most ten times a second, and when \p done is \p total.
  void update(size_t done, size_t total, llvm::StringRef text = "");

private:
  std::string title;
  bool enabled;
  std::chrono::steady_clock::time_point start, drawn;
};

/// Whether an InterruptGuard has seen a signal; valid for ever.
const std::atomic<bool> *interruptFlag();

/// While it lives the first SIGINT or SIGTERM only sets a flag, so that the
/// work done so far is kept; the second one kills. A signal that was ignored
/// stays ignored. One at a time.
class InterruptGuard {
public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard &) = delete;
  InterruptGuard &operator=(const InterruptGuard &) = delete;

  const std::atomic<bool> *flag() const { return interruptFlag(); }
};

} // namespace kiln::cli
