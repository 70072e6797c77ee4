//===- SweepReport.h - the worth of the estimator's order -----------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "cli/CommonOptions.h"
#include "cli/Report.h"
#include "kiln-bench/Sweep.h"

#include <string>
#include <vector>

namespace kiln::cli {

/// One case of a sweep.
struct SweepRow {
  const Case *which = nullptr;
  /// Not complete as well: never begun, or the device was lost in it.
  SweepResult result;
  std::string error; ///< empty: result is there

  /// All of the space was tried.
  bool isComplete() const { return error.empty() && result.isComplete; }
  /// And both ends of the comparison have a time.
  bool isDone() const { return isComplete() && result.share(1) > 0; }
  /// There is nothing to compute.
  bool isEmpty() const { return isComplete() && result.configs.empty(); }
};

/// Every config with its prediction and its time, and the share of the best
/// that the first choices reach.
class SweepReport final : public Report {
public:
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;
  int exitCode() const;
  /// True if the user, the time limit or a lost device ended it before all was
  /// measured.
  bool isInterrupted() const;

  std::string what, commit, gpu, driver, toolchain, mode;
  std::vector<SweepRow> rows; ///< of all cases, begun or not
  double elapsedMs = 0;

private:
  /// The cases of one family in which there is something to compute.
  struct Group {
    std::string name;
    std::vector<double> top1, top5; ///< of the spaces that are done
    size_t cases = 0;
    size_t withoutFirst = 0; ///< complete, but the first choice got no time

    /// Figures of spaces that were tried to their end; 0 where a first choice
    /// got no time.
    double least() const;
    std::string text() const;
  };
  std::vector<Group> groups() const;
};

} // namespace kiln::cli
