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

} // namespace kiln
