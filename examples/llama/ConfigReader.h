//===- ConfigReader.h - checked members of a JSON object ------------------===//
//
// A key that is absent or null has its default. Every other value has to have
// the right type and lie within bounds, and a message names key and value.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_CONFIGREADER_H
#define KILN_EXAMPLES_LLAMA_CONFIGREADER_H

#include "Json.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace llama {

class ConfigReader {
public:
  /// Reads \p object, which outlives the reader. Messages begin with \p source,
  /// a file or "file: key". Throws Error if it is not an object.
  ConfigReader(const nlohmann::json &object, std::string source);

  /// The value of \p key; null if it is absent or JSON's null.
  const nlohmann::json *find(const char *key) const;

  /// Whether \p key is JSON's null. Some classes take that for another value
  /// than the default of an absent key.
  bool isNull(const char *key) const;

  /// An integer in [least, most]. Without \p otherwise the key is required.
  int64_t integer(const char *key, int64_t least, int64_t most,
                  std::optional<int64_t> otherwise = std::nullopt) const;

  /// A finite number in [least, most]; nothing if the key is absent.
  std::optional<double> number(const char *key, double least,
                               double most) const;

  /// A number as above of a key that is required.
  double required(const char *key, double least, double most) const;

  bool boolean(const char *key, bool otherwise) const;

  /// Empty if the key is absent.
  std::string text(const char *key) const;

  /// Exactly \p count finite numbers in [least, most]; the key is required.
  std::vector<double> numbers(const char *key, int64_t count, double least,
                              double most) const;

  /// One integer in [0, most] or a list of them; empty if absent.
  std::vector<int32_t> tokens(const char *key, int64_t most) const;

  /// Throws Error: "source: key is <value>, reason".
  [[noreturn]] void refuse(const char *key, const std::string &reason) const;

  const std::string &name() const { return source; }

private:
  const nlohmann::json &object;
  std::string source;
};

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_CONFIGREADER_H
