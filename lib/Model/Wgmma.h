//===- Wgmma.h - clocks of wgmma ------------------------------------------===//
//
// A wgmma multiplies 64 rows with n columns, 32 bytes of k deep, whatever the
// type (PTX ISA, wgmma.m64nNk16 and others), in as many clocks. Clocks are
// those of an SM.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"

#include <cstdint>

namespace kiln {

/// Rows of one wgmma, and bytes of each.
inline constexpr int kWgmmaRows = 64;
inline constexpr int kWgmmaRowBytes = 32;

/// How many wgmmas multiply \p rows of \p bytes each. Not rounded.
inline double wgmmaCount(int64_t rows, int64_t bytes) {
  return double(rows) / kWgmmaRows * (double(bytes) / kWgmmaRowBytes);
}

/// Clocks from one wgmma of \p columns to the next. Narrow ones wait for the
/// rows' tile from shared memory.
double wgmmaClocks(int columns);

/// Clocks for which \p count wgmmas of \p columns keep tensor cores busy;
/// waiting for shared memory is not counted.
double wgmmaBusyClocks(double count, int columns);

} // namespace kiln
