#include "Support/DynamicLibrary.h"

#include <doctest/doctest.h>

using namespace kiln;

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
