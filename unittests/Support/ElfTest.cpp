// Checks of files before a loader or a driver gets them.
#include "Support/Elf.h"

#include "Fakes/FakeCubin.h"
#include "Support/Cubin.h"
#include "Support/DynamicLibrary.h"
#include "Support/Error.h"
#include "Support/TemporaryFolder.h"

#include <doctest/doctest.h>

#include <sys/stat.h>

using namespace kiln;
using kiln::testing::readBytes;
using kiln::testing::TemporaryFolder;
using kiln::testing::writeBytes;

static ErrorSummary openError(const std::string &path) {
  return summarize(
      DynamicLibrary::openFirst({path}, "a library", ErrorCode::CompilerMissing)
          .takeError());
}

TEST_CASE("F13: a truncated library is refused before the loader maps it") {
  TemporaryFolder folder;
  const std::string whole = readBytes("/proc/self/exe");
  REQUIRE(whole.size() > 100000);
  CHECK_FALSE(describeBadLibrary("/proc/self/exe"));
  for (size_t bytes : {size_t(0), size_t(1), size_t(63), size_t(64),
                       size_t(4096), whole.size() / 2, whole.size() - 1}) {
    CAPTURE(bytes);
    const std::string path = folder / "libcut.so";
    writeBytes(path, whole.substr(0, bytes));
    CHECK(describeBadLibrary(path));
    ErrorSummary error = openError(path);
    CHECK(error.code == ErrorCode::CompilerMissing);
    CHECK(error.message.find(path) != std::string::npos);
  }
}

TEST_CASE("F12: only plain files are opened as libraries") {
  TemporaryFolder folder;
  const std::string fifo = folder / "libfifo.so", link = folder / "liblink.so";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  REQUIRE(::symlink(fifo.c_str(), link.c_str()) == 0);
  // The loader would wait for a writer.
  for (const std::string &path :
       {fifo, link, folder.path, std::string("/dev/null")})
    CHECK(openError(path).message.find("it is no plain file") !=
          std::string::npos);
  CHECK(openError(folder / "missing.so").message.find("No such file") !=
        std::string::npos);
}

TEST_CASE("F13: tables that lead out of an ELF file are seen") {
  const std::string good = makeFakeCubin("text", 90, {"kilnEntry"});
  CHECK(bool(inspectElf(good)));
  auto isRefused = [](const std::string &bytes) {
    auto header = inspectElf(bytes);
    return !header &&
           summarize(header.takeError()).code == ErrorCode::InvalidArgument;
  };
  for (size_t bytes = 0; bytes < good.size(); ++bytes)
    CHECK(isRefused(good.substr(0, bytes)));
  // A section whose end is past 2^64.
  std::string far = good;
  const size_t section = good.size() - sizeof(Elf64_Shdr);
  far.replace(section + offsetof(Elf64_Shdr, sh_size), 8, 8, '\xff');
  CHECK(isRefused(far));
  // Entries that are too short to be read.
  std::string thin = good;
  thin[offsetof(Elf64_Ehdr, e_shentsize)] = 8;
  CHECK(isRefused(thin));
}

TEST_CASE("F17: a cubin is for its architecture and defines its kernel") {
  const std::string cubin = makeFakeCubin("kilnOther", 90, {"kilnEntry"});
  auto messageOf = [&](llvm::StringRef bytes, llvm::StringRef arch,
                       llvm::StringRef entry) {
    return summarize(checkCubin(bytes, arch, entry)).message;
  };
  CHECK(messageOf(cubin, "sm_90a", "kilnEntry").empty());
  CHECK(messageOf(makeFakeCubin("", 0, {"kilnEntry"}), "sm_90a", "kilnEntry")
            .empty());
  CHECK(messageOf(cubin, "sm_80", "kilnEntry") ==
        "cubin for sm_90, not for sm_80");
  for (const char *entry : {"kilnOther", "kilnEntr", "kilnEntry2"})
    CHECK(messageOf(cubin, "sm_90", entry).find("does not define") !=
          std::string::npos);
  CHECK(messageOf("", "sm_90", "kilnEntry").find("not a cubin") == 0);
  CHECK(messageOf(std::string(100, 'x'), "sm_90", "kilnEntry")
            .find("not a cubin") == 0);
}
