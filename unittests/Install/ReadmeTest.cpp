// The lines of `kiln explain` that README.md shows are those of this build.
#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#ifdef KILN_TOOL

namespace {

/// The text that README.md shows behind a prompt: a command, and lines of its
/// output.
struct Shown {
  std::string command;
  std::vector<std::string> lines;
};

Shown shownExplanation() {
  const std::string prompt = "$ kiln explain ";
  std::ifstream readme(KILN_SOURCE_DIR "/README.md");
  Shown shown;
  for (std::string line; std::getline(readme, line);)
    if (line.starts_with(prompt))
      shown.command = line.substr(2);
    else if (!shown.command.empty() && line.starts_with("```"))
      break;
    else if (!shown.command.empty() && line != "...")
      shown.lines.push_back(line);
  return shown;
}

std::string outputOf(const std::string &command) {
  std::string output;
  FILE *pipe = popen(command.c_str(), "r");
  REQUIRE(pipe);
  for (int c; (c = std::fgetc(pipe)) != EOF;)
    output += static_cast<char>(c);
  CHECK(pclose(pipe) == 0);
  return output;
}

} // namespace

TEST_CASE("README.md shows what kiln explain says") {
  const Shown shown = shownExplanation();
  REQUIRE(shown.lines.size() == 10);
  const std::string arguments = shown.command.substr(sizeof("kiln") - 1);
  const std::string output = outputOf("'" KILN_TOOL "'" + arguments);
  size_t place = 0;
  for (const std::string &line : shown.lines) {
    INFO(line);
    const size_t found = output.find(line + "\n", place);
    REQUIRE(found != std::string::npos);
    place = found + line.size();
  }
}

#endif // KILN_TOOL
