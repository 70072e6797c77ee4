//===- SafetensorsFixture.h - safetensors files for tests -----------------===//
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>

namespace llama::testing {

/// A file with the header \p json, whatever it says, and \p dataBytes bytes.
inline std::string safetensorsBytes(const std::string &json,
                                    uint64_t dataBytes) {
  std::string file;
  for (int i = 0; i < 8; ++i)
    file += static_cast<char>(json.size() >> (8 * i));
  file += json;
  for (uint64_t i = 0; i < dataBytes; ++i)
    file += static_cast<char>(i);
  return file;
}

inline void writeFile(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

} // namespace llama::testing
