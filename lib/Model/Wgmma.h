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

/// A lone consumer waits so many clocks for its barrier between stages; of two
/// one multiplies meanwhile.
inline constexpr double kLoneConsumerClocks = 30;

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

/// Bytes of shared memory that one wgmma of \p columns reads: its rows and all
/// columns. What TMA writes meanwhile does not show (two consumers of 128 x 192
/// run at the rate of one of 256 on an H200).
inline double wgmmaSharedBytes(int columns) {
  constexpr int kElementBytes = 2;
  return double((kWgmmaRows + columns) * kWgmmaDepth * kElementBytes);
}

/// The power floor: the time of products that keep the tensor cores of each SM
/// busy for \p clocksPerSm. A board whose tensor cores all work lowers its
/// clock until they fit its power limit, so all products of the chip together
/// run at the clock that it sustains, however they are cut.
double powerFloorNs(const DeviceModel &device, double clocksPerSm);

} // namespace kiln
