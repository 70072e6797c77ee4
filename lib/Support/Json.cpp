//===- Json.cpp -----------------------------------------------------------===//
#include "Support/Json.h"

#include "Support/Error.h"

#include <llvm/Support/FormatVariadic.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/raw_ostream.h>

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

llvm::Expected<llvm::json::Value> readJsonFile(llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return makeError(ErrorCode::InvalidArgument, "{}: {}", path,
                     buffer.getError().message());
  return parseJson((*buffer)->getBuffer(), path);
}

std::string printJson(const llvm::json::Value &value) {
  return llvm::formatv("{0:2}\n", value).str();
}

} // namespace kiln
