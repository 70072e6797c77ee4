//===- Json.h - JSON of files that may be wrong or hostile ----------------===//
//
// nlohmann::json takes more than the formats of this engine allow: a key twice,
// a NUL that ends the text early, any depth. This reader refuses all three.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_JSON_H
#define KILN_EXAMPLES_LLAMA_JSON_H

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace llama {

/// Parses \p text, which is one JSON value with nothing but blanks around it.
/// Throws Error, whose message begins with \p source, for a syntax error, an
/// object with a key twice, a NUL byte, and more than 32 levels. The time is
/// that of reading the text twice: seconds for 100 MB.
nlohmann::json parseJson(std::string_view text, const std::string &source);

/// The bytes of a file of at most \p mostBytes; throws Error.
std::string readText(const std::string &path, uint64_t mostBytes);

/// \p value in one line. Bytes of strings that are no UTF-8 are replaced.
std::string toText(const nlohmann::ordered_json &value);

/// \p value as text for a message, cut where it is long.
std::string shown(const nlohmann::json &value);

/// Text for a message: bytes that are not printable become '?', and it is cut
/// where it is long.
std::string printable(std::string_view text);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_JSON_H
