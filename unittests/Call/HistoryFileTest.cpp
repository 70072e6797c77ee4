// Files with the requests of engines: reading, appending by several writers,
// and disks that fail.
#include "Call/HistoryFile.h"

#include "Support/Error.h"
#include "Support/FaultyFileOps.h"
#include "Support/TemporaryFolder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace kiln;
using kiln::testing::FaultyFileOps;
using kiln::testing::readBytes;
using kiln::testing::TemporaryFolder;
using kiln::testing::writeBytes;

static const std::string kHead = "kiln_history 1\n";

static HistoryAppend append(const std::string &path,
                            const std::vector<std::string> &lines) {
  return appendHistory(FileOps::system(), path, lines);
}

TEST_CASE("a history has each line once, whoever appends it") {
  TemporaryFolder folder;
  const std::string path = folder / "history";
  CHECK(append(path, {"a x=1", "b x=2; m=1..8", "a x=1"}).added == 2);
  CHECK(readBytes(path) == kHead + "a x=1\nb x=2; m=1..8\n");
  CHECK(append(path, {"b x=2; m=1..8", "c"}).added == 1);
  CHECK(append(path, {"c"}).added == 0);
  CHECK(readBytes(path) == kHead + "a x=1\nb x=2; m=1..8\nc\n");
  auto history = History::read(path);
  REQUIRE(static_cast<bool>(history));
  CHECK(history->requests.size() == 3);
  CHECK(history->requests[1].ranges[0].last == 8);
  CHECK(history->skipped.empty());
}

