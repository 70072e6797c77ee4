//===- Roofline.h - what a problem asks of a device -----------------------===//
#pragma once

#include "Kernel/Family.h"
#include "Model/Figure.h"

#include <optional>

namespace kiln {

/// The limits that no config of a problem exceeds: each byte moves once at the
/// rate of the DRAM's pins, and all arithmetic runs on the fastest unit at the
/// highest clock.
struct Roofline {
  Figure bytes = 0; ///< that must move at least
  Figure pins = 0;  ///< of the DRAM, in B/ns

  struct Arithmetic {
    Figure flop = 0;
    Figure perClock = 0;  ///< flop/clk of the device
    Figure peak = 0;      ///< flop/ns
    Figure intensity = 0; ///< flop/B of the problem
    Figure ridge = 0;     ///< the intensity at which both limits are equal
  };
  /// nullopt: memory must set the pace.
  std::optional<Arithmetic> arithmetic;

  /// The least time by these limits, in ns.
  double leastNs() const;
};

Roofline rooflineOf(const KernelFamily &family, const Problem &problem,
                    const DeviceModel &device);

} // namespace kiln
