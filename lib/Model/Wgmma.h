//===- Wgmma.h - what wgmma of 16-bit elements takes ----------------------===//
//
// A wgmma multiplies 64 rows with n columns, 16 elements of k deep (PTX ISA,
// wgmma.m64nNk16). Figures in clocks are of an SM.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"

#include <cstdint>

namespace kiln {

/// Rows and depth of one wgmma.
inline constexpr int kWgmmaRows = 64;
inline constexpr int kWgmmaDepth = 16;

/// How many wgmmas multiply \p rows of \p depth elements. Not rounded.
inline double wgmmaCount(int64_t rows, int64_t depth) {
  return double(rows) / kWgmmaRows * (double(depth) / kWgmmaDepth);
}

/// Clocks from one wgmma of \p columns to the next. Narrow ones wait for the
/// rows' tile from shared memory.
double wgmmaClocks(int columns);

/// Clocks that \p count wgmmas of \p columns keep tensor cores busy: waiting
/// for shared memory is not tensor work.
double wgmmaBusyClocks(double count, int columns);

} // namespace kiln
