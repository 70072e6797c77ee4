//===- Pipeline.h - stages that hide a load -------------------------------===//
//
// A ring of S stages: a stage is refilled for latency + load, then multiplied
// for math, so each stage turns over once in latency + load + math and the ring
// delivers S tiles in that time. Math alone sets the pace once (latency + load
// + math) / S <= math, which is S >= (latency + load)/math + 1. With fewer
// stages the rest of each iteration is exposed.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"

#include <cstdint>

namespace kiln {

/// Times of one k step of one block, and the stages that they demand.
struct Pipeline {
  double latencyNs = 0; ///< from the issue of a load to its first byte
  double loadNs = 0;    ///< from the first to the last byte of a stage
  double mathNs = 0;    ///< to multiply a stage
  int64_t stages = 0;
  int64_t stagesNeeded = 0; ///< ceil((latency + load) / math) + 1
  double exposedNs = 0;     ///< idle time a k step, 0 with stagesNeeded or more
};

/// Judges a ring of \p stages >= 1. \p mathNs must be positive, the others not
/// negative. Pure, constant time.
Pipeline pipeline(double latencyNs, double loadNs, double mathNs,
                  int64_t stages);

/// From the issue of a plain load to its first byte, where \p missShare of the
/// loads go to DRAM. Where most do, a stage waits for one of these.
double loadLatencyNs(const DeviceModel &device, double missShare);

/// The latency that TMA adds to a plain load's: 217 ns where a load takes 265
/// clocks, 595 where one takes 598 (H100 SXM, third-party).
inline constexpr double kTmaLatencyNs = 200;

} // namespace kiln
