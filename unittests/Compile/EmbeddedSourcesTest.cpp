#include "Compile/EmbeddedSources.h"

#include "Support/Error.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
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

TEST_CASE("embedded texts are the files, byte for byte") {
  auto set = SourceSet::fromEmbedded(embeddedTestSources());
  REQUIRE(bool(set));
  REQUIRE((*set)->files().size() == 2);
  const std::string folder = KILN_SOURCE_DIR "/unittests/Compile/embedded/";
  for (const SourceFile &file : (*set)->files())
    CHECK(file.contents == readFile(folder + file.name));
  REQUIRE((*set)->find("sub/other.h"));
  CHECK_FALSE((*set)->find("other.h"));
  CHECK((*set)->names().size() == 2);
  CHECK(std::string((*set)->texts()[1]) == (*set)->files()[1].contents);

  // The same files from disk are the same set.
  auto loaded = SourceSet::loadDirectory(folder);
  REQUIRE(bool(loaded));
  CHECK((*loaded)->digest() == (*set)->digest());
  auto withoutSlash =
      SourceSet::loadDirectory(llvm::StringRef(folder).drop_back());
  REQUIRE(bool(withoutSlash));
  CHECK((*withoutSlash)->digest() == (*set)->digest());
}

TEST_CASE("the digest ignores order and sees names and contents apart") {
  auto digest = [](std::vector<SourceFile> files) {
    return llvm::cantFail(SourceSet::create(std::move(files)))->digest();
  };
  CHECK(digest({{"a", "1"}, {"b", "2"}}) == digest({{"b", "2"}, {"a", "1"}}));
  CHECK(digest({{"a", "1"}, {"b", "2"}}) != digest({{"a", "2"}, {"b", "1"}}));
  CHECK(digest({{"ab", "c"}}) != digest({{"a", "bc"}}));
  CHECK(digest({}) != digest({{"a", ""}}));
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
