// The Python mirror of the C interface has the fields of the headers' structs:
// all of them, in their order, with their types. (Its self-test compares
// offsets, of the fields that it has.)
#include <llvm/ADT/StringExtras.h>
#include <llvm/ADT/StringRef.h>

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace {

/// "threads int32_t", "reserved uint64_t[4]", "log pointer".
using Fields = std::vector<std::string>;
/// By the struct's name in C.
using Structs = std::map<std::string, Fields>;

std::string textOf(const std::string &path) {
  std::ifstream file(std::string(KILN_SOURCE_DIR) + "/" + path);
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

/// The structs of one header, without comments.
class Header {
public:
  explicit Header(const std::string &path)
      : text(std::regex_replace(textOf(path), std::regex("//[^\n]*"), "")) {
    forEachMatch(text, R"(typedef (u?int\d+_t) (kiln_\w+);)",
                 [&](const std::smatch &match) { plain[match[2]] = match[1]; });
  }

  Structs structs() const {
    Structs found;
    forEachMatch(text, R"(typedef struct (\w+) \{([^{}]*)\} \w+;)",
                 [&](const std::smatch &match) {
                   Fields &fields = found[match[1]];
                   llvm::SmallVector<llvm::StringRef> declarations;
                   std::string body = match[2];
                   llvm::StringRef(body).split(declarations, ';');
                   for (llvm::StringRef declaration : declarations)
                     add(declaration.trim().str(), fields);
                 });
    return found;
  }

  /// Names of the integers that enumerations are passed as.
  std::map<std::string, std::string> plain;

private:
  /// The fields of "int64_t m, n, k", "void (*run)(void *user)", ...
  void add(const std::string &declaration, Fields &fields) const {
    std::smatch match;
    if (declaration.empty())
      return;
    if (std::regex_search(declaration, match, std::regex(R"(\(\*(\w+)\))")) ||
        std::regex_search(declaration, match, std::regex(R"(\*(\w+)$)"))) {
      fields.push_back(match[1].str() + " pointer");
      return;
    }
    REQUIRE(std::regex_match(declaration, match,
                             std::regex(R"((?:const )?(\w+)\s+([^*]+))")));
    std::string type = match[1], names = match[2];
    if (auto known = plain.find(type); known != plain.end())
      type = known->second;
    if (llvm::StringRef(type).ends_with("_fn"))
      type = "pointer";
    forEachMatch(names, R"((\w+)(\[\d+\])?)", [&](const std::smatch &name) {
      fields.push_back(name[1].str() + " " + type + name[2].str());
    });
  }

  std::string text;
};

/// The structs of kiln_ctypes.py.
Structs pythonStructs() {
  std::string text = textOf("benchmarks/peers/kiln_ctypes.py");
  std::map<std::string, std::string> names; // of the classes, in C
  auto typeOf = [&](std::string type) {
    if (auto known = names.find(type); known != names.end())
      return known->second;
    type = std::regex_replace(type, std::regex(R"(^c_(u?int\d+)\b)"), "$1_t");
    type = std::regex_replace(type, std::regex("^c_double$"), "double");
    type = std::regex_replace(type, std::regex(R"( \* (\d+)$)"), "[$1]");
    bool isPointer = std::regex_match(
        type, std::regex(R"(POINTER\(\w+\)|c_char_p|c_void_p|\w+Function)"));
    return isPointer ? std::string("pointer") : type;
  };
  Structs found;
  forEachMatch(
      text,
      R"re(class (\w+)\(CStruct\):\s+c_name = "(\w+)"\s+_fields_ = \[([^\]]*)\])re",
      [&](const std::smatch &match) {
        names[match[1]] = match[2];
        Fields &fields = found[match[2]];
        forEachMatch(match[3], R"re(\("(\w+)", ([\w* ]+(?:\(\w+\))?)\))re",
                     [&](const std::smatch &field) {
                       fields.push_back(field[1].str() + " " +
                                        typeOf(field[2]));
                     });
      });
  return found;
}

} // namespace

TEST_CASE("the Python mirror has the fields of the headers") {
  Structs headers;
  Header types("include/kiln/types.h"), kiln("include/kiln/kiln.h");
  Header attention("include/kiln/attention.h");
  kiln.plain.insert(types.plain.begin(), types.plain.end());
  attention.plain.insert(types.plain.begin(), types.plain.end());
  headers.merge(types.structs());
  headers.merge(attention.structs());
  headers.merge(kiln.structs());
  CHECK(headers.at("kiln_range") ==
        Fields{"struct_size uint32_t", "flags uint32_t", "name pointer",
               "first int64_t", "last int64_t", "hint int64_t",
               "reserved uint64_t[2]"});
  CHECK(headers.at("kiln_problem")[1] == "family int32_t");
  Structs mirror = pythonStructs();
  CHECK(mirror.size() == 17);
  for (const auto &[name, fields] : mirror) {
    CAPTURE(name);
    REQUIRE(headers.count(name) == 1);
    CHECK(fields.size() > 4);
    CHECK(llvm::join(fields, ", ") == llvm::join(headers.at(name), ", "));
  }
}
