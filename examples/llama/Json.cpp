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
constexpr int kMostLevels = 32;
constexpr size_t kMostShown = 80;

/// Watches the events of the parser; throws Error at the first that is refused.
class StrictEvents {
public:
  explicit StrictEvents(const std::string &source) : source(source) {}

  bool operator()(int depth, Json::parse_event_t event, Json &parsed) {
    if (event == Json::parse_event_t::object_start ||
        event == Json::parse_event_t::array_start) {
      if (depth >= kMostLevels)
        throw Error(source + ": JSON of more than " +
                    std::to_string(kMostLevels) + " levels");
      keys.resize(static_cast<size_t>(depth) + 1);
      keys.back().clear();
    } else if (event == Json::parse_event_t::key) {
      // Keys are one level below their object's start.
      auto &seen = keys[static_cast<size_t>(depth) - 1];
      const auto &key = parsed.get_ref<const std::string &>();
      if (!seen.insert(key).second)
        throw Error(source + ": the key \"" + printable(key) +
                    "\" is there twice");
    }
    return true;
  }

private:
  const std::string &source;
  /// The keys so far of the object that is open at each level.
  std::vector<std::set<std::string>> keys;
};

} // namespace

Json parseJson(std::string_view text, const std::string &source) {
  // The parser takes a NUL for the end of the text.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos)
    throw Error(source + ": NUL in JSON at byte " + std::to_string(nul));
  try {
    StrictEvents events(source);
    return Json::parse(
        text.begin(), text.end(),
        [&events](int depth, Json::parse_event_t event, Json &parsed) {
          return events(depth, event, parsed);
        });
  } catch (const Json::exception &error) {
    throw Error(source + ": " + printable(error.what()));
  }
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
