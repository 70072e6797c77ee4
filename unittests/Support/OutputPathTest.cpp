#include "Support/OutputPath.h"
#include "Support/TemporaryFolder.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

using namespace kiln;
using namespace kiln::testing;

TEST_CASE("names of files that a process writes") {
  CHECK(processPath("a-%p-%p.json", "7") == "a-7-7.json");
  CHECK(processPath("plain") == "plain");
  CHECK(processPath("%p") == std::to_string(::getpid()));
  CHECK(numberedPath("a.json", "7") == "a.7.json");
  CHECK(numberedPath("/x.y/a", "7") == "/x.y/a.7");
}

TEST_CASE("a file has one owner, others get names of their own") {
  TemporaryFolder folder;
  FileOps &ops = FileOps::system();
  const std::string path = folder / "a.json";
  const std::string own = numberedPath(path, std::to_string(::getpid()));
  OwnedFile first = openOwned(ops, path, true);
  OwnedFile second = openOwned(ops, path, true);
  OwnedFile third = openOwned(ops, path, true);
  CHECK(first.path == path);
  CHECK(second.path == own);
  CHECK(third.path == numberedPath(own, "2"));
  first.fd.reset();
  CHECK(openOwned(ops, path, true).path == path);
}

TEST_CASE("a file that is not plain is refused where that is asked for") {
  TemporaryFolder folder;
  FileOps &ops = FileOps::system();
  const std::string pipe = folder / "pipe", link = folder / "link";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  REQUIRE(::symlink((folder / "file").c_str(), link.c_str()) == 0);
  CHECK(openOwned(ops, pipe, true).errnoValue == EINVAL);
  CHECK(openOwned(ops, link, true).errnoValue == EINVAL);
  CHECK(openOwned(ops, folder.path, true).errnoValue != 0);
  CHECK(openOwned(ops, folder / "no/file", true).errnoValue == ENOENT);
  CHECK(openOwned(ops, link, false).fd);
}

TEST_CASE("all of a text is written at its place") {
  TemporaryFolder folder;
  FileOps &ops = FileOps::system();
  const std::string path = folder / "text";
  OwnedFile file = openOwned(ops, path, true);
  REQUIRE(file.fd);
  CHECK(writeAllAt(ops, file.fd.get(), "hello", 0) == 0);
  CHECK(writeAllAt(ops, file.fd.get(), "p!", 3) == 0);
  CHECK(readBytes(path) == "help!");
  CHECK(writeAllAt(ops, -1, "x", 0) == EBADF);
}
