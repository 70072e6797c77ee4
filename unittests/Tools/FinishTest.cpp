#include "cli/Finish.h"

#include "Support/TemporaryFolder.h"
#include "cli/Console.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
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

/// The exit code of a process that writes \p path under a limit of no bytes.
static int codeOfFullDisk(const std::string &path) {
  pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    prepareStreams(); // SIGXFSZ is ignored
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_FSIZE, &none);
    llvm::Error error = writeFile(path, "new");
    ::_exit(error ? (llvm::consumeError(std::move(error)), 1) : 0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_CASE("a file that cannot be written keeps what it had") {
  kiln::testing::TemporaryFolder folder;
  const std::string file = folder / "sub/floors.json", link = folder / "link";
  writeBytes(file, "old");
  CHECK(codeOfFullDisk(file) == 1);
  CHECK(readBytes(file) == "old");
  CHECK(kiln::testing::filesIn(folder / "sub").size() == 1);

  // A link of the user's stays, and leads to the new text; modes are kept.
  REQUIRE(::chmod(file.c_str(), 0640) == 0);
  REQUIRE(::symlink("sub/floors.json", link.c_str()) == 0);
  REQUIRE(!writeFile(link, "new"));
  struct stat info = {};
  REQUIRE(::lstat(link.c_str(), &info) == 0);
  CHECK(S_ISLNK(info.st_mode));
  CHECK(readBytes(file) == "new");
  REQUIRE(::stat(file.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0640);
  const mode_t before = ::umask(022);
  ::umask(before);
  REQUIRE(!writeFile(folder / "fresh", "text"));
  REQUIRE(::stat((folder / "fresh").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == (0666 & ~before));
}

TEST_CASE("a name that Kiln makes up follows no link") {
  kiln::testing::TemporaryFolder folder;
  const std::string victim = folder / "victim";
  writeBytes(victim, "precious");
  REQUIRE(::symlink(victim.c_str(), (folder / "unit.cu").c_str()) == 0);
  REQUIRE(!writeFileIn(folder.path, "unit.cu", "text"));
  CHECK(readBytes(victim) == "precious");
  CHECK(readBytes(folder / "unit.cu") == "text");
}
