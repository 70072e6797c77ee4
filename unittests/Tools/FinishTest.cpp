#include "cli/Finish.h"

#include "Support/TemporaryFolder.h"
#include "cli/Console.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace kiln;
using namespace kiln::cli;
using kiln::testing::readBytes;

using kiln::testing::writeBytes;

namespace {

struct SmallReport final : Report {
  void print(llvm::raw_ostream &os) const override { os << "small\n"; }
  llvm::json::Object toJson() const override {
    return llvm::json::Object{{"small", true}};
  }
};

/// Stands for what waits for a device.
struct Waiter {
  ~Waiter() { ::_exit(99); }
};

} // namespace

/// The exit code of a process that ends with \p code; its stdout is \p path.
static int codeOfEnding(ErrorCode code, const std::string &out,
                        const std::string &path) {
  pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(fd, STDOUT_FILENO);
    ::dup2(fd, STDERR_FILENO);
    Waiter waiter;
    (void)finish(SmallReport(), out, true, makeError(code, "it broke"),
                 kExitDone);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_CASE("nothing waits for a device that is lost, and the report is kept") {
  kiln::testing::TemporaryFolder folder;
  const std::string out = folder / "out.json", text = folder / "text";
  for (ErrorCode code : {ErrorCode::ContextDead, ErrorCode::InProgress}) {
    CHECK(codeOfEnding(code, out, text) == kExitSomeFailed);
    CHECK(readBytes(out).find("small") != std::string::npos);
    CHECK(readBytes(text) == "kiln: error: it broke\n" + readBytes(out));
    ::unlink(out.c_str());
  }
  CHECK(codeOfEnding(ErrorCode::CompilerMissing, out, text) == 99);
  CHECK(codeOfEnding(ErrorCode::ContextDead, "/no/such/file", text) ==
        kExitSomeFailed);
  CHECK(readBytes(text).find("small") != std::string::npos);
}

TEST_CASE("asking whether a file can be written keeps what it holds") {
  kiln::testing::TemporaryFolder folder;
  auto isWritable = [](const std::optional<std::string> &path) {
    llvm::Error error = checkOutput(path);
    return !error || summarize(std::move(error)).code != ErrorCode::Io;
  };
  const std::string path = folder / "old.json";
  writeBytes(path, "old");
  CHECK(isWritable(path));
  CHECK(readBytes(path) == "old");
  CHECK(isWritable(folder / "new.json"));
  CHECK(isWritable(std::nullopt));
  CHECK(isWritable("-"));
  CHECK_FALSE(isWritable(folder.path));
  CHECK_FALSE(isWritable(folder / "no/such.json"));
}
