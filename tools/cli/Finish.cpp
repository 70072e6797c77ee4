//===- Finish.cpp - the end of commands that measure ----------------------===//
#include "cli/Finish.h"

#include "Support/AtomicFile.h"
#include "Support/Error.h"
#include "Support/Json.h"
#include "cli/Console.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kiln::cli {

llvm::Error checkOutput(const std::optional<std::string> &path) {
  if (!path || *path == "-")
    return llvm::Error::success();
  struct stat status {};
  const bool exists = ::stat(path->c_str(), &status) == 0;
  // A pipe is not opened: its reader would see it end.
  if (exists && S_ISFIFO(status.st_mode))
    return ::access(path->c_str(), W_OK) == 0 ? llvm::Error::success()
                                              : makeErrnoError(errno, *path);
  int fd = retryInterrupted([&] {
    return ::open(path->c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  });
  if (fd < 0)
    return makeErrnoError(errno, *path);
  ::close(fd);
  return llvm::Error::success();
}

llvm::Expected<std::string> commitOf(const ParsedOptions &options) {
  std::string commit = options.value("--commit").value_or("");
  if (commit.empty() && options.has("--out"))
    return makeError(ErrorCode::InvalidArgument,
                     "--out needs --commit, the commit that is measured");
  return commit;
}

int finish(const Report &report, const std::optional<std::string> &out,
           bool asJson, llvm::Error failure, int exitCode) {
  ErrorSummary error;
  if (failure) {
    error = summarize(std::move(failure));
    printError(error.message);
    exitCode = exitCodeOf(error.code);
  }
  if (out)
    if (llvm::Error unwritten = writeFile(*out, printJson(report.toJson()))) {
      printError(summarize(std::move(unwritten)).message);
      exitCode = exitCode ? exitCode : kExitSomeFailed;
    }
  exitCode = emit(report, asJson, exitCode);
  if (error.code == ErrorCode::InProgress ||
      error.code == ErrorCode::ContextDead)
    ::_exit(exitCode);
  return exitCode;
}

} // namespace kiln::cli
