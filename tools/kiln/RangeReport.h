//===- RangeReport.h - the results of preparing ranges --------------------===//
#pragma once

#include "Tune/PortfolioSession.h"
#include "cli/Report.h"
#include "kiln/Ranges.h"

#include <functional>
#include <optional>

namespace kiln::cli {

/// One range's portfolio, or why it has none.
struct RangeOutcome {
  PortfolioResult result;
  ErrorSummary error;
  /// Says which parts are not on disk when all ranges are done; empty: none.
  std::string missing;
};

/// Prepares \p cases one after another, within \p budget in all if it is above
/// 0; the kernels of the next one compile while one is measured.
std::vector<RangeOutcome> prepareRanges(const PortfolioContext &context,
                                        llvm::ArrayRef<RangeCase> cases,
                                        PortfolioOptions options,
                                        std::chrono::milliseconds budget,
                                        llvm::StringRef title);

/// The results of preparing ranges for one device.
class RangeReport final : public Report {
public:
  /// \p wantsTrials: a range that is not measured counts as failed. \p
  /// wantsStored: there is to be a cache.
  RangeReport(llvm::ArrayRef<RangeCase> cases, const DeviceModel &device,
              std::vector<RangeOutcome> outcomes, bool wantsTrials,
              bool wantsStored)
      : cases(cases), device(device), outcomes(std::move(outcomes)),
        wantsTrials(wantsTrials), wantsStored(wantsStored) {}
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;
  int exitCode() const;

  double elapsedMs = 0;
  bool interrupted = false;
  ArtifactStatistics artifacts; ///< of the compilations for it
  std::optional<MemoryPeaks> peaks;

private:
  bool isFailed(const RangeOutcome &outcome) const;
  void printRow(Table &table, size_t index) const;

  llvm::ArrayRef<RangeCase> cases;
  const DeviceModel device;
  std::vector<RangeOutcome> outcomes;
  bool wantsTrials, wantsStored;
};

} // namespace kiln::cli
