//===- Json.h - llvm/Support/JSON.h with limits and Kiln's errors ---------===//
#pragma once

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <string>

namespace kiln {

/// Longest JSON that is read from a file.
inline constexpr size_t kMaxJsonBytes = 64u << 20;

/// Parses untrusted JSON. llvm::json::parse recurses once a nesting level, so
/// text over \p maxBytes or nested deeper than 64 is refused before it runs.
/// \p what names the text in errors (a path, usually).
llvm::Expected<llvm::json::Value> parseJson(llvm::StringRef text,
                                            llvm::StringRef what,
                                            size_t maxBytes = kMaxJsonBytes);

/// Reads and parses a file that people write, see readNamedFile(). A key that
/// an object has twice is an error, too: it is unclear which one is meant.
/// Errors: InvalidArgument, also for a file that cannot be read, because the
/// caller named it.
llvm::Expected<llvm::json::Value> readJsonFile(llvm::StringRef path);

/// \p text as a JSON string may hold it: bytes that are not UTF-8, as in some
/// paths, are replaced by U+FFFD.
std::string jsonText(llvm::StringRef text);

/// Prints \p value indented by two spaces, with a newline at the end.
std::string printJson(const llvm::json::Value &value);

} // namespace kiln
