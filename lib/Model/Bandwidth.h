//===- Bandwidth.h - latencies and rates of memories ----------------------===//
//
// A memory delivers its bandwidth only while bandwidth * latency bytes are in
// flight (Little, 1961). Few blocks, few loads or narrow ones reach less.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Model/Figure.h"

#include <algorithm>
#include <cstdint>

namespace kiln {

/// Bytes that one SM takes from L2 in a clock (the port of its L1; the same 64
/// bytes stand in DeepGEMM's cost function for 9.0).
inline constexpr double kL2BytesPerClockPerSm = 64;

/// Loads of a busy DRAM take this many times as long as one of an idle DRAM:
/// they queue behind each other (H200: 720 ns, where a lone load takes 288).
inline constexpr double kBusyLatencyFactor = 2.5;

/// From the issue of a load to its data while DRAM is busy.
template <Number N = double> N busyDramLatencyNs(const DeviceModel &device) {
  return named(fitted<N>(kBusyLatencyFactor, "busy over idle") *
                   deviceValue<N>(device, &DeviceModel::dramLatencyNs),
               "latency of a busy DRAM", "ns");
}

/// The clock of memory-bound work, in GHz.
template <Number N> N memoryClock(const DeviceModel &device) {
  return deviceValue<N>(device, &DeviceModel::sustainedMemoryClockMHz) /
         N(1000);
}

/// Bytes a ns that the port of an SM takes at that clock.
template <Number N = double> N portBytesPerNs(const DeviceModel &device) {
  return named(fitted<N>(kL2BytesPerClockPerSm, "port", "B/clk") *
                   memoryClock<N>(device),
               "port of an SM", "B/ns");
}

/// The same of the SMs which \p blocks keep busy.
template <Number N = double>
N portBytesPerNs(const DeviceModel &device, int64_t blocks) {
  return given<N>(double(std::min(blocks, device.smCount)), "busy SMs") *
         portBytesPerNs<N>(device);
}

} // namespace kiln