TEST_CASE("processes and threads that append at once lose no line") {
  TemporaryFolder folder;
  const std::string path = folder / "history";
  constexpr int kWriters = 4, kLines = 40;
  auto work = [&](int writer) {
    for (int i = 0; i < kLines; ++i)
      while (append(path, {fmt::format("own w={} i={}", writer, i),
                           fmt::format("shared i={}", i)})
                 .isBusy)
        ;
  };
  std::vector<pid_t> children;
  for (int writer = 0; writer < kWriters; ++writer)
    if (const pid_t child = ::fork(); child == 0) {
      work(writer);
      ::_exit(0);
    } else {
      children.push_back(child);
    }
  std::thread thread([&] { work(kWriters); });
  work(kWriters + 1);
  thread.join();
  for (pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  auto history = History::read(path);
  REQUIRE(static_cast<bool>(history));
  CHECK(history->requests.size() == (kWriters + 2) * kLines + kLines);
  CHECK(history->skipped.empty());
}

TEST_CASE("damaged lines are skipped and told, the others are read") {
  auto history = History::parse(
      kHead + "a x=1\n\x01\x02; m=1\n\n; m=1..2\nb; m=1..8\nc d", "h");
  REQUIRE(static_cast<bool>(history));
  CHECK(history->requests.size() == 2);
  REQUIRE(history->skipped.size() == 3);
  CHECK(history->skipped[0].find("h:3: 'm=1' is not a range") == 0);
  CHECK(history->skipped[1].find("h:5: ") == 0);
  CHECK(history->skipped[2] == "h:7: the line has no end");
  CHECK(History::parse("", "h")->requests.empty());
}

TEST_CASE("what is no history is neither read nor changed") {
  TemporaryFolder folder;
  const std::string path = folder / "notes";
  for (const char *text : {"notes of mine\n", "notes", "kiln_history x\n",
                           "kiln_history 0\n", "kiln_history 2\na\n", "\n"}) {
    CAPTURE(text);
    writeBytes(path, text);
    CHECK_FALSE(append(path, {"a"}).failure.empty());
    CHECK(readBytes(path) == text);
    auto history = History::read(path);
    CHECK_FALSE(static_cast<bool>(history));
    llvm::consumeError(history.takeError());
  }
  const std::string pipe = folder / "pipe", link = folder / "link";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  REQUIRE(::symlink((folder / "target").c_str(), link.c_str()) == 0);
  for (const std::string &other : {pipe, link, folder.path})
    CHECK_FALSE(append(other, {"a"}).failure.empty());
  CHECK_FALSE(std::filesystem::exists(folder / "target"));
}

TEST_CASE("a line that a dead writer left is replaced") {
  TemporaryFolder folder;
  const std::string path = folder / "history";
  writeBytes(path, kHead + "a\nb x=1 and much more of a line that was cut");
  CHECK(append(path, {"c"}).added == 1);
  CHECK(readBytes(path) == kHead + "a\nc\n");
}

TEST_CASE("a head line that a dead writer left is replaced") {
  TemporaryFolder folder;
  const std::string path = folder / "history";
  for (const char *torn : {"k", "kiln_histo", "kiln_history 1"}) {
    CAPTURE(torn);
    writeBytes(path, torn);
    auto history = History::read(path);
    REQUIRE(static_cast<bool>(history));
    CHECK(history->requests.empty());
    CHECK(history->skipped.size() == 1);
    CHECK(append(path, {"c"}).added == 1);
    CHECK(readBytes(path) == kHead + "c\n");
  }
}

namespace {
/// Another process replaces the file once it is open.
class ReplacedFile : public FileOps {
public:
  explicit ReplacedFile(std::string path) : path(std::move(path)) {}
  int open(int folder, const char *name, int flags, mode_t mode) override {
    const int fd = FileOps::open(folder, name, flags, mode);
    if (times-- > 0)
      std::filesystem::remove(path);
    return fd;
  }
  int times = 1;

private:
  std::string path;
};
} // namespace

TEST_CASE("lines go to the file that has the name") {
  TemporaryFolder folder;
  const std::string path = folder / "history";
  append(path, {"a"});
  ReplacedFile ops(path);
  const HistoryAppend outcome = appendHistory(ops, path, {"b"});
  CHECK(outcome.added == 1);
  CHECK(outcome.isNew);
  CHECK(readBytes(path) == kHead + "b\n");
  CHECK_FALSE(append(path, {"c"}).isNew);
  ops.times = 1000;
  CHECK(appendHistory(ops, path, {"d"}).isBusy);
}

TEST_CASE("a shared history is a plain file of a trusted owner") {
  TemporaryFolder folder;
  const auto refusalOf = [](const std::string &path) {
    auto history = History::readShared(path);
    return history ? "" : summarize(history.takeError()).message;
  };
  const std::string path = folder / "history", pipe = folder / "pipe",
                    link = folder / "link";
  CHECK(History::readShared(path)->requests.empty());
  append(path, {"a"});
  CHECK(History::readShared(path)->requests.size() == 1);
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  REQUIRE(::symlink(path.c_str(), link.c_str()) == 0);
  for (const std::string &other : {pipe, link, folder.path, path + "/below"}) {
    CAPTURE(other);
    CHECK_FALSE(refusalOf(other).empty());
  }
  if (::geteuid() != 0) // only root makes files of others
    return;
  constexpr uid_t kOther = 12345;
  REQUIRE(::chown(path.c_str(), kOther, kOther) == 0);
  CHECK(refusalOf(path).empty());
  CHECK(append(path, {"b"}).added == 1);
  REQUIRE(::chmod(path.c_str(), 0666) == 0);
  CHECK(refusalOf(path).find("another user") != std::string::npos);
  CHECK_FALSE(append(path, {"c"}).failure.empty());
  REQUIRE(::chmod(path.c_str(), 0644) == 0);
  REQUIRE(::chmod(folder.path.c_str(), 01777) == 0);
  CHECK(refusalOf(path).find("another user") != std::string::npos);
  CHECK_FALSE(append(path, {"c"}).failure.empty());
}

TEST_CASE("a history is bounded") {
  TemporaryFolder folder;
  const std::string path = folder / "history";
  std::vector<std::string> lines;
  for (size_t i = 0; i < kMostHistoryLines + 10; ++i)
    lines.push_back(fmt::format("p i={}", i));
  const HistoryAppend outcome = append(path, lines);
  CHECK(outcome.added == kMostHistoryLines);
  CHECK(outcome.leftOut == 10);
  CHECK(append(path, {"another"}).leftOut == 1);
  auto history = History::read(path);
  REQUIRE(static_cast<bool>(history));
  CHECK(history->requests.size() == kMostHistoryLines);
  CHECK(history->skipped.empty());
}

namespace {
/// A disk with room for the first bytes alone.
class FullDisk : public FileOps {
public:
  explicit FullDisk(size_t room) : room(room) {}
  ssize_t writeAt(int fd, const void *from, size_t bytes,
                  off_t offset) override {
    if (room == 0) {
      errno = ENOSPC;
      return -1;
    }
    bytes = std::min(bytes, room);
    room -= bytes;
    return FileOps::writeAt(fd, from, bytes, offset);
  }

private:
  size_t room;
};
} // namespace

TEST_CASE("a full disk leaves the history as it was") {
  TemporaryFolder folder;
  const std::string path = folder / "history";
  append(path, {"a"});
  const std::string before = readBytes(path);
  for (size_t room : {0, 1, 5}) {
    FullDisk disk(room);
    const HistoryAppend outcome = appendHistory(disk, path, {"b c=1"});
    CHECK(outcome.failure == "writing it: No space left on device");
    CHECK(outcome.added == 0);
    CHECK(readBytes(path) == before);
  }
  FullDisk disk(6);
  CHECK(appendHistory(disk, path, {"b c=1"}).added == 1);
}

TEST_CASE("each call that fails leaves a history, with the line or without") {
  TemporaryFolder folder;
  const std::string path = folder / "history";
  const std::string before = kHead + "a\n";
  FaultyFileOps ops;
  constexpr int kMostCalls = 20;
  for (int nth = 1; nth < kMostCalls; ++nth) {
    CAPTURE(nth);
    writeBytes(path, before);
    ops.arm(nth, EIO);
    const HistoryAppend outcome = appendHistory(ops, path, {"b c=1"});
    ops.disarm();
    CHECK(readBytes(path) ==
          before + (outcome.failure.empty() ? "b c=1\n" : ""));
  }
}

TEST_CASE("a folder without the right to write is told") {
  if (::geteuid() == 0) // root may write everywhere
    return;
  TemporaryFolder folder;
  REQUIRE(::chmod(folder.path.c_str(), 0500) == 0);
  CHECK(append(folder / "history", {"a"}).failure.find("opening it") == 0);
  REQUIRE(::chmod(folder.path.c_str(), 0700) == 0);
}
