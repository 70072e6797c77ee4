//===- QualityReport.h - the quality of the performance model -------------===//
#pragma once

#include "cli/Report.h"
#include "kiln-bench/Quality.h"

#include <string>
#include <vector>

namespace kiln::cli {

/// Limits of figures, in thousandths, for each split and regime: "top1",
/// "top1_tenth", "top5" and "correlation" may not fall, and "time_error" may
/// not rise.
struct QualityFloors {
  std::map<std::string, std::map<std::string, std::map<std::string, int64_t>>>
      floors;

  /// The figures of \p table, rounded to the worse side. Regimes of one or two
  /// problems have no floors. Where little besides the fastest was kept of each
  /// space, ranks and times have no floors.
  static QualityFloors of(const QualityTable &table);
  /// Errors: InvalidArgument for a value that is no such object.
  static llvm::Expected<QualityFloors> parse(const llvm::json::Object &json);
  llvm::json::Object toJson() const;
  /// A line for each figure of \p table that is worse than its floor, or gone.
  std::vector<std::string> violations(const QualityTable &table) const;
};

/// A record that spaces come from.
struct QualityRecord {
  std::string name; ///< of the file, as reports show it
  std::string what, commit, gpu, driver, toolchain, mode;
  size_t spaces = 0, configs = 0;

  static QualityRecord of(llvm::StringRef name, const SweepRecord &record);
};

class QualityReport final : public Report {
public:
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;

  /// toJson() as a file, with a line for each space.
  std::string resultText() const;
  /// The different texts that the records have for \p member, with commas.
  std::string joined(std::string QualityRecord::*member) const;

  std::string device;
  std::string commit;                ///< of the estimates; empty: not given
  std::vector<std::string> families; ///< all that the registry has
  std::vector<QualityRecord> records;
  std::vector<ReplayedSpace> spaces;
  std::vector<std::string> left; ///< spaces that could not be replayed, and why
  std::vector<std::string> violations;

private:
  void printWorst(llvm::raw_ostream &os) const;
  void addOrigin(llvm::json::Object &json) const;
};

} // namespace kiln::cli
