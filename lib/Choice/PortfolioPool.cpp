//===- PortfolioPool.cpp - the portfolios of a context --------------------===//
#include "Choice/PortfolioPool.h"

#include "Call/CanonicalProblem.h"
#include "Choice/PlanRequest.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <bit>

namespace kiln {

/// The least upper end of a lone dynamic extent's range: the tokens of a long
/// prompt.
static constexpr int64_t kLeastOfLayer = 8192;

ExtentPoint aboveZero(ExtentPoint point) {
  for (int64_t &value : point)
    value = std::max<int64_t>(value, 1);
  return point;
}

/// Whether both differ at most in incidental fields.
static bool isSame(const Values &a, const Values &b) {
  llvm::ArrayRef<Field> fields = a.schema().fields();
  for (auto [field, left, right] :
       llvm::zip_equal(fields, a.array(), b.array()))
    if (left != right && !field.isIncidental())
      return false;
  return true;
}

/// A cheap test whether both may be of one layer.
static bool mayBeOfLayer(const Values &a, const Values &b) {
  llvm::ArrayRef<Field> fields = a.schema().fields();
  for (auto [field, left, right] :
       llvm::zip_equal(fields, a.array(), b.array()))
    if (left != right && !field.mayVary() && !field.followsExtents())
      return false;
  return true;
}

bool serves(const ProblemRange &range, const Values &problem) {
  const ExtentPoint point = range.pointOf(problem);
  if (!mayBeOfLayer(range.described, problem) ||
      !range.contains(aboveZero(point)))
    return false;
  // A leading dimension is not a field of the one problem whose rows it packs,
  // so the description is made canonical at this point.
  std::optional<Problem> own = range.find(point);
  return own && isSame(own->values, problem);
}

std::string layerKey(const KernelFamily &family, const Problem &problem) {
  std::string key;
  auto add = [&](const void *from, size_t count) {
    key.append(static_cast<const char *>(from), count);
  };
  const KernelFamily *address = &family;
  add(&address, sizeof(address));
  llvm::ArrayRef<Field> fields = problem.values.schema().fields();
  for (auto [field, value] : llvm::zip(fields, problem.values.array()))
    if (!field.mayVary() && !field.followsExtents())
      add(&value, sizeof(value));
  llvm::ArrayRef<int64_t> signature = problem.signature.array();
  add(signature.data(), signature.size() * sizeof(int64_t));
  return key;
}

//===----------------------------------------------------------------------===//
// One portfolio
//===----------------------------------------------------------------------===//

KnownPortfolio::KnownPortfolio(Portfolio given, bool isStored)
    : portfolio(std::move(given)), isStored(isStored),
      measured(portfolio.measuredMembers() > 0) {
  for (const PortfolioMember &member : members())
    targets.push_back(*range().covering(member.high));
}

size_t findingsOf(const Portfolio &portfolio) {
  size_t count = portfolio.anchors.size() + portfolio.hasFoundWrong;
  for (const PortfolioMember &member : portfolio.members())
    count += member.times.size() + member.validated;
  return count;
}

kiln_source KnownPortfolio::sourceOf(uint32_t member) const {
  if (members()[member].validated)
    return KILN_SOURCE_RECORD;
  return isStored ? KILN_SOURCE_DECISION : KILN_SOURCE_ESTIMATE;
}

bool KnownPortfolio::hasProven(const Template &tmpl,
                               const Values &config) const {
  const std::vector<int64_t> knobs = config.compiledKnobs();
  return llvm::any_of(members(), [&](const PortfolioMember &member) {
    return member.validated && member.tmpl == &tmpl &&
           member.config.compiledKnobs() == knobs;
  });
}

/// The range from \p low to \p high of the layer of \p problem, if it contains
/// the problem; else nullopt.
static std::optional<ProblemRange> rangeAround(const KernelFamily &family,
                                               const Problem &problem,
                                               llvm::ArrayRef<int64_t> low,
                                               llvm::ArrayRef<int64_t> high) {
  auto ranges = rangesOf(family, generalised(problem.values),
                         family.dynamicExtents(), low, high);
  if (!ranges) {
    llvm::consumeError(ranges.takeError());
    return std::nullopt;
  }
  for (ProblemRange &range : *ranges)
    if (serves(range, problem.values))
      return std::move(range);
  return std::nullopt;
}

/// \p layer widened by the ranges in \p known, as far as that is one range.
static ProblemRange widened(const ProblemRange &layer, const Problem &problem,
                            const PortfolioPool &known) {
  ProblemRange all = layer;
  for (const auto &portfolio : known.findAlike(layer)) {
    ExtentPoint low = all.low, high = all.high;
    const ProblemRange &other = portfolio->range();
    for (size_t i = 0; i < low.size(); ++i) {
      low[i] = std::min(low[i], other.low[i]);
      high[i] = std::max(high[i], other.high[i]);
    }
    if (auto both = rangeAround(*layer.family, problem, low, high))
      all = std::move(*both);
  }
  return all;
}

std::optional<ProblemRange> layerOf(const KernelFamily &family,
                                    const Problem &problem,
                                    const PortfolioPool &known) {
  const llvm::ArrayRef<int> extents = family.dynamicExtents();
  const bool isAlone = extents.size() == 1;
  if (extents.empty() || (isAlone && problem.values[extents.front()] < 1))
    return std::nullopt;
  Problem largest = problem;
  largest.values = generalised(std::move(largest.values));
  ExtentPoint high;
  for (int extent : extents) {
    const int64_t value = std::max<int64_t>(problem.values[extent], 1);
    const auto above =
        static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(value)));
    high.push_back(
        largestValue(family, largest, extent,
                     isAlone ? std::max(above, kLeastOfLayer) : above));
    largest.values.set(extent, high.back());
  }
  const ExtentPoint low(extents.size(), 1);
  auto layer = rangeAround(family, problem, low, high);
  if (!layer || isAlone)
    return layer;
  return widened(*layer, problem, known);
}

std::shared_ptr<const KnownPortfolio> findStored(const PortfolioSources &from,
                                                 const ProblemRange &range) {
  auto found = findPortfolio(from, range);
  // Trials found no correct kernel, so the estimator's choice would not be
  // right either.
  if (!found || found->portfolio.empty())
    return nullptr;
  return std::make_shared<const KnownPortfolio>(std::move(found->portfolio),
                                                /*isStored=*/true);
}

} // namespace kiln
