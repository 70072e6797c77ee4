//===- PreparedRange.h - a range whose kernels are loaded -----------------===//
//
// At a value that was never launched the choice is made from what is here: it
// reads no file, calls no driver and takes no lock, so it may be made during a
// capture as well.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Choice/PortfolioPool.h"
#include "Runtime/Dispatch.h"

#include <map>
#include <memory>
#include <vector>

namespace kiln {

/// A portfolio in a context, with the plans of its members. Immutable, except
/// that plans may be found wrong, which are chosen no more.
class PreparedRange {
public:
  /// By the values of the dynamic extents.
  using ExactPlans = std::map<ExtentPoint, ChosenPlan>;

  /// \p plans are by member, null where one cannot be had; \p exact are for
  /// values that were measured on their own, and go first there.
  PreparedRange(const DeviceModel &device,
                std::shared_ptr<const KnownPortfolio> known,
                std::vector<ActivePlanPtr> plans, ExactPlans exact,
                bool isProvisional = false)
      : isProvisional(isProvisional), device(device), known(std::move(known)),
        plans(std::move(plans)), exact(std::move(exact)) {}

  /// Kernels of its set are missing, and launches that may wait for them do not
  /// take the rest in their place: it is for captures.
  const bool isProvisional;

  const ProblemRange &range() const { return known->range(); }
  const KnownPortfolio &portfolio() const { return *known; }
  /// The plan for \p problem, which is of the range; none where no member may
  /// run that is not wrong. Some microseconds.
  ChosenPlan choose(const Problem &problem) const;

  /// Over all plans.
  WorkspaceLayout workspace() const;
  /// Whether something better may be found: trials were due and not made.
  bool isFallback() const;
  /// Whether trials found all of its plans wrong.
  bool isWrong() const;
  size_t planCount() const;

private:
  const DeviceModel device;
  std::shared_ptr<const KnownPortfolio> known;
  std::vector<ActivePlanPtr> plans;
  ExactPlans exact;
};

} // namespace kiln
