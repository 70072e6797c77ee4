//===- Json.cpp - JSON of files that may be wrong or hostile --------------===//
#include "Json.h"

#include "Error.h"

#include <fstream>
#include <set>
#include <vector>

namespace llama {

namespace {

using Json = nlohmann::json;

/// Real files have four levels. The parser itself needs no stack for depth, but
/// copies and comparisons of values do.
constexpr size_t kMostLevels = 32;
constexpr size_t kMostShown = 80;

/// Reads a text without making values, and throws Error at the first event that
/// is refused. A callback of the parser that makes values would see the same,
/// but at the end of each object it is slow: it looks through all of the
/// object's siblings for discarded ones.
class StrictEvents : public Json::json_sax_t {
public:
  explicit StrictEvents(const std::string &source) : source(source) {}

  bool start_object(size_t) override { return open(); }
  bool start_array(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string &name) override {
    if (!keys.back().insert(name).second)
      throw Error(source + ": the key \"" + printable(name) +
                  "\" is there twice");
    return true;
  }
  bool parse_error(size_t, const std::string &,
                   const Json::exception &error) override {
    throw Error(source + ": " + printable(error.what()));
  }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string &) override { return true; }
  bool string(std::string &) override { return true; }
  bool binary(Json::binary_t &) override { return true; }

private:
  bool open() {
    if (keys.size() == kMostLevels)
      throw Error(source + ": JSON of more than " +
                  std::to_string(kMostLevels) + " levels");
    keys.emplace_back();
    return true;
  }
  bool close() {
    keys.pop_back();
    return true;
  }

  const std::string &source;
  /// The keys so far of the object or array that is open at each level.
  std::vector<std::set<std::string>> keys;
};

} // namespace

Json parseJson(std::string_view text, const std::string &source) {
  // The parser takes a NUL for the end of the text.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos)
    throw Error(source + ": NUL in JSON at byte " + std::to_string(nul));
  StrictEvents events(source);
  Json::sax_parse(text.begin(), text.end(), &events);
  return Json::parse(text.begin(), text.end());
}

std::string readText(const std::string &path, uint64_t mostBytes) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file)
    throw Error(path + ": cannot be opened");
  const auto end = static_cast<std::streamoff>(file.tellg());
  if (end < 0 || static_cast<uint64_t>(end) > mostBytes)
    throw Error(path + ": " + std::to_string(end) +
                " bytes, expected at most " + std::to_string(mostBytes));
  std::string text(static_cast<size_t>(end), '\0');
  file.seekg(0);
  if (!file.read(text.data(), end))
    throw Error(path + ": cannot be read");
  return text;
}

std::string toText(const nlohmann::ordered_json &value) {
  return value.dump(-1, ' ', false,
                    nlohmann::ordered_json::error_handler_t::replace);
}

std::string shown(const Json &value) {
  // Objects and arrays may be large; their contents do not help a message.
  if (value.is_object())
    return "an object of " + std::to_string(value.size()) + " keys";
  if (value.is_array() && value.size() > 8)
    return "an array of " + std::to_string(value.size()) + " elements";
  return printable(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

std::string printable(std::string_view text) {
  std::string result(text.substr(0, kMostShown));
  for (char &c : result)
    if (c < ' ' || c > '~')
      c = '?';
  if (text.size() > kMostShown)
    result += "...";
  return result;
}

} // namespace llama
