#include "Kernel/Sources.h"

#include "Compile/SourceText.h"
#include "Support/Error.h"
#include "Support/TemporaryFolder.h"

#include <doctest/doctest.h>

#include <cctype>

using namespace kiln;
using kiln::testing::TemporaryFolder;

static llvm::StringRef treeFolder() { return KILN_SOURCE_DIR "/kernel_src"; }

// A source that is not listed would be missed when a kernel is compiled, on the
// user's machine.
TEST_CASE("the library carries every kernel source of the tree") {
  auto tree = llvm::cantFail(SourceSet::loadDirectory(treeFolder()));
  for (const SourceFile &file : tree->files()) {
    CAPTURE(file.name);
    const std::string *embedded = kernelSources()->find(file.name);
    REQUIRE(embedded);
    CHECK(*embedded == file.contents);
  }
  CHECK(kernelSources()->files() == tree->files());
  CHECK(kernelSources() == kernelSources());
}

namespace {

/// The tokens of \p text as a preprocessor takes them, each behind a blank or a
/// newline where there is one in front of it. This is a simple lexer, for texts
/// without raw strings and without names in angle brackets.
std::vector<std::string> tokensOf(std::string text) {
  for (size_t at; (at = text.find("\\\n")) != std::string::npos;)
    text.erase(at, 2);
  auto isWord = [](char c) { return std::isalnum(c) || c == '_'; };
  std::vector<std::string> tokens;
  std::string before = "\n";
  bool isDirective = false;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    const std::string two = text.substr(at, 2);
    const char c = text[at];
    if (two == "//") {
      end = text.find('\n', at);
      before = before.empty() ? " " : before;
    } else if (two == "/*") {
      end = text.find("*/", at) + 2;
      before = before.empty() ? " " : before;
    } else if (c == '\n') {
      before = "\n";
      if (isDirective)
        tokens.push_back("end");
      isDirective = false;
    } else if (std::isspace(c)) {
      before = before.empty() ? " " : before;
    } else {
      if (c == '"' || c == '\'') {
        for (; text[end] != c; ++end)
          end += text[end] == '\\';
        ++end;
      } else if (std::isdigit(c)) {
        while (isWord(text[end]) || text[end] == '.' || text[end] == '\'')
          ++end;
      } else if (isWord(c)) {
        while (isWord(text[end]))
          ++end;
      }
      isDirective |= c == '#' && before == "\n";
      // Outside of directives a newline is a blank.
      const bool isFirst = isDirective && c == '#';
      tokens.push_back((before == "\n" && !isFirst ? " " : before) +
                       text.substr(at, end - at));
      before.clear();
    }
    at = end;
  }
  if (isDirective)
    tokens.push_back("end");
  return tokens;
}

} // namespace

TEST_CASE("the library carries the tokens of every kernel source") {
  for (const SourceFile &file : kernelSources()->files()) {
    CAPTURE(file.name);
    const std::string tree =
        kiln::testing::readBytes((treeFolder() + "/" + file.name).str());
    REQUIRE(tree.find("R\"") == std::string::npos);
    CHECK((tokensOf(file.contents) == tokensOf(tree)));
    CHECK((tokensOf(keyText(tree)) == tokensOf(tree)));
    CHECK(withoutProse(file.contents) == file.contents);
    CHECK(file.contents.find("//") == std::string::npos);
    CHECK(llvm::StringRef(file.contents).count('\n') ==
          llvm::StringRef(tree).count('\n'));
  }
}

TEST_CASE("an override replaces all sources, a bad one none") {
  auto before = kernelSources();
  CHECK(summarize(overrideKernelSources("/nowhere/at/all")).code ==
        ErrorCode::Io);
  CHECK(kernelSources() == before);

  TemporaryFolder folder;
  kiln::testing::writeBytes(folder / "own.cuh", "// own\n");
  REQUIRE(!overrideKernelSources(folder.path));
  CHECK(kernelSources()->files().size() == 1);
  CHECK(kernelSources()->find("own.cuh"));
  // Earlier users keep theirs.
  CHECK(before->files().size() > 1);

  REQUIRE(!overrideKernelSources(treeFolder()));
  CHECK(kernelSources()->files() == before->files());
}
