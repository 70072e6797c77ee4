// The Python mirror of the C interface has the fields of the headers' structs:
// all of them, in their order, with their types. (Its self-test compares
// offsets, of the fields that it has.)
#include "Install/PublicHeaders.h"

using namespace kiln::testing;

namespace {

/// By the struct's name in C.
using Structs = std::map<std::string, std::vector<HeaderField>>;

/// The structs of kiln_ctypes.py.
Structs pythonStructs() {
  std::string text =
      textOf(std::string(KILN_SOURCE_DIR) + "/benchmarks/peers/kiln_ctypes.py");
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
        std::vector<HeaderField> &fields = found[match[2]];
        forEachMatch(match[3], R"re(\("(\w+)", ([\w* ]+(?:\(\w+\))?)\))re",
                     [&](const std::smatch &field) {
                       fields.push_back({field[1], typeOf(field[2])});
                     });
      });
  return found;
}

} // namespace

TEST_CASE("the Python mirror has the fields of the headers") {
  const PublicHeaders headers;
  const Structs mirror = pythonStructs();
  CHECK(mirror.size() == 20);
  for (const auto &[name, fields] : mirror) {
    CAPTURE(name);
    REQUIRE(headers.structs.count(name) == 1);
    const std::vector<HeaderField> &expected = headers.structs.at(name);
    CHECK(fields.size() >= 4);
    REQUIRE(fields.size() == expected.size());
    for (size_t i = 0; i < fields.size(); ++i) {
      CAPTURE(expected[i].name);
      CHECK(fields[i].name == expected[i].name);
      CHECK(fields[i].type == expected[i].type);
    }
  }
}
