// Texts and files from outside.
#include "Support/Error.h"
#include "Support/Json.h"
#include "Support/Printable.h"
#include "Support/ReadFile.h"
#include "Support/TemporaryFolder.h"

#include <doctest/doctest.h>

#include <csignal>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace kiln;
using kiln::testing::TemporaryFolder;
using kiln::testing::writeBytes;

TEST_CASE("F18: text that steers a terminal is shown as its bytes") {
  CHECK(printable("gemm m=1 \xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82") ==
        "gemm m=1 \xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82");
  CHECK(printable("a\x1b[2J\nb\r\t") == "a\\x1b[2J\\x0ab\\x0d\\x09");
  CHECK(printable(llvm::StringRef("\0\x7f", 2)) == "\\x00\\x7f");
  CHECK(printable("\xc2\x9b") == "\\xc2\\x9b");          // C1
  CHECK(printable("\xe2\x80\xae") == "\\xe2\\x80\\xae"); // right to left
  // Not UTF-8: a lone byte, one cut short, one too long, a surrogate.
  CHECK(printable("\x9b\xff") == "\\x9b\\xff");
  CHECK(printable("\xe2\x82") == "\\xe2\\x82");
  CHECK(printable("\xc0\x8a") == "\\xc0\\x8a");
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");
  CHECK(printableLines("a\n\x1b\n\nb") == "a\n\\x1b\n\nb");
}

static std::string refusalOf(const std::string &path, uint64_t maxBytes) {
  auto text = readNamedFile(path, maxBytes);
  if (text)
    return "";
  ErrorSummary error = summarize(text.takeError());
  CHECK(error.code == ErrorCode::InvalidArgument);
  CHECK(error.message.rfind(path + ": ", 0) == 0);
  return error.message;
}

TEST_CASE("a file that only says that it is plain is not waited for") {
  const std::string log = "/proc/kmsg"; // waits for the kernel's next message
  if (::access(log.c_str(), R_OK) != 0)
    return;
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    llvm::consumeError(readNamedFile(log, 1 << 20).takeError());
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
}

TEST_CASE("F18: plain files and pipes are read, up to a limit") {
  TemporaryFolder folder;
  const std::string file = folder / "file", fifo = folder / "fifo";
  writeBytes(file, std::string(3 << 20, 'x'));
  CHECK(llvm::cantFail(readNamedFile(file, 3 << 20)).size() == 3 << 20);
  CHECK(!refusalOf(file, (3 << 20) - 1).empty());
  CHECK(llvm::cantFail(readNamedFile("/proc/self/status", 1 << 20)).size() > 0);
  for (const std::string &path :
       {folder.path, std::string("/dev/zero"), folder / "missing"})
    CHECK(!refusalOf(path, 1 << 20).empty());

  // More than one read of a pipe, and one that says no size and does not end.
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  auto readPipe = [&](size_t written, uint64_t maxBytes) {
    std::thread writer([&] {
      int fd = ::open(fifo.c_str(), O_WRONLY);
      std::string bytes(written, 'y');
      for (size_t at = 0; at < bytes.size();) {
        ssize_t count = ::write(fd, bytes.data() + at, bytes.size() - at);
        if (count < 0)
          break; // the reader has had enough
        at += static_cast<size_t>(count);
      }
      ::close(fd);
    });
    auto text = readNamedFile(fifo, maxBytes);
    writer.join();
    bool isRead = static_cast<bool>(text);
    size_t bytes = isRead ? text->size() : 0;
    llvm::consumeError(text.takeError());
    return bytes;
  };
  auto previous = std::signal(SIGPIPE, SIG_IGN);
  CHECK(readPipe(300000, 1 << 20) == 300000);
  CHECK(readPipe(3 << 20, 1 << 20) == 0);
  std::signal(SIGPIPE, previous);
}

TEST_CASE("a file of any length is read in pieces") {
  TemporaryFolder folder;
  const std::string file = folder / "file";
  for (size_t bytes : {size_t(0), size_t(1) << 20, (size_t(2) << 20) + 5}) {
    std::string written(bytes, 'x'), seen;
    for (size_t at = 0; at < bytes; at += 4099)
      written[at] = char('a' + at % 26);
    writeBytes(file, written);
    llvm::cantFail(readNamedPieces(file, [&](llvm::StringRef piece) {
      CHECK(piece.size() <= size_t(1) << 20);
      seen += piece;
    }));
    CHECK(seen == written);
  }
  CHECK(
      summarize(readNamedPieces("/dev/zero", [](llvm::StringRef) {
      })).message.find("neither a plain file nor a pipe") != std::string::npos);
}

TEST_CASE("F18: a key that is there twice is found") {
  TemporaryFolder folder;
  const std::string path = folder / "some.json";
  auto messageOf = [&](const std::string &json) {
    writeBytes(path, json);
    auto value = readJsonFile(path);
    return value ? std::string() : summarize(value.takeError()).message;
  };
  CHECK(messageOf(R"({"a": {"b": 1, "c": "b"}, "b": [{"a": 1}, {"a": 2}]})")
            .empty());
  CHECK(
      messageOf(R"({"a": ["a", "a", "\"a\": 1"], "b\\": 1, "b": 2})").empty());
  CHECK(messageOf(R"({"a": 1, "b": 2, "a" : 3})").find("'a' is there twice") !=
        std::string::npos);
  CHECK(messageOf(R"([{"x": {"k": 1, "\u006b": 2}}])")
            .find("'k' is there twice") != std::string::npos);
  CHECK(messageOf(R"({"a": )").find(path) == 0);
}

TEST_CASE("F18: what is not UTF-8 is made so for JSON") {
  CHECK(jsonText("caf\xc3\xa9") == "caf\xc3\xa9");
  CHECK(llvm::json::isUTF8(jsonText("caf\xe9")));
}
