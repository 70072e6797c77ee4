//===- MemoryPassTemplate.h - base of memory-bound templates --------------===//
#pragma once

#include "Families/MemoryPass/MemoryPassEstimate.h"
#include "Families/TypedTemplate.h"
#include "Kernel/Template.h"

namespace kiln {

/// A template whose configs are judged by their memory pass. A derived template
/// gives that pass and its own limits; time, derivation and the test whether an
/// SM holds a block follow.
class MemoryPassTemplate : public Template {
public:
  std::optional<Rejection> prune(const Problem &problem, const Values &config,
                                 const DeviceModel &device) const final;
  Estimate estimate(const Problem &problem, const Values &config,
                    const DeviceModel &device) const final;
  Derivation explain(const Problem &problem, const Values &config,
                     const DeviceModel &device) const final;
  void judge(const Problem &problem, const DeviceModel &device,
             SpaceSink &sink) const final;
  /// No workspace, unless a template overrides it.
  WorkspaceLayout workspace(const Problem &, const Values &,
                            const DeviceModel &) const override {
    return {};
  }

protected:
  /// prune() without the limits that follow from the kernel.
  virtual std::optional<Rejection>
  checkConfig(const Problem &problem, const Values &config,
              const DeviceModel &device) const = 0;

  /// The memory pass of a config that checkConfig() has accepted.
  virtual MemoryPass<double> memoryPass(const Problem &problem,
                                        const Values &config,
                                        const DeviceModel &device) const = 0;
  virtual MemoryPass<Figure>
  memoryPassFigures(const Problem &problem, const Values &config,
                    const DeviceModel &device) const = 0;
};

/// The same, given the type of its configs, which have a kernel each, and the
/// class that derives from this one. That class has
///   template <Number N> MemoryPass<N> pass(problem, config, device) const;
template <class Derived, class Config>
class TypedMemoryPassTemplate
    : public TypedTemplate<MemoryPassTemplate, Config> {
protected:
  using TypedTemplate<MemoryPassTemplate, Config>::TypedTemplate;
  using TypedTemplate<MemoryPassTemplate, Config>::entry;

  MemoryPass<double> memoryPass(const Problem &problem, const Values &values,
                                const DeviceModel &device) const final {
    return passOf<double>(problem, values, device);
  }
  MemoryPass<Figure> memoryPassFigures(const Problem &problem,
                                       const Values &values,
                                       const DeviceModel &device) const final {
    return passOf<Figure>(problem, values, device);
  }

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
  template <Number N>
  MemoryPass<N> passOf(const Problem &problem, const Values &values,
                       const DeviceModel &device) const {
    return static_cast<const Derived &>(*this).template pass<N>(
        problem, fromValues<Config>(values), device);
  }
};

} // namespace kiln
