// The code in docs/engine.md is code of the examples, which tests compile and
// run, and of the CMake project that Install.consumer builds.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

using Lines = std::vector<std::string>;

/// The lines of a file without their indentation, which a page changes.
Lines linesOf(const std::filesystem::path &path) {
  Lines lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    lines.push_back(
        line.substr(std::min(line.find_first_not_of(' '), line.size())));
  return lines;
}

/// The code of \p page in \p language: for each block its parts, between which
/// a line "..." stands for what was left out.
std::vector<Lines> partsOf(const Lines &page, const std::string &language) {
  std::vector<Lines> parts;
  bool isInside = false;
  for (const std::string &line : page) {
    if (!isInside && line == "```" + language) {
      isInside = true;
      parts.emplace_back();
    } else if (isInside && line == "```") {
      isInside = false;
    } else if (isInside && line == "...") {
      parts.emplace_back();
    } else if (isInside) {
      parts.back().push_back(line);
    }
  }
  return parts;
}

bool contains(const Lines &file, const Lines &part) {
  return std::search(file.begin(), file.end(), part.begin(), part.end()) !=
         file.end();
}

/// Each part of the page in \p language is in one of \p files.
void checkParts(const std::string &language, const std::vector<Lines> &files,
                size_t least) {
  const Lines page = linesOf(KILN_SOURCE_DIR "/docs/engine.md");
  const std::vector<Lines> parts = partsOf(page, language);
  CHECK(parts.size() >= least);
  for (const Lines &part : parts) {
    REQUIRE(!part.empty());
    INFO(part.front());
    CHECK(std::any_of(files.begin(), files.end(),
                      [&](const Lines &file) { return contains(file, part); }));
  }
}

} // namespace

TEST_CASE("the C++ of docs/engine.md is that of the examples") {
  std::vector<Lines> sources;
  for (const auto &entry :
       std::filesystem::directory_iterator(KILN_SOURCE_DIR "/examples"))
    if (entry.path().extension() == ".cpp" || entry.path().extension() == ".h")
      sources.push_back(linesOf(entry.path()));
  checkParts("cpp", sources, 10);
}

TEST_CASE("the project of docs/engine.md is the one that is built") {
  checkParts(
      "cmake",
      {linesOf(KILN_SOURCE_DIR "/unittests/Install/guide/CMakeLists.txt")}, 1);
}
