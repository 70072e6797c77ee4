//===- BenchReport.h - times beside a peer's ------------------------------===//
#pragma once

#include "Trial/Statistics.h"
#include "cli/Report.h"
#include "compare/BenchJudge.h"
#include "compare/BenchSetting.h"
#include "compare/CopyBaseline.h"
#include "compare/EngineCalls.h"

#include <optional>
#include <string>
#include <vector>

namespace kiln::cli {

/// Half of the interval's width over the median; 0 where nothing was measured.
double spreadOf(const SampleSummary &summary);

/// One case, beside a peer or, where no peer computes it, a copy baseline.
/// Times are in ns; a count of 0 means not measured.
struct BenchRow {
  const Case *which = nullptr;
  std::string config;
  std::string from;   ///< "record", "estimated", "named", ...
  std::string error;  ///< empty: Kiln's side was measured
  std::string noPeer; ///< why there is no peer's time
  /// Names the peer's computation where that differs from the problem, so that
  /// results are not compared; else empty.
  std::string peerKind;
  SampleSummary kiln, peer, best;
  BaselineResult baseline;
  /// The least times by the dense peak and by the roofline, in ns; the first is
  /// 0 where memory must set the pace.
  double peakNs = 0, rooflineNs = 0;
  size_t algorithms = 0;      ///< of the peer that `best` is the best of
  bool correct = false;       ///< equals the reference, by Tune's criterion
  std::optional<bool> agrees; ///< with the peer, within both tolerances
  /// The reference's verdict on both sides, where they do not agree.
  std::optional<BenchVerdict> verdict;
  std::string toolchain; ///< that compiled the kernel
  unsigned launches = 0, copies = 0;
  /// A whole call of an engine, where that was asked for.
  std::optional<EngineCallTime> call;

  /// The peer's time over Kiln's; 0 without both.
  double ratio() const;
  double bestRatio() const;
  double tflops() const;
  /// The shares that Kiln's time reaches of limits that no config exceeds
  /// (Kernel/Roofline.h); 0 without such a limit or time.
  double peakShare() const;
  double rooflineShare() const;

  bool hasCopyBaseline() const { return cli::hasCopyBaseline(*which); }
  /// The bytes that must move over Kiln's time, and over the baseline's; 0
  /// without that time.
  double gbs() const;
  double baselineGbs() const;
  /// The baseline's time over Kiln's; 0 without both.
  double fraction() const;
};

/// The result file that scripts/updateReadme.py reads, and its table.
class BenchReport final : public Report {
public:
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;
  int exitCode() const;

  BenchSetting setting;
  std::vector<BenchRow> rows;
  bool interrupted = false;
  MemoryPeaks peaks;

private:
  /// Ratios of the cases of one class.
  struct Group {
    std::string name;
    std::vector<double> ratios, bestRatios;
  };
  std::vector<Group> groups() const;
  /// Fractions of all memory-bound cases, and of the cases that move over 100
  /// MB.
  std::vector<Group> baselineGroups() const;
  void printPeers(llvm::raw_ostream &os) const;
  void printBaselines(llvm::raw_ostream &os) const;
  void printVerdicts(llvm::raw_ostream &os) const;
  void printCalls(llvm::raw_ostream &os) const;
};

} // namespace kiln::cli
