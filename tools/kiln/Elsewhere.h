//===- Elsewhere.h - a time that another GPU measured ---------------------===//
#pragma once

#include "Store/Records.h"

#include <llvm/Support/JSON.h>

#include <optional>
#include <string>

namespace kiln::cli {

/// The fastest config that trials of another device found for a problem, and
/// its time brought to this one by the ratio of the two estimates: a guess.
struct MeasuredElsewhere {
  std::string device; ///< name of the other one
  std::string config;
  double measuredNs = 0; ///< there
  double ratio = 0;      ///< of the estimate here to the one there
  double rescaledNs() const { return measuredNs * ratio; }

  std::string text() const;
  llvm::json::Object toJson() const;
};

/// Looks for one where \p records have nothing that was measured at \p problem
/// on a device like \p device. A device of the same capability goes first; it
/// must be in the catalog, and the config must be allowed here. Reads the heads
/// of all records of \p cache.
std::optional<MeasuredElsewhere> findElsewhere(cache::Store &cache,
                                               const RecordStore &records,
                                               const KernelFamily &family,
                                               const Problem &problem,
                                               const DeviceModel &device);

} // namespace kiln::cli
