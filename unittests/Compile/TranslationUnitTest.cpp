#include "Compile/TestUnits.h"
#include "Support/Error.h"

#include <doctest/doctest.h>

using namespace kiln;

static bool isRefused(llvm::Error error) {
  return summarize(std::move(error)).code == ErrorCode::InvalidArgument;
}

TEST_CASE("only harmless options in one spelling pass") {
  for (const char *option :
       {"-lineinfo", "--use_fast_math", "--fmad=false", "--fmad=true",
        "--maxrregcount=16", "--maxrregcount=255"})
    CHECK_FALSE(isRefused(checkOption(option)));
  for (llvm::StringRef option :
       {llvm::StringRef("-I/tmp"), llvm::StringRef("--pre-include=x.h"),
        llvm::StringRef("--pch"), llvm::StringRef("-Xptxas"),
        llvm::StringRef("-lineinfo --fmad=true"), llvm::StringRef("@file"),
        llvm::StringRef("-lineinfo;id"), llvm::StringRef("$(id)"),
        llvm::StringRef("`id`"), llvm::StringRef("-lineinfo\n-I/tmp"),
        llvm::StringRef("-lineinfo\0-I/tmp", 16), llvm::StringRef(""),
        llvm::StringRef("--maxrregcount=15"),
        llvm::StringRef("--maxrregcount=256"),
        llvm::StringRef("--maxrregcount=032"),
        llvm::StringRef("--maxrregcount=+32"),
        llvm::StringRef("--maxrregcount=32 "), llvm::StringRef("\xff\xfe"),
        llvm::StringRef("--gpu-architecture=sm_90")})
    CHECK(isRefused(checkOption(option)));
  CHECK(isRefused(checkOption(std::string(1 << 20, 'x'))));
}

TEST_CASE("a refusal quotes the value, printable and short") {
  ErrorSummary error = summarize(checkOption("-I\n" + std::string(5000, 'y')));
  CHECK(error.message.find("'-I?yyy") != std::string::npos);
  CHECK(error.message.find('\n') == std::string::npos);
  CHECK(error.message.size() < 400);
}

TEST_CASE("architectures are spelled one way") {
  for (const char *arch : {"sm_75", "sm_80", "sm_90a", "sm_100f", "sm_120"})
    CHECK_FALSE(isRefused(checkArch(arch)));
  for (const char *arch : {"", "sm_", "sm_9", "sm_1000", "compute_80", "sm_80b",
                           "sm_80aa", "SM_80", "sm_80 ", "sm_080"})
    CHECK(isRefused(checkArch(arch)));
}

TEST_CASE("names with a path, long or empty ones are refused") {
  for (const char *name : {"", "a/b", "../x", ".hidden", "-x", "@x", "a b"}) {
    TranslationUnit unit = makeUnit();
    unit.name = name;
    CHECK(isRefused(validate(unit)));
  }
  TranslationUnit unit = makeUnit();
  unit.name.assign(1 << 20, 'n');
  CHECK(isRefused(validate(unit)));
  unit = makeUnit();
  unit.entry = "a-b";
  CHECK(isRefused(validate(unit)));
  unit = makeUnit();
  unit.source += '\0';
  CHECK(isRefused(validate(unit)));
  unit.source.clear();
  CHECK(isRefused(validate(unit)));
  CHECK_FALSE(isRefused(validate(makeUnit())));
}

TEST_CASE("the key changes with all that changes the cubin, and only then") {
  const TranslationUnit base = makeUnit();
  TranslationUnit unit = base;
  unit.name = "another_name";
  CHECK(unit.digest() == base.digest());
  unit.options = {"--use_fast_math", "--fmad=true"};
  const Digest ordered = unit.digest();
  CHECK(ordered != base.digest());
  unit.options = {"--fmad=true", "--use_fast_math", "--fmad=true"};
  CHECK(unit.digest() == ordered);

  unit = base;
  unit.arch = "sm_80a";
  CHECK(unit.digest() != base.digest());
  unit = base;
  unit.source += " ";
  CHECK(unit.digest() != base.digest());
  unit = base;
  unit.entry = "other";
  CHECK(unit.digest() != base.digest());

  unit = base;
  unit.headers = makeSources({{"a.h", "1"}});
  const Digest first = unit.digest();
  CHECK(first != base.digest());
  unit.headers = makeSources({{"a.h", "2"}});
  CHECK(unit.digest() != first);
}

TEST_CASE("line information puts the name into the key") {
  TranslationUnit unit = makeUnit();
  unit.options = {"-lineinfo"};
  const Digest first = unit.digest();
  unit.name = "another_name";
  CHECK(unit.digest() != first);
}

TEST_CASE("the canonical text of a unit is pinned") {
  TranslationUnit unit;
  unit.name = "x";
  unit.arch = "sm_90a";
  unit.source = "abc";
  unit.options = {"--fmad=false"};
  CHECK(unit.canonicalText() == "kiln translation unit 1\n"
                                "arch sm_90a\n"
                                "entry kilnEntry\n"
                                "option --fmad=false\n"
                                "headers -\n"
                                "source 3\n"
                                "abc");
}
