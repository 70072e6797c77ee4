//===- Roofline.cpp -------------------------------------------------------===//
#include "Kernel/Roofline.h"

#include "Kernel/MemoryBound.h"
#include "Model/Rates.h"

#include <algorithm>

namespace kiln {

double Roofline::leastNs() const {
  const double move = bytes.value() / pins.value();
  return arithmetic ? std::max(move, arithmetic->flop.value() /
                                         arithmetic->peak.value())
                    : move;
}

Roofline rooflineOf(const KernelFamily &family, const Problem &problem,
                    const DeviceModel &device) {
  Roofline roof;
  roof.bytes = named(
      given<Figure>(family.compulsoryBytes(problem), "bytes once each", "B"),
      "bytes of the problem", "B");
  // Long streams are faster than the device's figure for good kernels.
  roof.pins = dramPinsRate<Figure>(device);
  double DeviceModel::*rate = family.peakRate(problem, device);
  if (!hasRate(device, rate) || isMemoryBound(family, problem))
    return roof;
  Roofline::Arithmetic &arithmetic = roof.arithmetic.emplace();
  arithmetic.flop =
      given<Figure>(family.flops(problem), "flop of the problem", "flop");
  arithmetic.perClock =
      figureOf(device, rate) * figureOf(device, &DeviceModel::smCount);
  arithmetic.peak = named(arithmetic.perClock *
                              figureOf(device, &DeviceModel::smClockMHz) / 1000,
                          "dense peak", "flop/ns");
  arithmetic.intensity =
      named(arithmetic.flop / roof.bytes, "intensity of the problem", "flop/B");
  arithmetic.ridge =
      named(arithmetic.peak / roof.pins, "ridge of the problem", "flop/B");
  return roof;
}

} // namespace kiln
