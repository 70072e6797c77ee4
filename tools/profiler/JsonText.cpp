//===- JsonText.cpp -------------------------------------------------------===//
#include "profiler/JsonText.h"

#include <cstdio>

namespace kiln::profiler {

/// The length of the character of UTF-8 at \p at; 0: there is none.
static size_t characterAt(const std::string &text, size_t at) {
  auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  auto follows = [&](size_t i) { return (byte(at + i) & 0xc0) == 0x80; };
  const unsigned first = byte(at), second = byte(at + 1);
  if (first < 0x80)
    return 1;
  if (first >= 0xc2 && first <= 0xdf)
    return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool isOverlong = first == 0xe0 && second < 0xa0;
    const bool isSurrogate = first == 0xed && second > 0x9f;
    return follows(1) && follows(2) && !isOverlong && !isSurrogate ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool isOverlong = first == 0xf0 && second < 0x90;
    const bool isBeyond = first == 0xf4 && second > 0x8f;
    return follows(1) && follows(2) && follows(3) && !isOverlong && !isBeyond
               ? 4
               : 0;
  }
  return 0;
}

std::string jsonString(const std::string &text) {
  std::string json = "\"";
  for (size_t at = 0; at < text.size();) {
    const size_t length = characterAt(text, at);
    const char c = text[at];
    if (length == 0) {
      json += '?';
    } else if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      json += escape;
    } else {
      json.append(text, at, length);
    }
    at += length ? length : 1;
  }
  return json + "\"";
}

} // namespace kiln::profiler
