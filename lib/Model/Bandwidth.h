//===- Bandwidth.h - Little's law, and what SMs take ----------------------===//
//
// A memory delivers its bandwidth only while bandwidth * latency bytes are in
// flight (Little, 1961). Few blocks, few loads or narrow ones reach less.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"

#include <cstdint>

namespace kiln {

/// Bytes that one SM takes from L2 in a clock (the port of its L1; the same 64
/// bytes stand in DeepGEMM's cost function for 9.0).
inline constexpr double kL2BytesPerClockPerSm = 64;

/// Loads of a busy DRAM take this many times as long as one of an idle DRAM:
/// they queue behind each other (H200: 720 ns, where a lone load takes 288).
inline constexpr double kBusyLatencyFactor = 2.5;

/// From the issue of a load to its data while DRAM is busy.
inline double busyDramLatencyNs(const DeviceModel &device) {
  return kBusyLatencyFactor * device.dramLatencyNs;
}

/// Bytes in flight against what a memory needs.
struct LittlesLaw {
  double latencyNs = 0;
  double fullBytesPerNs = 0;
  double bytesInFlight = 0;
  double bytesNeeded = 0;       ///< latency * bandwidth
  double reachedBytesPerNs = 0; ///< min(full, bytesInFlight / latency)
};

/// Judges \p bytesInFlight of the whole chip. Latency and bandwidth must be
/// positive. Pure, constant time.
LittlesLaw littlesLaw(double latencyNs, double fullBytesPerNs,
                      double bytesInFlight);

/// Bytes a ns that the ports of the SMs take which \p blocks keep busy, at the
/// clock of memory-bound work. Pure, constant time.
double portBytesPerNs(const DeviceModel &device, int64_t blocks);

} // namespace kiln
