//===- PortfolioReport.h - the portfolio of a problem, explained ----------===//
#pragma once

#include "Support/Report.h"
#include "Tune/Portfolio.h"

#include <optional>
#include <string>

namespace kiln {

/// The portfolio that a cache has for \p problem; nullopt: it has no portfolio
/// that is of use today. Cost: that of findPortfolio().
std::optional<Portfolio> findPortfolioAt(const PortfolioSources &from,
                                         const KernelFamily &family,
                                         const Problem &problem);

/// Members with their intervals, points and factors, as JSON.
llvm::json::Object portfolioToJson(const Portfolio &portfolio);

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

} // namespace kiln
