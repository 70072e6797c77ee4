//===- OpenMetrics.h - the counts of an engine for monitoring -------------===//
#pragma once

#include "kiln/statistics.h"

#include <llvm/ADT/ArrayRef.h>

#include <cstdint>
#include <string>

namespace kiln {

/// One field of kiln_statistics as a family of metrics.
struct Metric {
  enum class Kind { Counter, Gauge };
  enum class Unit { None, Bytes, Seconds };

  uint64_t kiln_statistics::*field; ///< in ns where the unit is seconds
  const char *name; ///< behind "kiln_"; ends with the unit, if there is one
  Kind kind;
  Unit unit;
  const char *help; ///< a sentence without '"', '\\' and line ends
};

/// All fields, in their order.
llvm::ArrayRef<Metric> metrics();

/// \p statistics and the version as a text of OpenMetrics 1.0, "# EOF"
/// included.
std::string openMetricsText(const kiln_statistics &statistics);

} // namespace kiln
