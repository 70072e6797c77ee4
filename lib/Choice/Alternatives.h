//===- Alternatives.h - what would be chosen instead ----------------------===//
//
// From the limits to the choice, the other way round: which limit the next
// larger value of each knob breaks, what the next smaller one loses, and what
// would be chosen for another size or on a device with less. Every answer is
// computed by planning it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Space.h"

#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// A config that differs from the subject in one knob.
struct Neighbour {
  std::string knob; ///< "blockM"
  int64_t from = 0, to = 0;
  Values config;
  std::optional<Rejection> rejection; ///< the limit that it breaks
  Estimate estimate;                  ///< if it breaks none
  /// How its addends differ from the subject's, by the size of the change.
  std::vector<Addend> changes;
  bool isInSpace = false;
};

/// The neighbours of \p subject: for each knob the next larger and the next
/// smaller value that configs of its template have in \p space, and, beyond the
/// largest, twice of it or one more. Cost: a derivation each.
std::vector<Neighbour> neighboursOf(const Candidate &subject,
                                    const Space &space, const Problem &problem,
                                    const DeviceModel &device,
                                    const Allowance &allowance);

/// The choice for another size or another device.
struct ChangedChoice {
  std::string change; ///< "k doubled"
  Candidate first;    ///< the choice then
  /// The subject's time then, or why it cannot run.
  Estimate subject = {};
  std::optional<Rejection> rejection = {};
};

/// The choices where a dynamic extent is 16, where an extent doubles, and where
/// shared memory or the bandwidths of L2 and DRAM halve. Changes that make no
/// valid problem are left out. Cost: a ranking each.
std::vector<ChangedChoice> changedChoices(const Candidate &subject,
                                          const KernelFamily &family,
                                          const Problem &problem,
                                          const DeviceModel &device,
                                          const Allowance &allowance);

} // namespace kiln
