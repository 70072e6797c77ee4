// No file names a kernel family, except those of the family, the lists that it
// is added to and the headers that have its struct. The names are those of
// Families.def.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>

namespace fs = std::filesystem;

namespace {

/// Names that are words of other things too: only the C function and a text
/// that begins with one is the family.
const std::set<std::string> kPlainWords = {"reduce", "transpose"};

/// What problems' texts call a family, where Families.def calls it otherwise.
const std::set<std::string> kOtherNames = {"rowquant", "transpose2d"};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// What a family's name shows in, in lower case, read from \p list.
std::set<std::string> namesIn(std::istream &list) {
  static const std::regex kMade(R"(KILN_FAMILY\(make(\w+)Family\))");
  static const std::regex kCalled(R"(KILN_CALL\(kiln_(\w+),)");
  std::set<std::string> names = kOtherNames;
  std::smatch match;
  for (std::string line; std::getline(list, line);) {
    if (!std::regex_search(line, match, kMade) &&
        !std::regex_search(line, match, kCalled))
      continue;
    std::string name = lower(match[1]);
    if (kPlainWords.count(name) == 0) {
      names.insert(name);
      continue;
    }
    names.insert("kiln_" + name);
    names.insert('"' + name);
  }
  return names;
}

/// \p line in lower case, without a comment.
std::string codeOf(std::string line) {
  line.resize(std::min(line.size(), line.find("//")));
  return lower(std::move(line));
}

bool namesFamily(const std::string &line, const std::set<std::string> &names) {
  const std::string code = codeOf(line);
  return std::any_of(names.begin(), names.end(), [&](const std::string &name) {
    return code.find(name) != std::string::npos;
  });
}

/// A family's own files, the lists that a new one is added to, and the headers
/// that have structs, functions and builders.
bool belongsToFamily(const fs::path &root, const std::string &file) {
  static const std::set<std::string> kLists = {
      "lib/Families/Families.def", "lib/Families/CMakeLists.txt",
      "kernel_src/Sources.cmake",  "include/kiln/kiln.h",
      "include/kiln/types.h",      "include/kiln/rows.h",
      "include/kiln/problems.hpp"};
  if (kLists.count(file))
    return true;
  std::smatch match;
  static const std::regex kFolder("(?:lib/Families|kernel_src)/(\\w+)/.*");
  if (!std::regex_match(file, match, kFolder))
    return false;
  std::string folder = match[1];
  folder[0] = static_cast<char>(std::toupper(folder[0]));
  return fs::is_directory(root / "lib/Families" / folder);
}

} // namespace

TEST_CASE("no file but a family's own names it") {
  const fs::path root = KILN_SOURCE_DIR;
  std::ifstream list(root / "lib/Families/Families.def");
  const std::set<std::string> names = namesIn(list);
  size_t files = 0, own = 0;
  for (const char *folder : {"include", "kernel_src", "lib", "tools"})
    for (const auto &entry : fs::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file())
        continue;
      const std::string file = entry.path().lexically_relative(root).string();
      const bool isOwn = belongsToFamily(root, file);
      ++(isOwn ? own : files);
      std::ifstream text(entry.path());
      for (std::string line; !isOwn && std::getline(text, line);)
        if (namesFamily(line, names))
          FAIL_CHECK(file << ": " << line);
    }
  CHECK(files > 200);
  CHECK(own > 100);
}

TEST_CASE("a family's name is found in code") {
  std::ifstream list(fs::path(KILN_SOURCE_DIR) / "lib/Families/Families.def");
  const std::set<std::string> names = namesIn(list);
  for (const char *line : {"#include \"Families/Gemm/GemmProblem.h\"",
                           "kiln_rms_norm(engine);", "parse(\"reduce rows=1\")",
                           "KILN_TRANSPOSE_X", "rowquant", "RmsNorm"}) {
    INFO(line);
    CHECK(namesFamily(line, names));
  }
  for (const char *line : {"isTransposedA(layout)", "// as gemm does",
                           "reduce(values)", "KILN_FAMILY_COUNT"}) {
    INFO(line);
    CHECK_FALSE(namesFamily(line, names));
  }
  const fs::path root = KILN_SOURCE_DIR;
  CHECK(belongsToFamily(root, "kernel_src/gemm/GemmParams.h"));
  CHECK_FALSE(belongsToFamily(root, "kernel_src/common/Types.h"));
  CHECK_FALSE(belongsToFamily(root, "lib/Families/Chain.h"));
}
