// No file names a kernel family, except the family's own files, the lists to
// which it is added and the headers with its struct. The names are those of
// Families.def, of the problems' texts and of the families' folders.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

/// Names that are also common words: only the C function, and a text that
/// begins with the name, stand for the family.
const std::set<std::string> kPlainWords = {
    "combine", "gather", "reduce", "rope", "route", "sample", "transpose"};

/// Folders whose names are also common words.
const std::set<std::string> kPlainFolders = {
    "combine", "gather", "memorypass", "rope",
    "route",   "rows",   "sample",     "transpose"};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// Adds the patterns that show the family \p name, in lower case.
void addName(std::string name, std::set<std::string> &names) {
  name = lower(std::move(name));
  if (kPlainWords.count(name) == 0) {
    names.insert(name);
    return;
  }
  names.insert("kiln_" + name);
  names.insert('"' + name + ' ');
  names.insert('"' + name + '"');
}

/// Adds the names in \p file where one of \p patterns matches.
void addNamesIn(const fs::path &file, const std::vector<std::regex> &patterns,
                std::set<std::string> &names) {
  std::ifstream text(file);
  std::smatch match;
  for (std::string line; std::getline(text, line);)
    for (const std::regex &pattern : patterns)
      if (std::regex_search(line, match, pattern))
        addName(match[1], names);
}

/// The names of families: from Families.def, from their problems' texts and
/// from their folders.
std::set<std::string> familyNames(const fs::path &root) {
  std::set<std::string> names;
  const fs::path families = root / "lib/Families";
  addNamesIn(families / "Families.def",
             {std::regex(R"(KILN_FAMILY\(make(\w+)Family\))"),
              std::regex(R"(KILN_CALL\(kiln_(\w+),)")},
             names);
  // The family itself gives its name, or a table of several families does.
  const std::regex said(R"-(\bname\(\) const override \{ return "(\w+)")-");
  const std::regex listed(R"-(\{[A-Z]\w*, "(\w+)"\})-");
  for (const auto &entry : fs::recursive_directory_iterator(families)) {
    const std::string file = entry.path().filename().string();
    if (file.ends_with("Family.cpp"))
      addNamesIn(entry.path(), {said}, names);
    else if (file.ends_with("Problem.cpp"))
      addNamesIn(entry.path(), {listed}, names);
  }
  for (const auto &entry : fs::directory_iterator(families)) {
    const std::string folder = lower(entry.path().filename().string());
    if (entry.is_directory() && kPlainFolders.count(folder) == 0)
      addName(folder, names);
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

/// A family's own files, the lists to which a new family is added, the headers
/// with structs, functions and builders, and the problems of models.
bool belongsToFamily(const fs::path &root, const std::string &file) {
  static const std::set<std::string> kLists = {
      "lib/Families/Families.def",
      "lib/Families/CMakeLists.txt",
      "tools/kiln-bench/CMakeLists.txt",
      "kernel_src/Sources.cmake",
      "include/kiln/kiln.h",
      "include/kiln/types.h",
      "include/kiln/rows.h",
      "include/kiln/moe.h",
      "include/kiln/moe.hpp",
      "include/kiln/launch.h",
      "include/kiln/builders.hpp",
      "include/kiln/problems.hpp",
      "include/kiln/kiln.hpp"};
  if (kLists.count(file) || file.starts_with("lib/Network/"))
    return true;
  std::smatch match;
  static const std::regex kFolder(
      "(?:lib/Families|kernel_src|tools/kiln-bench)/(\\w+)/.*");
  static const std::regex kHeader("include/kiln/(\\w+)\\.h(?:pp)?");
  if (!std::regex_match(file, match, kFolder) &&
      !std::regex_match(file, match, kHeader))
    return false;
  const std::string folder = lower(match[1]);
  const fs::directory_iterator families(root / "lib/Families");
  return std::any_of(begin(families), end(families), [&](const auto &entry) {
    return entry.is_directory() &&
           lower(entry.path().filename().string()) == folder;
  });
}

} // namespace

TEST_CASE("no file but a family's own names it") {
  const fs::path root = KILN_SOURCE_DIR;
  const std::set<std::string> names = familyNames(root);
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
  const std::set<std::string> names = familyNames(KILN_SOURCE_DIR);
  for (const char *name :
       {"gemm", "rmsnorm", "layernorm", "softmax", "rowquant", "\"reduce ",
        "transpose2d", "elementwise"}) {
    INFO(name);
    CHECK(names.count(name) == 1);
  }
  for (const char *line : {"#include \"Families/Gemm/GemmProblem.h\"",
                           "kiln_rms_norm(engine);", "parse(\"reduce rows=1\")",
                           "KILN_TRANSPOSE_X", "rowquant", "RmsNorm"}) {
    INFO(line);
    CHECK(namesFamily(line, names));
  }
  for (const char *line :
       {"isTransposedA(layout)", "// as gemm does", "reduce(values)",
        "{\"samples\", count}", "KILN_FAMILY_COUNT"}) {
    INFO(line);
    CHECK_FALSE(namesFamily(line, names));
  }
  const fs::path root = KILN_SOURCE_DIR;
  CHECK(belongsToFamily(root, "kernel_src/gemm/GemmParams.h"));
  CHECK_FALSE(belongsToFamily(root, "kernel_src/common/Types.h"));
  CHECK_FALSE(belongsToFamily(root, "lib/Families/Chain.h"));
}
