//===- FakeTools.h - trial tools without types, on the host ---------------===//
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
  for (long long i = 0; i < params.bytes; ++i)
    *params.differing += data[i] != (params.pattern & 0xff);
}

inline void checkGaps(const CheckGapsParams &params) {
  auto *data = static_cast<const unsigned char *>(params.data);
  const int bytes = bytesOf(params.type);
  for (long long i = 0; i < params.grid.span() * bytes; ++i)
    if (!params.grid.isOfRow(i / bytes))
      *params.differing += data[i] != (params.pattern & 0xff);
}

inline void fillIntegers(const FillIntegersParams &params) {
  const long long cols = params.layout.cols;
  for (long long i = 0; i < params.layout.rowCount() * cols; ++i) {
    const long long at = params.layout.offsetOf(i / cols) + i % cols;
    if (params.type == DType::INT64)
      static_cast<long long *>(params.data)[at] = params.values.at(i);
    else
      static_cast<int *>(params.data)[at] =
          static_cast<int>(params.values.at(i));
  }
}

inline void countDifferences(const CountDifferencesParams &params) {
  auto *left = static_cast<const char *>(params.left);
  auto *right = static_cast<const char *>(params.right);
  for (long long i = 0; i < params.bytes; ++i)
    *params.differing += left[i] != right[i];
}

} // namespace kiln::fake
