//===- MemoryPassTemplate.h - base of memory-bound templates --------------===//
#pragma once

#include "Families/MemoryPass/MemoryPassEstimate.h"
#include "Families/TypedTemplate.h"

namespace kiln {

/// A template whose configs, which have a kernel each, are judged by their
/// memory pass. A class that derives from it gives its limits and the pass of a
/// config that checkConfig() has accepted:
///   template <Number N> MemoryPass<N> pass(problem, config, device) const;
/// Time, derivation and the test whether an SM holds a block follow.
template <class Derived, class Config>
class MemoryPassTemplate : public TypedTemplate<Config> {
public:
  std::optional<Rejection> prune(const Problem &problem, const Values &values,
                                 const DeviceModel &device) const final {
    const auto config = fromValues<Config>(values);
    if (auto rejection = checkConfig(problem, config, device))
      return rejection;
    return checkResident(
        derived().template pass<double>(problem, config, device), device);
  }
  Estimate estimate(const Problem &problem, const Values &values,
                    const DeviceModel &device) const final {
    return estimatePass(derived().template pass<double>(
                            problem, fromValues<Config>(values), device),
                        device);
  }
  Derivation explain(const Problem &problem, const Values &values,
                     const DeviceModel &device) const final {
    return explainPass(derived().template pass<Figure>(
                           problem, fromValues<Config>(values), device),
                       device);
  }
  /// No workspace, unless a template overrides it.
  WorkspaceLayout workspace(const Problem &, const Values &,
                            const DeviceModel &) const override {
    return {};
  }

protected:
  using TypedTemplate<Config>::TypedTemplate;
  using TypedTemplate<Config>::entry;

  /// prune() without the limits that follow from the memory pass.
  virtual std::optional<Rejection>
  checkConfig(const Problem &problem, const Config &config,
              const DeviceModel &device) const = 0;

  /// The plan of \p values, which say \p config, without a binder.
  template <class Signature>
  Plan planWithoutBinder(const Problem &problem, const Values &values,
                         const Signature &signature, const Config &config,
                         int sharedBytes, const DeviceModel &device,
                         bool maySpill = true) const {
    Plan plan = this->startPlan(entry, problem, values, signature, config,
                                sharedBytes, maySpill, device);
    plan.takesDependentLaunch = hasDependentLaunch(device);
    return plan;
  }

private:
  const Derived &derived() const { return static_cast<const Derived &>(*this); }
};

} // namespace kiln
