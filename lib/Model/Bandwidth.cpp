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

double portBytesPerNs(const DeviceModel &device, int64_t blocks) {
  int64_t busySms = std::min(blocks, device.smCount);
  return kL2BytesPerClockPerSm * static_cast<double>(busySms) *
         device.sustainedMemoryClockMHz * 1e-3;
}

} // namespace kiln
