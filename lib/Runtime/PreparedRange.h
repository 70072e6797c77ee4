//===- PreparedRange.h - a range whose kernels are loaded -----------------===//
//
// The choice at a value that was never launched uses only the data here. It
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
/// that a plan may be found wrong; then it is not chosen any more.
class PreparedRange {
public:
  /// By the values of the dynamic extents.
  using ExactPlans = std::map<ExtentPoint, ChosenPlan>;

  /// Says whether a plan may be chosen.
  using PlanFilter = llvm::function_ref<bool(const ActivePlan &)>;

  /// \p plans are by member, null if it cannot be had. \p exact are for values
  /// that were measured on their own, and go first there. Members of \p leftOut
  /// could be had but are not loaded, since there is no room. With \p isFrozen
  /// no other plan replaces one that was found wrong.
  PreparedRange(const DeviceModel &device,
                std::shared_ptr<const KnownPortfolio> known,
                std::vector<ActivePlanPtr> plans, ExactPlans exact,
                std::vector<uint32_t> leftOut = {}, bool isProvisional = false,
                bool isFrozen = false)
      : isProvisional(isProvisional), isFrozen(isFrozen), device(device),
        known(std::move(known)), plans(std::move(plans)),
        exact(std::move(exact)), leftOut(std::move(leftOut)) {}

  /// Kernels of its set are missing. Only captures use it; launches that may
  /// wait for the missing kernels do not take the others instead.
  const bool isProvisional;
  const bool isFrozen;

  const ProblemRange &range() const { return known->range(); }
  const KnownPortfolio &portfolio() const { return *known; }
  /// Returns the plan for \p problem, which is of the range, among the plans
  /// that \p isMeant accepts (null: all); none if no correct member may run.
  /// Takes some microseconds.
  ChosenPlan choose(const Problem &problem, PlanFilter isMeant = nullptr) const;
  /// Whether the frozen choice for \p problem was found wrong since.
  bool hasLost(const Problem &problem) const;
  /// Whether a member that is not loaded is better than all that are.
  bool lacksBest(const Problem &problem) const;

  /// The maximum over all plans.
  WorkspaceLayout workspace() const;
  /// Whether a better choice may be found: trials were due, and not all of them
  /// were made.
  bool isFallback() const;
  /// The order of ranges that serve the same value, the best last.
  enum class Merit { Wrong, Estimated, Begun, Measured };
  /// Estimated if none of the trials that were due were made, Begun if some
  /// were.
  Merit merit() const;
  /// Whether trials found all of its plans wrong.
  bool isWrong() const;
  size_t planCount() const;
  /// Whether \p other serves the same values with the same plans.
  bool isLike(const PreparedRange &other) const;
  /// A text of all that its choices follow from besides the device: the
  /// members, their times, and the plans for single values.
  std::string facts() const;

private:
  ChosenPlan pick(const Problem &problem, PlanFilter isMeant) const;

  const DeviceModel device;
  std::shared_ptr<const KnownPortfolio> known;
  std::vector<ActivePlanPtr> plans;
  ExactPlans exact;
  std::vector<uint32_t> leftOut;
};

} // namespace kiln
