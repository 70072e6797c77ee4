#include "Support/DynamicLibrary.h"

#include "Support/TemporaryFolder.h"
#include "Support/TrustedPath.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

using namespace kiln;
using kiln::testing::TemporaryFolder;
using kiln::testing::writeBytes;

TEST_CASE("the first library that loads is taken") {
  auto library =
      DynamicLibrary::openFirst({"libkiln-not-there.so", "libc.so.6"},
                                "the C library", ErrorCode::DriverMissing);
  REQUIRE(bool(library));
  CHECK(library->name() == "libc.so.6");
  CHECK(library->path().front() == '/');
  auto length = library->find<size_t (*)(const char *)>("strlen");
  REQUIRE((length != nullptr));
  CHECK(length("four") == 4);
  CHECK(library->find("kilnNoSuchSymbol") == nullptr);
}

TEST_CASE("a library that is nowhere names all that was tried") {
  auto library = DynamicLibrary::openFirst({"libkiln-a.so", "/nowhere/b.so"},
                                           "NVRTC", ErrorCode::CompilerMissing);
  REQUIRE(!library);
  ErrorSummary summary = summarize(library.takeError());
  CHECK(summary.code == ErrorCode::CompilerMissing);
  CHECK(summary.message.find("cannot load NVRTC") == 0);
  CHECK(summary.message.find("libkiln-a.so") != std::string::npos);
  CHECK(summary.message.find("/nowhere/b.so") != std::string::npos);
}

TEST_CASE("a library that was never opened has no symbols") {
  DynamicLibrary library;
  CHECK(!library);
  CHECK(library.find("strlen") == nullptr);
}

static std::string untrusted(const std::string &path) {
  return describeUntrusted(path).value_or("trusted");
}

TEST_CASE("a path is trusted where only root and this user may write") {
  TemporaryFolder folder; // below a sticky folder of root
  const std::string file = folder / "sub/library.so";
  writeBytes(file, "");
  CHECK(untrusted(file) == "trusted");
  CHECK(untrusted(folder / "nothing/there.so") == "trusted");
  CHECK(untrusted("library.so") == "it is a relative path");
  CHECK(untrusted("./library.so") == "it is a relative path");
  CHECK(untrusted(folder / "sub/../sub/./library.so") == "trusted");

  REQUIRE(::chmod(file.c_str(), 0666) == 0);
  CHECK(untrusted(file) == "others may write to '" + file + "'");
  REQUIRE(::chmod(file.c_str(), 0644) == 0);
  const std::string sub = folder / "sub";
  REQUIRE(::chmod(sub.c_str(), 0777) == 0);
  CHECK(untrusted(file) == "others may write to '" + sub + "'");
  // Others cannot replace what is ours in it.
  REQUIRE(::chmod(sub.c_str(), 01777) == 0);
  CHECK(untrusted(file) == "trusted");
  REQUIRE(::chmod(sub.c_str(), 0755) == 0);

  // Links lead to places where each part of the path counts, too.
  std::filesystem::create_symlink("sub", folder / "link");
  std::filesystem::create_symlink(folder / "link/library.so",
                                  folder / "file.so");
  CHECK(untrusted(folder / "file.so") == "trusted");
  REQUIRE(::chmod(sub.c_str(), 0777) == 0);
  CHECK(untrusted(folder / "file.so") == "others may write to '" + sub + "'");
  std::filesystem::create_symlink("loop", folder / "loop");
  CHECK(untrusted(folder / "loop/library.so") == "trusted"); // nothing is there
}

TEST_CASE("no library is opened that another user has made") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: needs root, who may give files away");
    return;
  }
  TemporaryFolder folder;
  auto libc = DynamicLibrary::openFirst({"libc.so.6"}, "the C library",
                                        ErrorCode::CompilerMissing);
  REQUIRE(bool(libc));
  const std::string ours = folder / "lib/libz.so", above = folder / "lib";
  std::filesystem::create_directories(above);
  std::filesystem::copy_file(libc->path(), ours);
  auto open = [&] {
    auto library =
        DynamicLibrary::openFirst({ours}, "it", ErrorCode::CompilerMissing);
    return library ? "" : summarize(library.takeError()).message;
  };
  REQUIRE(::chown(above.c_str(), 65534, 65534) == 0);
  CHECK(open().find("'" + above + "' belongs to user 65534") !=
        std::string::npos);
  REQUIRE(::chown(above.c_str(), 0, 0) == 0);
  REQUIRE(::chown(ours.c_str(), 65534, 65534) == 0);
  CHECK(open().find("'" + ours + "' belongs to user 65534") !=
        std::string::npos);
}
