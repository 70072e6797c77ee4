//===- PortfolioPool.h - the portfolios of a context ----------------------===//
//
// A layer is a problem without the values of its dynamic extents. What was
// prepared, measured or stored for one layer serves all of its values, so the
// portfolio of a layer is kept, with the problems that its plans are made for.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Choice/RangeIndex.h"
#include "Kernel/Space.h"
#include "Tune/Portfolio.h"
#include "kiln/kiln.h"

namespace kiln {

/// How much trials said of \p portfolio: anchors, times, comparisons, and that
/// something is wrong.
size_t findingsOf(const Portfolio &portfolio);

/// A portfolio that launches may choose from. Immutable.
class KnownPortfolio {
public:
  /// \p isStored: it comes from the cache.
  KnownPortfolio(Portfolio portfolio, bool isStored);

  const ProblemRange &range() const { return portfolio.range(); }
  const std::vector<PortfolioMember> &members() const {
    return portfolio.members();
  }
  /// Whether trials decided, at least about some member.
  bool isMeasured() const { return measured; }
  /// Whether trials that were due are yet to be made, all of them or some. (The
  /// estimator's choice that is stored was to be launched as it is.)
  bool isUnfinished() const { return measured ? !isComplete() : !isStored; }
  /// See Portfolio.
  bool isComplete() const { return portfolio.isComplete; }
  size_t findings() const { return findingsOf(portfolio); }
  /// What the plan of a member is made for: the problem at its `high`.
  const Problem &targetOf(uint32_t member) const { return targets[member]; }
  kiln_source sourceOf(uint32_t member) const;
  /// The members for \p problem, which is of the range, best first; without
  /// those that \p mayTake refuses. See Portfolio::rank().
  Portfolio::Ranking rank(const Problem &problem, const DeviceModel &device,
                          Portfolio::Filter mayTake = nullptr) const {
    return portfolio.rank(problem, range().pointOf(problem.values), device,
                          mayTake);
  }

  /// See Portfolio.
  bool isWhole() const { return portfolio.isWhole; }
  bool foundWrong() const { return portfolio.hasFoundWrong; }
  /// Whether the kernel of \p config was compared with the reference, as that
  /// of whatever member.
  bool hasProven(const Template &tmpl, const Values &config) const;
  /// Tells of its times, also about configs that are no members.
  const Evidence &evidence() const { return portfolio.evidence(); }

private:
  Portfolio portfolio;
  bool isStored, measured;
  std::vector<Problem> targets;
};

/// Portfolios that were found or made for launches. Thread-safe.
using PortfolioPool = RangeIndex<KnownPortfolio>;

/// All values of the dynamic extents that a launch of \p problem asks a
/// portfolio for, as far as leading dimensions allow; nullopt: the problem has
/// no such extent. Of a family with one: 1 to 8192, or to the power of two
/// above its own value. Of a family with several, whose ranges are products: in
/// each 1 to the power of two above its own value, and all that portfolios of
/// the layer in \p known serve. Some 10 us.
std::optional<ProblemRange> layerOf(const KernelFamily &family,
                                    const Problem &problem,
                                    const PortfolioPool &known);

/// What the cache has that serves all from \p low to \p high of \p range, in
/// the range that it was stored for; null: nothing that is of use today. Cost:
/// some microseconds if there is nothing; else milliseconds.
std::shared_ptr<const KnownPortfolio> findStored(const PortfolioSources &from,
                                                 const ProblemRange &range);

} // namespace kiln
