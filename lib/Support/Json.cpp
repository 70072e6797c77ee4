//===- Json.cpp -----------------------------------------------------------===//
#include "Support/Json.h"

#include "Support/Error.h"
#include "Support/ReadFile.h"

#include <llvm/ADT/StringSet.h>
#include <llvm/Support/FormatVariadic.h>

namespace kiln {

static constexpr int kMaxDepth = 64;

/// Greatest nesting of brackets outside of strings.
static int nestingDepth(llvm::StringRef text) {
  int depth = 0, deepest = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (inString) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        inString = false;
      continue;
    }
    if (c == '"')
      inString = true;
    else if (c == '[' || c == '{')
      deepest = std::max(deepest, ++depth);
    else if (c == ']' || c == '}')
      --depth;
  }
  return deepest;
}

llvm::Expected<llvm::json::Value>
parseJson(llvm::StringRef text, llvm::StringRef what, size_t maxBytes) {
  if (text.size() > maxBytes)
    return makeError(ErrorCode::InvalidArgument,
                     "{}: {} bytes of JSON, at most {} are read", what,
                     text.size(), maxBytes);
  if (int depth = nestingDepth(text); depth > kMaxDepth)
    return makeError(ErrorCode::InvalidArgument,
                     "{}: JSON nested {} deep, at most {} is read", what, depth,
                     kMaxDepth);
  auto value = llvm::json::parse(text);
  if (!value)
    return makeError(ErrorCode::InvalidArgument, "{}: {}", what,
                     llvm::toString(value.takeError()));
  return std::move(*value);
}

/// The first key of \p text, which is JSON, that its object has twice.
static std::optional<std::string> repeatedKey(llvm::StringRef text) {
  std::vector<llvm::StringSet<>> keys; // of every array or object around
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{' || text[i] == '[')
      keys.emplace_back();
    else if (text[i] == '}' || text[i] == ']')
      keys.pop_back();
    if (text[i] != '"')
      continue;
    const size_t begin = i;
    for (++i; text[i] != '"'; ++i)
      i += text[i] == '\\';
    // Only a key is followed by a colon.
    if (!text.drop_front(i + 1).ltrim(" \t\r\n").starts_with(":"))
      continue;
    // Parsed: a letter may be written as an escape.
    auto key = llvm::cantFail(llvm::json::parse(text.slice(begin, i + 1)));
    if (!keys.back().insert(*key.getAsString()).second)
      return key.getAsString()->str();
  }
  return std::nullopt;
}

llvm::Expected<llvm::json::Value> readJsonFile(llvm::StringRef path) {
  auto text = readNamedFile(path.str(), kMaxJsonBytes);
  if (!text)
    return text.takeError();
  auto value = parseJson(*text, path);
  if (!value)
    return value.takeError();
  if (auto key = repeatedKey(*text))
    return makeError(ErrorCode::InvalidArgument, "{}: key '{}' is there twice",
                     path, *key);
  return value;
}

std::string jsonText(llvm::StringRef text) {
  return llvm::json::isUTF8(text) ? text.str() : llvm::json::fixUTF8(text);
}

std::string printJson(const llvm::json::Value &value) {
  return llvm::formatv("{0:2}\n", value).str();
}

} // namespace kiln
