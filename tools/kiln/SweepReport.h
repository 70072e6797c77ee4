//===- SweepReport.h - what the estimator's order is worth ----------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Tune/Sweep.h"
#include "kiln/Report.h"
#include "kiln/Session.h"

#include <string>
#include <vector>

namespace kiln::cli {

/// One case of a sweep.
struct SweepRow {
  const Case *which = nullptr;
  SweepResult result;
  std::string error; ///< empty: result is there

  /// All of the space was tried, and both ends of the comparison have a time.
  bool isDone() const {
    return error.empty() && result.isComplete && result.share(1) > 0;
  }
};

/// Every config with its prediction and its time, and what the first choices
/// reach of the best.
class SweepReport final : public Report {
public:
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJSON() const override;
  int exitCode() const;

  std::string what, commit, gpu, driver, toolchain, model, mode;
  std::vector<SweepRow> rows;
  bool interrupted = false; ///< by the user or the time limit
  double elapsedMs = 0;

private:
  /// Shares of the cases of one family that have them.
  struct Group {
    std::string name;
    std::vector<double> top1, top5;
  };
  std::vector<Group> groups() const;
};

} // namespace kiln::cli
