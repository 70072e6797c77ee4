//===- Rates.h - rates that estimates divide by ---------------------------===//
//
// A rate of a DeviceModel is 0 where the device has no such unit. An estimate
// that divides by it is about a kernel that cannot run there, or that computes
// with another unit than the estimate thinks. Both are errors of the template.
// So no estimate puts another number in the place of 0.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Model/Figure.h"

#include <cassert>

namespace kiln {

/// Returns \p rate of \p device, that of the unit which the estimated kernel
/// computes with. It must be above 0; where assertions are off, a time made
/// from a rate of 0 is infinite, so its config is chosen last.
template <Number N>
N usedRate(const DeviceModel &device, double DeviceModel::*rate) {
  assert(hasRate(device, rate) && "a rate that the device has not");
  return deviceValue<N>(device, rate);
}

/// The bytes that the pins of the DRAM move: two transfers a clock.
template <Number N> N dramPinsRate(const DeviceModel &device) {
  return named(N(2) * deviceValue<N>(device, &DeviceModel::memoryClockMHz) *
                   deviceValue<N>(device, &DeviceModel::memoryBusBits) / N(8) /
                   N(1000),
               "DRAM's pins", "B/ns");
}

/// The rate of long streams that are only read, which is by the factor
/// \p overSums that of a sum, up to that of the pins.
template <Number N>
N longStreamRate(const DeviceModel &device, double overSums) {
  const N sums = deviceValue<N>(device, &DeviceModel::dramGBs);
  return named(
      largest(
          {sums, least({fitted<N>(overSums, "long streams over sums") * sums,
                        dramPinsRate<N>(device)})}),
      "DRAM's rate", "B/ns");
}

} // namespace kiln
