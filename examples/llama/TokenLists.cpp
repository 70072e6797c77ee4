//===- TokenLists.cpp - lists of token ids from a file --------------------===//
#include "TokenLists.h"

#include "ConfigReader.h"
#include "Error.h"

namespace llama {

TokenLists parseTokenLists(std::string_view json, const std::string &source,
                           int64_t vocabulary) {
  const nlohmann::json parsed = parseJson(json, source);
  if (!parsed.is_array() || parsed.empty())
    throw Error(source + ": " + shown(parsed) +
                ", expected a list of lists of token ids");
  TokenLists lists;
  for (const nlohmann::json &list : parsed) {
    const std::string name = "list " + std::to_string(lists.size());
    const nlohmann::json named = {{name, list}};
    const ConfigReader reader(named, source);
    if (!list.is_array() || list.empty())
      reader.refuse(name.c_str(), "expected token ids");
    lists.push_back(reader.tokens(name.c_str(), vocabulary - 1));
  }
  return lists;
}

TokenLists readTokenLists(const std::string &path, int64_t vocabulary) {
  constexpr uint64_t kMostBytes = 1 << 30;
  return parseTokenLists(readText(path, kMostBytes), path, vocabulary);
}

} // namespace llama
