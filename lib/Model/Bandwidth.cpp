//===- Bandwidth.cpp ------------------------------------------------------===//
#include "Model/Bandwidth.h"

#include <algorithm>
#include <cassert>

namespace kiln {

LittlesLaw littlesLaw(double latencyNs, double fullBytesPerNs,
                      double bytesInFlight) {
  assert(latencyNs > 0 && fullBytesPerNs > 0 && "a memory without figures");
  LittlesLaw law{latencyNs, fullBytesPerNs, bytesInFlight};
  law.bytesNeeded = latencyNs * fullBytesPerNs;
  law.reachedBytesPerNs = std::min(fullBytesPerNs, bytesInFlight / latencyNs);
  return law;
}

RampedBandwidth rampedBandwidth(const DeviceModel &device, MemoryLevel level,
                                int64_t blocksInFlight,
                                double bytesInFlightPerBlock) {
  bool isDram = level == MemoryLevel::Dram;
  RampedBandwidth result;
  result.blocksInFlight = blocksInFlight;
  result.bytesInFlightPerBlock = bytesInFlightPerBlock;
  result.law =
      littlesLaw(isDram ? device.dramLatencyNs : device.l2LatencyNs,
                 isDram ? device.dramBytesPerNs() : device.l2BytesPerNs(),
                 static_cast<double>(blocksInFlight) * bytesInFlightPerBlock);
  int64_t busySms = std::min(blocksInFlight, device.smCount);
  result.portBytesPerNs = kL2BytesPerClockPerSm * static_cast<double>(busySms) *
                          device.sustainedMemoryClockMHz * 1e-3;
  result.bytesPerNs =
      std::min(result.law.reachedBytesPerNs, result.portBytesPerNs);
  return result;
}

} // namespace kiln
