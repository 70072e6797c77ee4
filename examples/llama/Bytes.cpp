//===- Bytes.cpp ----------------------------------------------------------===//
#include "Bytes.h"

#include <cstdio>

namespace llama {

std::string bytesText(uint64_t bytes) {
  constexpr double kMiB = 1024.0 * 1024, kGiB = 1024 * kMiB;
  const bool isLarge = double(bytes) >= kGiB;
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f %s",
                double(bytes) / (isLarge ? kGiB : kMiB),
                isLarge ? "GiB" : "MiB");
  return text;
}

} // namespace llama
