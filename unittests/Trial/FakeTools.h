//===- FakeTools.h - trial tools that know no type, on the host -----------===//
#pragma once

#include "trial/TrialParams.h"

#include <cstring>

namespace kiln::fake {

/// The parameters of a launch of the stand-in driver.
template <class Params> Params paramsOf(const void *bytes) {
  Params params;
  std::memcpy(static_cast<void *>(&params), bytes, sizeof(params));
  return params;
}

inline void fillPattern(const FillPatternParams &params) {
  std::memset(params.data, static_cast<int>(params.pattern & 0xff),
              static_cast<size_t>(params.bytes));
}

inline void checkRedZone(const CheckRedZoneParams &params) {
  auto *data = static_cast<const unsigned char *>(params.data);
  for (long long zone = 0; zone < params.zones; ++zone)
    for (long long i = 0; i < params.bytes; ++i)
      *params.differing +=
          data[zone * params.pitch + i] != (params.pattern & 0xff);
}

inline void countDifferences(const CountDifferencesParams &params) {
  auto *left = static_cast<const char *>(params.left);
  auto *right = static_cast<const char *>(params.right);
  for (long long i = 0; i < params.bytes; ++i)
    *params.differing += left[i] != right[i];
}

} // namespace kiln::fake
