#include "Support/AtomicFile.h"

#include "Support/FaultyFileOps.h"
#include "Support/TemporaryFolder.h"

#include <doctest/doctest.h>
#include <set>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

using namespace kiln;
using namespace kiln::testing;

namespace {
/// An open folder to work in.
struct Fixture {
  TemporaryFolder folder;
  FaultyFileOps ops;
  ScopedFd fd{FileOps::system(),
              ::open(folder.path.c_str(), O_RDONLY | O_DIRECTORY)};

  ReadStatus statusOf(const char *name, ReadRules rules = {}) {
    return openChecked(ops, fd.get(), name, rules).status;
  }
};
} // namespace

TEST_CASE_FIXTURE(Fixture, "a file is replaced and read back") {
  REQUIRE(fd);
  for (std::string bytes : {std::string("first"), std::string(),
                            std::string(300000, 'x'), std::string("\0\1", 2)}) {
    REQUIRE(replaceFile(ops, fd.get(), "file", bytes).ok());
    CheckedFile file = openChecked(ops, fd.get(), "file", {});
    REQUIRE(file.status == ReadStatus::Ok);
    CHECK((file.info.st_mode & 07777) == 0600);
    std::string read;
    CHECK(readUpTo(ops, file.fd.get(), bytes.size(), read) == 0);
    CHECK(read == bytes);
  }
  CHECK(filesIn(folder.path).size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "fault 11: short transfers and an early end") {
  ops.shortTransfers = true;
  REQUIRE(replaceFile(ops, fd.get(), "file", "a hundred bytes or so").ok());
  CHECK(readBytes(folder / "file") == "a hundred bytes or so");
  CheckedFile file = openChecked(ops, fd.get(), "file", {});
  std::string read = "kept ";
  CHECK(readUpTo(ops, file.fd.get(), 1000, read) == 0);
  CHECK(read == "kept a hundred bytes or so");
}

TEST_CASE_FIXTURE(Fixture, "fault 12: whichever call fails, the name holds the "
                           "old or the new bytes") {
  for (int error : {ENOSPC, EDQUOT, EIO, EROFS, EACCES, EMFILE, EINTR})
    for (bool sticky : {false, true})
      for (int nth = 1;; ++nth) {
        REQUIRE(replaceFile(FileOps::system(), fd.get(), "file", "old").ok());
        ops.arm(nth, error, sticky);
        WriteResult result = replaceFile(ops, fd.get(), "file", "new");
        bool reached = ops.calls >= nth;
        ops.disarm();
        CAPTURE(error);
        CAPTURE(nth);
        CAPTURE(sticky);
        std::string now = readBytes(folder / "file");
        if (result.ok() || std::string_view(result.step) == "sync folder")
          CHECK(now == "new");
        else
          CHECK(now == "old");
        // The second call locks the temporary file, for others alone.
        if (!reached || nth == 2 || (error == EINTR && !sticky))
          CHECK(result.ok());
        else if (error != EINTR)
          CHECK(result.errnoValue == error);
        CHECK(filesIn(folder.path).size() == 1);
        if (!reached)
          break;
      }
}

TEST_CASE_FIXTURE(Fixture, "fault 8: only plain files are opened, at once") {
  writeBytes(folder / "file", "bytes");
  ::mkdir((folder / "folder").c_str(), 0700);
  ::symlink("file", (folder / "link").c_str());
  ::mkfifo((folder / "fifo").c_str(), 0600);
  int server = ::socket(AF_UNIX, SOCK_STREAM, 0);
  struct sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  (folder / "socket").copy(address.sun_path, sizeof address.sun_path - 1);
  ::bind(server, reinterpret_cast<struct sockaddr *>(&address), sizeof address);
  CHECK(statusOf("file") == ReadStatus::Ok);
  CHECK(statusOf("missing") == ReadStatus::Missing);
  CHECK(statusOf("file/below") == ReadStatus::Missing);
  CHECK(statusOf("folder") == ReadStatus::NotRegular);
  CHECK(statusOf("link") == ReadStatus::NotRegular);
  CHECK(statusOf("fifo") == ReadStatus::NotRegular);
  CHECK(statusOf("socket") == ReadStatus::NotRegular);
  CHECK(openChecked(ops, AT_FDCWD, "/dev/null", {.rootMayOwn = true}).status ==
        ReadStatus::NotRegular);
  ::close(server);
}

TEST_CASE_FIXTURE(Fixture, "fault 9: owner, mode and size are checked") {
  writeBytes(folder / "file", "bytes");
  ::chmod((folder / "file").c_str(), 0620);
  CHECK(statusOf("file") == ReadStatus::WrongMode);
  ::chmod((folder / "file").c_str(), 0602);
  CHECK(statusOf("file") == ReadStatus::WrongMode);
  ::chmod((folder / "file").c_str(), 0644);
  CHECK(statusOf("file") == ReadStatus::Ok);
  CHECK(statusOf("file", {.maxBytes = 4}) == ReadStatus::TooLarge);
  if (::geteuid() == 0) {
    REQUIRE(::chown((folder / "file").c_str(), 12345, 12345) == 0);
    CHECK(statusOf("file", {.rootMayOwn = true}) == ReadStatus::WrongOwner);
  } else {
    CHECK(openChecked(ops, AT_FDCWD, "/etc/passwd", {}).status ==
          ReadStatus::WrongOwner);
  }
}

TEST_CASE_FIXTURE(Fixture, "links and FIFOs are replaced, not followed") {
  writeBytes(folder / "target", "precious");
  ::symlink("target", (folder / "link").c_str());
  ::mkfifo((folder / "fifo").c_str(), 0600);
  REQUIRE(replaceFile(ops, fd.get(), "link", "new").ok());
  REQUIRE(replaceFile(ops, fd.get(), "fifo", "new").ok());
  CHECK(readBytes(folder / "target") == "precious");
  CHECK(statusOf("link") == ReadStatus::Ok);
  CHECK(statusOf("fifo") == ReadStatus::Ok);
}

TEST_CASE("temporary names are short, plain and never the same") {
  std::set<std::string> names;
  for (int i = 0; i < 1000; ++i)
    names.insert(temporaryName());
  CHECK(names.size() == 1000);
  for (const std::string &name : names) {
    CHECK(name.size() < 100);
    CHECK(llvm::StringRef(name).starts_with(kTemporaryPrefix));
    CHECK(name.find('/') == std::string::npos);
  }
}

TEST_CASE_FIXTURE(Fixture, "a rewritten file has another identity") {
  auto identify = [&] {
    struct stat info = {};
    REQUIRE(ops.statusAt(fd.get(), "file", info) == 0);
    return FileIdentity::of(info);
  };
  REQUIRE(replaceFile(ops, fd.get(), "file", "one").ok());
  FileIdentity first = identify();
  CHECK(identify() == first);
  REQUIRE(replaceFile(ops, fd.get(), "file", "two").ok());
  CHECK(identify() != first);
}
