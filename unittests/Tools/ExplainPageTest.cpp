// The worked examples of docs/explain.md: the tool prints the lines that they
// show, and plans the choices that they predict.
#include "Support/ReadFile.h"
#include "Tools/ToolRunner.h"

#include <doctest/doctest.h>

#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/ADT/StringRef.h>

#include <string>

using namespace kiln::testing;

namespace {

/// \p text with single blanks between its words: lines wrap anywhere.
std::string unwrapped(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef, 64> words;
  llvm::SplitString(text, words);
  return llvm::join(words, " ");
}

/// An example of the page: a command, and parts of what it prints.
struct Example {
  std::string command;
  std::vector<std::string> parts;
};

/// The blocks of \p page that begin with "$ kiln"; "..." stands for what was
/// left out between two parts.
std::vector<Example> examplesOf(llvm::StringRef page) {
  std::vector<Example> examples;
  llvm::SmallVector<llvm::StringRef, 64> blocks;
  page.split(blocks, "```");
  for (llvm::StringRef block : blocks) {
    block = block.ltrim();
    if (!block.consume_front("$ kiln "))
      continue;
    auto [command, shown] = block.split('\n');
    Example example{command.str(), {}};
    llvm::SmallVector<llvm::StringRef, 16> parts;
    shown.split(parts, "...");
    for (llvm::StringRef part : parts)
      if (std::string words = unwrapped(part); !words.empty())
        example.parts.push_back(std::move(words));
    examples.push_back(std::move(example));
  }
  return examples;
}

} // namespace

TEST_CASE("docs/explain.md shows what kiln prints") {
  const std::string page = llvm::cantFail(
      kiln::readNamedFile(KILN_SOURCE_DIR "/docs/explain.md", 1 << 20));
  const std::vector<Example> examples = examplesOf(page);
  CHECK(examples.size() >= 9);
  Tool tool;
  for (const Example &example : examples) {
    CAPTURE(example.command);
    const ToolResult result = tool.run(example.command);
    CHECK(result.code == 0);
    const std::string printed = unwrapped(result.out);
    CHECK(!example.parts.empty());
    for (const std::string &part : example.parts) {
      CAPTURE(part);
      CHECK(printed.find(part) != std::string::npos);
    }
  }
}
