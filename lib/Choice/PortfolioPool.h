//===- PortfolioPool.h - the portfolios of a context ----------------------===//
//
// A layer is a problem without the values of its dynamic extents. A portfolio
// that was prepared, measured or stored for one layer serves all of its values,
// so it is kept, with the problems that its plans are made for.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Choice/RangeIndex.h"
#include "Kernel/Space.h"
#include "Tune/Portfolio.h"
#include "kiln/kiln.h"

namespace kiln {

/// The number of facts that trials found for \p portfolio: anchors, times,
/// comparisons, and wrong results.
size_t findingsOf(const Portfolio &portfolio);

/// A portfolio that launches may choose from. Immutable.
class KnownPortfolio {
public:
  /// \p isStored: the portfolio comes from the cache.
  KnownPortfolio(Portfolio portfolio, bool isStored);

  const ProblemRange &range() const { return portfolio.range(); }
  const std::vector<PortfolioMember> &members() const {
    return portfolio.members();
  }
  /// Whether trials measured at least some member.
  bool isMeasured() const { return measured; }
  /// Whether all or some of the trials that were due are yet to be made. (None
  /// are due for a stored estimator's choice, which is launched as it is.)
  bool isUnfinished() const { return measured ? !isComplete() : !isStored; }
  /// See Portfolio.
  bool isComplete() const { return portfolio.isComplete; }
  size_t findings() const { return findingsOf(portfolio); }
  /// The problem that the plan of a member is made for, at its `high`.
  const Problem &targetOf(uint32_t member) const { return targets[member]; }
  kiln_source sourceOf(uint32_t member) const;
  /// The members for \p problem, which is of the range, best first; without
  /// members that \p mayTake refuses. See Portfolio::rank().
  Portfolio::Ranking rank(const Problem &problem, const DeviceModel &device,
                          Portfolio::Filter mayTake = nullptr) const {
    return portfolio.rank(problem, range().pointOf(problem.values), device,
                          mayTake);
  }

  /// See Portfolio.
  bool isWhole() const { return portfolio.isWhole; }
  bool foundWrong() const { return portfolio.hasFoundWrong; }
  /// Whether the kernel of \p config was compared with the reference, as the
  /// kernel of any member.
  bool hasProven(const Template &tmpl, const Values &config) const;
  /// The evidence of its times, also of configs that are not members.
  const Evidence &evidence() const { return portfolio.evidence(); }

private:
  Portfolio portfolio;
  bool isStored, measured;
  std::vector<Problem> targets;
};

/// Portfolios that were found or made for launches. Thread-safe.
using PortfolioPool = RangeIndex<KnownPortfolio>;

/// The range for which a launch of \p problem wants a portfolio, as far as
/// leading dimensions allow; nullopt if the problem has no dynamic extent. A
/// family with one dynamic extent has 1 to 8192, or to the power of two above
/// the problem's value. A family with several, whose ranges are products, has
/// in each 1 to the power of two above the problem's value, and all values that
/// portfolios of the layer in \p known serve. Takes some 10 us.
std::optional<ProblemRange> layerOf(const KernelFamily &family,
                                    const Problem &problem,
                                    const PortfolioPool &known);

/// Finds the cache's portfolio that serves all of \p range, over the range that
/// it was stored for; null if none can be used today. Takes some microseconds
/// if there is none, else milliseconds.
std::shared_ptr<const KnownPortfolio> findStored(const PortfolioSources &from,
                                                 const ProblemRange &range);

} // namespace kiln
