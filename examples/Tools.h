//===- Tools.h - what the C++ examples share ------------------------------===//
//
// Errors end the program, and bf16 on the host.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_TOOLS_H
#define KILN_EXAMPLES_TOOLS_H

#include <kiln/kiln.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

[[noreturn]] inline void fail(const std::string &what) {
  std::fprintf(stderr, "failed: %s\n", what.c_str());
  std::exit(1);
}

inline void check(int result, const char *what) {
  if (result != 0)
    fail(std::string(what) + ": CUDA error " + std::to_string(result));
}

inline void check(const kiln::Status &status, const char *what) {
  if (!status.ok())
    fail(std::string(what) + ": " + status.name() + ": " + status.message());
}

inline uint16_t toBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline double fromBf16(uint16_t value) {
  uint32_t bits = static_cast<uint32_t>(value) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

#endif // KILN_EXAMPLES_TOOLS_H
