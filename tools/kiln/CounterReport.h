//===- CounterReport.h - counters of kernels, beside their estimates ------===//
#pragma once

#include "Choice/Explanation.h"
#include "cli/CounterProfiler.h"
#include "cli/Report.h"
#include "cli/Suite.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kiln::cli {

/// The metrics that a report shows, as ncu calls them.
std::vector<std::string> reportedMetrics();

/// The prediction for the config of a kernel.
struct CounterEstimate {
  double ns = 0;
  std::string bound; ///< "dram"
  std::optional<double> blocksPerSm, dramBytes;

  static CounterEstimate of(const Explanation &explanation);
};

/// The launches of one kernel; where problems were given, of one problem.
struct CounterRow {
  const Case *which = nullptr; ///< null: a command was counted
  std::string name, shown;     ///< of the kernel
  size_t launches = 0;
  std::map<std::string, double> means; ///< by metric
  std::optional<CounterEstimate> estimate;
};

class CounterReport final : public Report {
public:
  /// Adds the kernels of \p counted, in the order of their first launches.
  void add(const CountedLaunches &counted, const Case *which,
           const Registry &registry);

  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;

  std::vector<CounterRow> rows;
  std::vector<std::string> missing; ///< metrics that this GPU lacks
};

} // namespace kiln::cli
