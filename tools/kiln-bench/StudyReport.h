//===- StudyReport.h - a named set of configs, fastest first --------------===//
#pragma once

#include "cli/CommonOptions.h"
#include "cli/Report.h"
#include "compare/BenchReport.h"
#include "kiln-bench/StudySets.h"

#include <optional>
#include <string>
#include <vector>

namespace kiln::cli {

/// The profiler's counters of a config's launches: means over them.
struct StudyProfile {
  double durationNs = 0, cycles = 0;
  double registers = 0; ///< a thread
  double l2HitRate = 0; ///< percent
};

/// One config on one problem.
struct StudyRow {
  const Case *which = nullptr;
  StudyConfig study;
  size_t place = 0;          ///< in the set, from 0
  std::vector<double> runNs; ///< median of each run that counts
  bool correct = false;      ///< equals the reference
  int64_t registers = 0, spillBytes = 0, sharedBytes = 0;
  std::string toolchain;
  std::string error; ///< empty: it was measured
  std::optional<StudyProfile> profile;

  /// Mean over the runs; 0: not measured.
  double ns() const;
  /// (greatest - least) / mean.
  double spread() const;
  /// 1e12 operations a second: with the operations of the problem as they are
  /// usually counted, and with those that tiles compute in vain.
  double tflops() const;
  double allTflops() const;
  double kernelTflops() const;
};

/// The result of a study: tables, the document, and lines of CSV.
class StudyReport final : public Report {
public:
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;
  /// A header and a line for each row, in the order of the table.
  std::string toCsv() const;
  int exitCode() const;

  /// Fastest first within each problem asked for; rows without a time come
  /// last.
  void sort();

  BenchSetting setting;
  std::string set;
  unsigned runs = 1;
  std::vector<StudyRow> rows;
  bool interrupted = false;

private:
  bool isProfiled() const;
  void printCase(const Case &which, llvm::raw_ostream &os) const;
  void printProfile(const Case &which, llvm::raw_ostream &os) const;
};

} // namespace kiln::cli
