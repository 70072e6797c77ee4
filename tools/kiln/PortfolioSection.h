//===- PortfolioSection.h - the portfolio of a problem, explained ---------===//
#pragma once

#include "Tune/Portfolio.h"
#include "cli/CommonOptions.h"
#include "cli/Report.h"

#include <optional>

namespace kiln::cli {

/// The portfolio that the cache has for \p problem and \p device, as far as
/// \p allowance goes; nullopt: none. Creates no folder. Errors: those of
/// chooseCache().
llvm::Expected<std::optional<Portfolio>>
findPortfolio(const ParsedOptions &options, const Environment &environment,
              const KernelFamily &family, const Problem &problem,
              const DeviceModel &device, const Allowance &allowance);

/// A range's members with their intervals, points and factors, and which of
/// them \p problem takes.
class PortfolioSection final : public Report {
public:
  PortfolioSection(const Portfolio &portfolio, const Problem &problem,
                   const DeviceModel &device);
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;

private:
  std::string verdict() const;
  std::string timesOf(const PortfolioMember &member) const;

  const Portfolio &portfolio;
  const ExtentPoint point;
  const Portfolio::Ranking ranking;
};

} // namespace kiln::cli
