#include "Compile/Compiler.h"

#include "Compile/TestUnits.h"
#include "Fakes/FakeCubin.h"

#include <doctest/doctest.h>

using namespace kiln;

TEST_CASE("NVRTC is loaded at the first compilation, not before") {
  FakeNvrtc fake = FakeNvrtc::open(KILN_BINARY_DIR);
  Compiler compiler(fakeSearch());
  UnitParts bad = makeParts();
  bad.options = {"-I/tmp"};
  auto refused = compiler.compile(TranslationUnit(bad));
  CHECK(summarize(refused.takeError()).code == ErrorCode::InvalidArgument);
  CHECK_FALSE(compiler.isLoaded());
  CHECK(bool(compiler.compile(makeUnit())));
  CHECK(compiler.isLoaded());
  CHECK(fake.compileCount() == 1);
}

TEST_CASE("an artifact carries what the log says") {
  FakeNvrtc fake = FakeNvrtc::open(KILN_BINARY_DIR);
  fake.setUsage(168, 24, 1024);
  fake.appendLog("ptxas info    : (C7519) wgmma serialised\n");
  Compiler compiler(fakeSearch());
  TranslationUnit unit = makeUnit("sm_90a");
  auto artifact = compiler.compile(unit);
  REQUIRE(bool(artifact));
  CHECK(artifact->cubin.substr(0, 4) == "\x7f"
                                        "ELF");
  CHECK(artifact->cubin.find(unit.source()) != std::string::npos);
  CHECK(artifact->arch == "sm_90a");
  CHECK(artifact->entry == "kilnEntry");
  CHECK(artifact->usage.registersPerThread == 168);
  CHECK(artifact->usage.staticSharedBytes == 1024);
  CHECK(artifact->hasSpills());
  CHECK(artifact->hasSerialisationAdvisory());
  CHECK(artifact->toolchain.rfind("nvrtc 13.0.99 ", 0) == 0);
  CHECK(artifact->phases.ptxasMs == 3);
  CHECK(artifact->phases.totalMs > 0);
  CHECK(artifact->log.find('\0') == std::string::npos);
  CHECK(artifact->log.find("Frontend") != std::string::npos);
  fake.reset();
}

TEST_CASE("the options are the fixed ones and the unit's, nothing else") {
  FakeNvrtc fake = FakeNvrtc::open(KILN_BINARY_DIR);
  Compiler compiler(fakeSearch());
  UnitParts parts = makeParts("sm_90");
  parts.options = {"--maxrregcount=64"};
  const TranslationUnit unit(parts);
  REQUIRE(bool(compiler.compile(unit)));
  CHECK(std::string(fake.lastOptions()) ==
        "--gpu-architecture=sm_90\n--std=c++20\n-default-device\n--minimal\n"
        "--no-cache\n"
        "--no-source-include\n--ptxas-options=-v\n--time=-\n"
        "--maxrregcount=64\n");

  // 12.8 has no cache, nor the option that turns it off.
  fake.setVersion(12, 8);
  Compiler older(fakeSearch());
  REQUIRE(bool(older.compile(unit)));
  CHECK(std::string(fake.lastOptions()).find("--no-cache") ==
        std::string::npos);
  fake.reset();
}

TEST_CASE("a failure carries its log and its unit through added context") {
  FakeNvrtc fake = FakeNvrtc::open(KILN_BINARY_DIR);
  fake.failWhen("poison", "kiln_test(3): warning: odd\n"
                          "kiln_test(7): error: no such thing\nmore\n");
  Compiler compiler(fakeSearch());
  auto artifact = compiler.compile(makeUnit("sm_80", "poison;"));
  REQUIRE_FALSE(bool(artifact));
  llvm::Error error = addContext(artifact.takeError(), "gemm m=1");
  bool seen = false;
  llvm::handleAllErrors(std::move(error), [&](const CompileError &e) {
    seen = true;
    CHECK(e.code == ErrorCode::CompileFailed);
    CHECK(e.driverCode == 6);
    CHECK(e.message == "gemm m=1: cannot compile kiln_test for sm_80: "
                       "kiln_test(7): error: no such thing "
                       "(NVRTC_ERROR_COMPILATION)");
    CHECK(e.compileLog.find("more") != std::string::npos);
    CHECK(e.unit.source().find("poison") != std::string::npos);
  });
  CHECK(seen);
  // The fault is the unit's: the next one compiles.
  CHECK(bool(compiler.compile(makeUnit())));
  fake.reset();
}

TEST_CASE("an unknown architecture never reaches the compiler") {
  FakeNvrtc fake = FakeNvrtc::open(KILN_BINARY_DIR);
  Compiler compiler(fakeSearch());
  auto artifact = compiler.compile(makeUnit("sm_70"));
  CHECK(summarize(artifact.takeError()).code == ErrorCode::Unsupported);
  CHECK(fake.compileCount() == 0);
}

TEST_CASE("a compiler that is missing stays missing") {
  NvrtcSearch search;
  search.explicitPath = "/nowhere";
  Compiler compiler(search);
  for (int i = 0; i < 2; ++i) {
    auto artifact = compiler.compile(makeUnit());
    CHECK(summarize(artifact.takeError()).code == ErrorCode::CompilerMissing);
  }
}

TEST_CASE("logs lose their NULs and what is beyond the cap") {
  CHECK(cleanLog(llvm::StringRef("a\0b\0", 4)) == "ab");
  std::string flood;
  for (int i = 0; i < 20000; ++i)
    flood += "warning: the same again\n";
  std::string capped = cleanLog(flood);
  CHECK(capped.size() <= kMaxLogBytes);
  CHECK(capped.size() > kMaxLogBytes - 200);
  const size_t tail = capped.rfind("... ");
  REQUIRE(tail != std::string::npos);
  CHECK(capped.substr(tail) ==
        fmt::format("... {} more bytes\n", flood.size() - tail));
}

TEST_CASE("F17: what NVRTC returns is no kernel until it was looked at") {
  FakeNvrtc fake = FakeNvrtc::open(KILN_BINARY_DIR);
  Compiler compiler(fakeSearch());
  const TranslationUnit unit = makeUnit("sm_90a");
  auto messageOf = [&] {
    auto artifact = compiler.compile(unit);
    REQUIRE_FALSE(bool(artifact));
    ErrorSummary error = summarize(artifact.takeError());
    CHECK(error.code == ErrorCode::CompileFailed);
    return error.message;
  };
  const std::string other = makeFakeCubin(unit.source(), 90, {"someOther"});
  const std::string older = makeFakeCubin(unit.source(), 80, {"kilnEntry"});
  const std::pair<std::string, const char *> wrong[] = {
      {"", "no ELF header"},
      {std::string(100, 'x'), "no ELF header"},
      {other, "does not define kilnEntry"},
      {older, "cubin for sm_80, not for sm_90a"},
      {other.substr(0, other.size() - 1), "truncated"}};
  for (const auto &[bytes, reason] : wrong) {
    fake.returnCubin(bytes.data(), bytes.size());
    CHECK(messageOf().find(reason) != std::string::npos);
  }
  fake.reset();
  // A size that cannot be is no reason to take that much memory.
  fake.claimSize(size_t(1) << 62);
  CHECK(messageOf().find("NVRTC_ERROR") != std::string::npos);
  fake.reset();
  CHECK(bool(compiler.compile(unit)));
}
