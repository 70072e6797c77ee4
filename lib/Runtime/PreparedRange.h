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

#include <llvm/ADT/STLFunctionalExtras.h>

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

  /// Says whether a plan may be chosen.
  using PlanFilter = llvm::function_ref<bool(const ActivePlan &)>;

  /// \p plans are by member, null where one cannot be had; \p exact are for
  /// values that were measured on their own, and go first there. Members of
  /// \p leftOut could be had and are not loaded, for want of room.
  PreparedRange(const DeviceModel &device,
                std::shared_ptr<const KnownPortfolio> known,
                std::vector<ActivePlanPtr> plans, ExactPlans exact,
                std::vector<uint32_t> leftOut = {}, bool isProvisional = false)
      : isProvisional(isProvisional), device(device), known(std::move(known)),
        plans(std::move(plans)), exact(std::move(exact)),
        leftOut(std::move(leftOut)) {}

  /// Kernels of its set are missing, and launches that may wait for them do not
  /// take the rest in their place: it is for captures.
  const bool isProvisional;

  const ProblemRange &range() const { return known->range(); }
  const KnownPortfolio &portfolio() const { return *known; }
  /// The plan for \p problem, which is of the range, of those that \p isMeant
  /// accepts (null: all); none where no member may run that is not wrong. Some
  /// microseconds.
  ChosenPlan choose(const Problem &problem, PlanFilter isMeant = nullptr) const;
  /// Whether a member that is not loaded goes before all that are.
  bool lacksBest(const Problem &problem) const;

  /// Over all plans.
  WorkspaceLayout workspace() const;
  /// Whether something better may be found: trials were due and not made, or
  /// not all of them.
  bool isFallback() const;
  /// What goes first where ranges differ: Measured before Begun, and so on.
  enum class Merit { Wrong, Estimated, Begun, Measured };
  /// Without trials that were due it is Estimated, or Begun with some of them.
  Merit merit() const;
  /// Whether trials found all of its plans wrong.
  bool isWrong() const;
  size_t planCount() const;
  /// Whether \p other serves the same values with the same plans.
  bool isLike(const PreparedRange &other) const;

private:
  const DeviceModel device;
  std::shared_ptr<const KnownPortfolio> known;
  std::vector<ActivePlanPtr> plans;
  ExactPlans exact;
  std::vector<uint32_t> leftOut;
};

} // namespace kiln
