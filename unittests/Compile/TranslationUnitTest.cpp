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
  auto refuses = [](const UnitParts &parts) {
    return isRefused(validate(TranslationUnit(parts)));
  };
  for (const char *name : {"", "a/b", "../x", ".hidden", "-x", "@x", "a b"}) {
    UnitParts parts = makeParts();
    parts.name = name;
    CHECK(refuses(parts));
  }
  UnitParts parts = makeParts();
  parts.name.assign(1 << 20, 'n');
  CHECK(refuses(parts));
  parts = makeParts();
  parts.entry = "a-b";
  CHECK(refuses(parts));
  parts = makeParts();
  parts.source += '\0';
  CHECK(refuses(parts));
  parts.source.clear();
  CHECK(refuses(parts));
  parts = makeParts();
  parts.source += "#include \"/etc/a.h\"\n"; // which no key covers
  CHECK(refuses(parts));
  CHECK_FALSE(refuses(makeParts()));
}

static Digest digestOf(const UnitParts &parts) {
  return TranslationUnit(parts).digest();
}

TEST_CASE("the key changes with all that changes the cubin, and only then") {
  const UnitParts base = makeParts();
  const Digest known = digestOf(base);
  UnitParts parts = base;
  parts.name = "another_name";
  CHECK(digestOf(parts) == known);
  parts.options = {"--use_fast_math", "--fmad=true"};
  const Digest ordered = digestOf(parts);
  CHECK(ordered != known);
  parts.options = {"--fmad=true", "--use_fast_math", "--fmad=true"};
  CHECK(digestOf(parts) == ordered);

  parts = base;
  parts.arch = "sm_80a";
  CHECK(digestOf(parts) != known);
  parts = base;
  parts.source += ";";
  CHECK(digestOf(parts) != known);
  parts = base;
  parts.entry = "other";
  CHECK(digestOf(parts) != known);
}

TEST_CASE("the key covers the headers that the source reaches, no others") {
  const UnitParts base = makeParts();
  UnitParts parts = base;
  parts.headers = makeSources({{"a.h", "1"}});
  CHECK(digestOf(parts) == digestOf(base));

  parts.source = "#include \"a.h\"\n" + base.source;
  const Digest first = digestOf(parts);
  parts.headers = makeSources({{"a.h", "1"}, {"b.h", "1"}});
  CHECK(digestOf(parts) == first);
  parts.headers = makeSources({{"a.h", "2"}, {"b.h", "1"}});
  CHECK(digestOf(parts) != first);
  // One that is not there is another matter than one that is.
  parts.headers = makeSources({{"b.h", "1"}});
  const Digest without = digestOf(parts);
  CHECK(without != first);
  parts.headers = nullptr;
  CHECK(digestOf(parts) != first);

  parts.headers = makeSources({{"a.h", "#include \"b.h\"\n"}, {"b.h", "1"}});
  const Digest indirect = digestOf(parts);
  parts.headers = makeSources({{"a.h", "#include \"b.h\"\n"}, {"b.h", "2"}});
  CHECK(digestOf(parts) != indirect);
}

TEST_CASE("a digest is made once, for a unit and its copies") {
  UnitParts parts = makeParts();
  parts.headers = makeSources({{"a.h", "1"}});
  parts.source = "#include \"a.h\"\n" + parts.source;
  const TranslationUnit unit(parts), copy = unit;
  const Digest *made = &copy.digest();
  CHECK(&unit.digest() == made);
  const TranslationUnit late = copy;
  CHECK(&late.digest() == made);
  CHECK(*made == strongHash(unit.canonicalText()));
  // So is what the header adds, for all units that include the same.
  parts.source += " ";
  CHECK(&TranslationUnit(parts).headers() == &unit.headers());
}

TEST_CASE("comments, blanks and lines are not in the key") {
  UnitParts parts = makeParts();
  parts.source = "#include \"a.h\"\n" + parts.source;
  parts.headers = makeSources({{"a.h", "int a;\n"}});
  const Digest known = digestOf(parts);
  UnitParts edited = parts;
  edited.source = "// An essay.\n\n" + edited.source + "  // and its end\n";
  edited.headers = makeSources({{"a.h", "/* What\n a is. */\nint a; // b\n"}});
  CHECK(digestOf(edited) == known);
  edited.headers = makeSources({{"a.h", "int b;\n"}});
  CHECK(digestOf(edited) != known);
}

TEST_CASE("line information puts name and lines into the key") {
  UnitParts parts = makeParts();
  parts.source = "#include \"a.h\"\n" + parts.source;
  parts.headers = makeSources({{"a.h", "int a;\n"}});
  parts.options = {"-lineinfo"};
  const Digest first = digestOf(parts);
  UnitParts other = parts;
  other.name = "another_name";
  CHECK(digestOf(other) != first);
  other = parts;
  other.source = "\n" + other.source;
  CHECK(digestOf(other) != first);
  other = parts;
  other.headers = makeSources({{"a.h", "// a\nint a;\n"}});
  CHECK(digestOf(other) != first);
  other.headers = makeSources({{"a.h", "int a; // a\n"}});
  CHECK(digestOf(other) == first);
}

TEST_CASE("a text that asks for its line has lines in its key") {
  const UnitParts base = makeParts();
  auto withFile = [&](const char *a, const char *b, const char *before) {
    UnitParts parts = base;
    parts.source = std::string(before) + "#include \"a.h\"\n" + base.source;
    parts.headers = makeSources({{"a.h", a}, {"b.h", b}});
    return digestOf(parts);
  };
  // A macro of one file may stand in another.
  const char *user = "#include \"b.h\"\nint a = PLACE;\n";
  const char *lower = "#include \"b.h\"\n\nint a = PLACE;\n";
  const char *line = "#define PLACE __LINE__\n", *one = "#define PLACE 1\n";
  CHECK(withFile(user, one, "") == withFile(lower, one, ""));
  CHECK(withFile(user, line, "") != withFile(lower, line, ""));
  CHECK(withFile(user, one, "") == withFile(user, one, "\n"));
  CHECK(withFile(user, line, "") != withFile(user, line, "\n"));
}

TEST_CASE("the canonical text of a unit is pinned") {
  UnitParts parts;
  parts.name = "x";
  parts.arch = "sm_90a";
  parts.source = "abc";
  parts.options = {"--fmad=false"};
  CHECK(TranslationUnit(parts).canonicalText() == "kiln translation unit 1\n"
                                                  "arch sm_90a\n"
                                                  "entry kilnEntry\n"
                                                  "option --fmad=false\n"
                                                  "headers -\n"
                                                  "source 3\n"
                                                  "abc");
  const Digest header = strongHash("text");
  parts.source = "#include <a.h>\n#include \"gone.h\"\n";
  parts.headers = makeSources({{"a.h", "text"}});
  const Digest headers =
      strongHash("a.h " + header.hex() + "\n" + "gone.h -\n");
  CHECK(TranslationUnit(parts).canonicalText().find(
            "\nheaders " + headers.hex() + "\n") != std::string::npos);
}
