//===- JsonText.h - JSON, written by the helper ---------------------------===//
//
// The helper lives in programs of others and takes nothing but the C++ library
// along.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <string>

namespace kiln::profiler {

/// \p text as a JSON string, in quotes. Bytes that are not UTF-8 become '?'.
std::string jsonString(const std::string &text);

class JsonObject {
public:
  /// \p json is a value's text.
  void addRaw(const char *key, const std::string &json) {
    body += (body.empty() ? "\"" : ",\"") + std::string(key) + "\":" + json;
  }
  void add(const char *key, const std::string &text) {
    addRaw(key, jsonString(text));
  }
  void add(const char *key, uint64_t number) {
    addRaw(key, std::to_string(number));
  }
  std::string text() const { return "{" + body + "}"; }

private:
  std::string body;
};

class JsonList {
public:
  void add(const std::string &json) {
    body += (body.empty() ? "" : ",") + json;
  }
  void addFirst(const std::string &json) {
    body = json + (body.empty() ? "" : ",") + body;
  }
  std::string text() const { return "[" + body + "]"; }

private:
  std::string body;
};

} // namespace kiln::profiler
