#include "Compile/EmbeddedSources.h"

#include "Compile/SourceText.h"
#include "Support/Error.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <unistd.h>

using namespace kiln;

namespace kiln {
llvm::ArrayRef<EmbeddedSource> embeddedTestSources();
}

static std::string readFile(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

TEST_CASE("embedded texts are the files without their prose") {
  auto set = SourceSet::fromEmbedded(embeddedTestSources());
  REQUIRE(bool(set));
  REQUIRE((*set)->files().size() == 2);
  const std::string folder = KILN_SOURCE_DIR "/unittests/Compile/embedded/";
  for (const SourceFile &file : (*set)->files())
    CHECK(file.contents == withoutProse(readFile(folder + file.name)));
  REQUIRE((*set)->find("sub/other.h"));
  CHECK_FALSE((*set)->find("other.h"));
  const SourceClosure &all =
      (*set)->closureOf("#include \"plain.cuh\"\n#include <sub/other.h>\n");
  REQUIRE(all.names.size() == 2);
  CHECK(std::string(all.names[1]) == "sub/other.h");
  CHECK(std::string(all.texts[1]) == (*set)->files()[1].contents);

  // Equal files from disk make an equal set.
  auto loaded = SourceSet::loadDirectory(folder);
  REQUIRE(bool(loaded));
  CHECK((*loaded)->files() == (*set)->files());
  auto withoutSlash =
      SourceSet::loadDirectory(llvm::StringRef(folder).drop_back());
  REQUIRE(bool(withoutSlash));
  CHECK((*withoutSlash)->files() == (*set)->files());
}

static std::shared_ptr<const SourceSet> setOf(std::vector<SourceFile> files) {
  return llvm::cantFail(SourceSet::create(std::move(files)));
}

/// The names of what \p text sees of \p set.
static std::vector<std::string> reached(const SourceSet &set,
                                        llvm::StringRef text) {
  const SourceClosure &closure = set.closureOf(text);
  return {closure.names.begin(), closure.names.end()};
}

using Names = std::vector<std::string>;

TEST_CASE("a digest ignores order and sees names and contents apart") {
  auto digest = [](std::vector<SourceFile> files) {
    std::string text;
    for (const SourceFile &file : files)
      text += "#include \"" + file.name + "\"\n";
    return setOf(std::move(files))->closureOf(text).digest;
  };
  CHECK(digest({{"a", "1"}, {"b", "2"}}) == digest({{"b", "2"}, {"a", "1"}}));
  CHECK(digest({{"a", "1"}, {"b", "2"}}) != digest({{"a", "2"}, {"b", "1"}}));
  CHECK(digest({{"ab", "c"}}) != digest({{"a", "bc"}}));
  CHECK(digest({}) != digest({{"a", ""}}));
}

TEST_CASE("a closure holds what is included, also through others") {
  auto set = setOf({{"a/top.cuh", "#pragma once\n#include \"b/mid.h\"\n"},
                    {"b/mid.h", "# \tinclude <c/low.h> // why\n"},
                    {"c/low.h", "int include = 1;\n"},
                    {"c/other.h", "#error never\n"}});
  CHECK(reached(*set, "#include \"a/top.cuh\"") ==
        Names{"a/top.cuh", "b/mid.h", "c/low.h"});
  CHECK(reached(*set, "#include \"c/low.h\"\n#include <b/mid.h>\n") ==
        Names{"b/mid.h", "c/low.h"});
  CHECK(reached(*set, "extern \"C\" __global__ void f() {}\n").empty());
  CHECK(reached(*set, "// #include \"c/low.h\"\n").empty());
  CHECK(reached(*set, "/*\n#include \"c/low.h\"\n*/\n").empty());
  // Includes behind #if count even where a preprocessor would pass them over.
  CHECK(reached(*set, "#if 0\n#include \"c/low.h\"\n#endif\n") ==
        Names{"c/low.h"});
}

TEST_CASE("digests cover tokens, and lines apart") {
  const std::string text = "#include \"a.h\"\n";
  auto of = [&](const char *contents) -> SourceClosure {
    return setOf({{"a.h", contents}})->closureOf(text);
  };
  const SourceClosure bare = of("int a;\nint b;\n");
  CHECK_FALSE(bare.asksForLines);
  const SourceClosure behind = of("int  a; // one\nint b; /* two */\n");
  CHECK(behind.digest == bare.digest);
  CHECK(behind.digestOfLines == bare.digestOfLines);
  for (const char *edited : {"// one\nint a;\nint b;\n", "int a;\n\nint b;",
                             "int a; /* one\ntwo */\nint b;\n// three\n"}) {
    CAPTURE(edited);
    CHECK(of(edited).digest == bare.digest);
    CHECK(of(edited).digestOfLines != bare.digestOfLines);
  }
  for (const char *other : {"int a;\nint c;\n", "int a; int b;\n"})
    CHECK(of(other).digest != bare.digest);
  CHECK(of("int a = __LINE__;\n").asksForLines);
  CHECK_FALSE(of("int a; // __LINE__\n").asksForLines);
}

TEST_CASE("a closure is found once and kept") {
  auto set = setOf({{"a.h", "1"}, {"b.h", "2"}});
  const SourceClosure &first = set->closureOf("#include \"a.h\"\nint x;\n");
  CHECK(&set->closureOf("#include \"b.h\"\n") != &first);
  CHECK(&set->closureOf("#include \"a.h\"\nint y;\n") == &first);
}

TEST_CASE("files that include each other end in one closure") {
  auto set = setOf({{"a.h", "#include \"b.h\"\n"},
                    {"b.h", "#include \"a.h\"\n#include \"b.h\"\n"}});
  CHECK(reached(*set, "#include \"a.h\"\n") == Names{"a.h", "b.h"});
  CHECK(reached(*set, "#include \"b.h\"\n") == Names{"a.h", "b.h"});
}

TEST_CASE("a name that the set lacks is in the digest, and hides nothing") {
  const std::string text = "#include \"gone.h\"\n#include \"a.h\"\n";
  auto set = setOf({{"a.h", "1"}, {"dir/gone.h", "2"}});
  CHECK(reached(*set, text) == Names{"a.h"});
  CHECK(set->closureOf(text).digest !=
        set->closureOf("#include \"a.h\"\n").digest);
  CHECK_FALSE(set->closureOf("#include <cuda_fp16.h>\n").isEmpty);
  // Names are relative to the root, as NVRTC takes them, not to their file.
  auto near = setOf({{"dir/a.h", "#include \"b.h\"\n"}, {"dir/b.h", ""}});
  CHECK(reached(*near, "#include \"dir/a.h\"\n") == Names{"dir/a.h"});
}

TEST_CASE("what only a preprocessor knows reaches the whole set") {
  auto set = setOf({{"a.h", "#include NAME\n"}, {"b.h", ""}, {"c.h", ""}});
  for (const char *text :
       {"#define NAME \"b.h\"\n#include NAME\n", "#include \"a.h\"\n",
        "#if __has_include(\"b.h\")\n#endif\n", "#include \"b.h\n",
        "#include"}) {
    CAPTURE(text);
    CHECK(reached(*set, text) == Names{"a.h", "b.h", "c.h"});
  }
  for (const char *text :
       {"%:include_next \"b.h\"\n", "#\finclude\v\"b.h\"\n",
        "#include /**/ \"b.h\"\n", "#/**/include \"b.h\"\n",
        "#\\\ninclude \"b.h\"\n", "/* a\n */ #inc\\\nlude <b.h>\n"}) {
    CAPTURE(text);
    CHECK(reached(*set, text) == Names{"b.h"});
  }
}

TEST_CASE("what no key covers is refused: absolute names, date and time") {
  for (const char *text :
       {"#include \"/etc/a.h\"\n", "#include </etc/a.h>\n",
        "int x;\n #\finclude_next \"/a.h\"\n", "#include <//a.h>\n",
        "#if __has_include(\"/etc/a.h\")\n#endif\n",
        "#if __has_include(</etc/a.h>)\n#endif\n",
        "#define NAME \"/etc/a.h\"\n#include NAME\n",
        "#/**/include \"/etc/a.h\"\n", "const char *x = __DATE__;\n",
        "const char *x = __TIME__;\n", "const char *x = __TIMESTAMP__;\n"}) {
    CAPTURE(text);
    auto error = summarize(SourceSet::checkSource(text));
    CHECK(error.code == ErrorCode::InvalidArgument);
    auto set = SourceSet::create({{"a.h", ""}, {"b/c.h", text}});
    REQUIRE_FALSE(static_cast<bool>(set));
    auto refusal = summarize(set.takeError());
    CHECK(refusal.code == ErrorCode::InvalidArgument);
    CHECK(refusal.message.find("source 'b/c.h'") != std::string::npos);
  }
  for (const char *text : {"#include \"a/b.h\"\n", "const char *x = \"/x\";\n",
                           "#if __has_include(\"a/b.h\")\n#endif\n",
                           "// __DATE__, or #include \"/etc/a.h\"\n"})
    CHECK(summarize(SourceSet::checkSource(text)).message == "");
}

TEST_CASE("threads that ask for closures at once get the same ones") {
  auto set = setOf({{"a.h", "#include \"b.h\"\n"}, {"b.h", "1"}});
  std::vector<const SourceClosure *> found(8);
  std::vector<std::thread> threads;
  for (const SourceClosure *&place : found)
    threads.emplace_back(
        [&] { place = &set->closureOf("#include \"a.h\"\n"); });
  for (std::thread &thread : threads)
    thread.join();
  for (const SourceClosure *place : found)
    CHECK(place == found[0]);
}

TEST_CASE("names that are not root-relative are refused") {
  for (const char *name :
       {"", "/a.h", "a//b.h", "../a.h", "a/../b.h", "./a.h", "a/", "a\nb.h"}) {
    auto set = SourceSet::create({{name, ""}});
    CHECK(summarize(set.takeError()).code == ErrorCode::InvalidArgument);
  }
  auto twice = SourceSet::create({{"a.h", "1"}, {"a.h", "2"}});
  CHECK(summarize(twice.takeError()).code == ErrorCode::InvalidArgument);
  auto withNul = SourceSet::create({{"a.h", std::string(1, '\0')}});
  CHECK(summarize(withNul.takeError()).code == ErrorCode::InvalidArgument);
}

TEST_CASE("a directory gives its sources; a wrong one an error with its path") {
  namespace fs = std::filesystem;
  const fs::path root =
      fs::temp_directory_path() / ("kiln-src-" + std::to_string(getpid()));
  fs::create_directories(root / "gemm");
  std::ofstream(root / "gemm/A.cuh") << "a";
  std::ofstream(root / "B.h") << "b";
  std::ofstream(root / "notes.txt") << "n";
  fs::create_directory_symlink(root, root / "gemm/loop");
  auto set = SourceSet::loadDirectory(root.string());
  REQUIRE(bool(set));
  REQUIRE((*set)->files().size() == 2);
  CHECK((*set)->files()[0].name == "B.h");
  CHECK((*set)->files()[1].name == "gemm/A.cuh");
  fs::remove_all(root);

  auto gone = SourceSet::loadDirectory(root.string());
  ErrorSummary error = summarize(gone.takeError());
  CHECK(error.code == ErrorCode::Io);
  CHECK(error.message.find(root.string()) != std::string::npos);
  fs::create_directories(root);
  auto empty = SourceSet::loadDirectory(root.string());
  CHECK(summarize(empty.takeError()).code == ErrorCode::InvalidArgument);
  fs::remove_all(root);
}

TEST_CASE("a directive is seen wherever a splice takes it apart") {
  for (const std::string text :
       {"#include \"/abs/x.h\"\n", "%:include \"/abs/x.h\"\n",
        "#include </abs/x.h>\n", "#include <//abs/x.h>\n",
        "#if __has_include(\"/abs/x.h\")\n#endif\n",
        "#if __has_include(</abs/x.h>)\n#endif\n"})
    for (const std::string splice : {"\\\n", "\\\r\n"})
      for (size_t place = 0; place <= text.find_first_of("\">", 11); ++place) {
        std::string spliced = text;
        spliced.insert(place, splice);
        CAPTURE(spliced);
        auto set = SourceSet::create({{"a.h", spliced}});
        REQUIRE_FALSE(bool(set));
        CHECK(summarize(set.takeError()).message.find("absolute") !=
              std::string::npos);
      }
}
