// The C interface as the text of its headers has it: structs with their fields,
// enumerations, numbers and functions. Whatever a header gains is found here,
// so that a test of all of it needs no list.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace kiln::testing {

inline std::string textOf(const std::filesystem::path &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  REQUIRE_FALSE(text.str().empty());
  return text.str();
}

/// Calls \p see with every match of \p pattern in \p text.
template <class See>
void forEachMatch(const std::string &text, const char *pattern, See see) {
  const std::regex regex(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end;
       ++it)
    see(*it);
}

/// One field of a struct: "uint64_t[4]" is the type of "reserved"; that of any
/// pointer is "pointer", and that of an enumeration its integer.
struct HeaderField {
  std::string name, type;
};

class PublicHeaders {
public:
  PublicHeaders() {
    std::vector<std::filesystem::path> paths;
    for (const auto &entry : std::filesystem::directory_iterator(
             std::filesystem::path(KILN_SOURCE_DIR) / "include/kiln"))
      if (entry.path().extension() == ".h")
        paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    std::string text;
    for (const auto &path : paths)
      text += textOf(path);
    text = std::regex_replace(text, std::regex("//[^\n]*"), "");
    readPlain(text);
    readStructs(text);
    readEnumerations(text);
    readFunctions(text);
    std::sort(numbers.begin(), numbers.end());
  }

  std::map<std::string, std::vector<HeaderField>> structs;
  /// Enumerators in their order, by the enumeration's name.
  std::map<std::string, std::vector<std::string>> enumerations;
  std::vector<std::string> numbers;   ///< macros
  std::vector<std::string> functions; ///< prototypes, each one line
  /// Integers that enumerations are passed as, by the enumeration's name.
  std::map<std::string, std::string> plain;

private:
  void readPlain(const std::string &text) {
    forEachMatch(text, R"(typedef (u?int\d+_t) (kiln_\w+);)",
                 [&](const std::smatch &match) { plain[match[2]] = match[1]; });
    forEachMatch(
        text, R"(#define (KILN_\w+) \(?-?\d+\)?\n)",
        [&](const std::smatch &match) { numbers.push_back(match[1]); });
  }
  void readStructs(const std::string &text) {
    forEachMatch(text, R"(typedef struct (\w+) \{([^{}]*)\} \w+;)",
                 [&](const std::smatch &match) {
                   std::stringstream body(match[2]);
                   std::vector<HeaderField> &fields = structs[match[1]];
                   for (std::string line; std::getline(body, line, ';');)
                     addFields(line, fields);
                 });
  }
  void readEnumerations(const std::string &text) {
    forEachMatch(text, R"(enum (\w+) \{([^{}]*)\};)",
                 [&](const std::smatch &match) {
                   std::vector<std::string> &names = enumerations[match[1]];
                   forEachMatch(match[2], R"((?:^|,)\s*(KILN_\w+))",
                                [&](const std::smatch &name) {
                                  names.push_back(name[1]);
                                });
                 });
  }
  void readFunctions(const std::string &text) {
    forEachMatch(
        text, R"(KILN_API ([^;{}]*)KILN_NOEXCEPT;)",
        [&](const std::smatch &match) {
          std::string line =
              std::regex_replace(match[1].str(), std::regex(R"(\s+)"), " ");
          line = std::regex_replace(line, std::regex(R"(\( )"), "(");
          functions.push_back(std::regex_replace(line, std::regex(" $"), ""));
        });
    std::sort(functions.begin(), functions.end());
  }

  /// The fields of "int64_t m, n, k", "void (*run)(void *user)", ...
  void addFields(const std::string &declaration,
                 std::vector<HeaderField> &fields) const {
    std::smatch match;
    const std::string text =
        std::regex_replace(declaration, std::regex(R"(^\s+|\s+$)"), "");
    if (text.empty())
      return;
    if (std::regex_search(text, match, std::regex(R"(\(\*(\w+)\))")) ||
        std::regex_search(text, match, std::regex(R"(\*(\w+)$)"))) {
      fields.push_back({match[1], "pointer"});
      return;
    }
    REQUIRE_MESSAGE(
        std::regex_match(text, match, std::regex(R"((\w+)\s+([^*]+))")), text);
    std::string type = match[1], names = match[2];
    if (auto known = plain.find(type); known != plain.end())
      type = known->second;
    if (type.size() > 3 && type.compare(type.size() - 3, 3, "_fn") == 0)
      type = "pointer";
    forEachMatch(names, R"((\w+)(\[\w+\])?)", [&](const std::smatch &name) {
      fields.push_back({name[1], type + name[2].str()});
    });
  }
};

} // namespace kiln::testing
