//===- PlanPool.h - the loaded plans of a context -------------------------===//
//
// Plans by config and by the problem that they were made for; they serve all
// values below it. The pool also keeps the digest of a config's kernels, which
// depend on signature and config alone, so that a choice need not make the plan
// again.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Family.h"
#include "Store/LoadedPlan.h"

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace kiln {

/// The plans of one context. Thread-safe; all plans stay as long as the pool.
class PlanPool {
public:
  /// Returns the plan of \p config that was made for \p problem, or null.
  std::shared_ptr<const LoadedPlan> find(const Problem &problem,
                                         const Values &config) const;
  /// Adds a plan of \p tmpl; if there is one already, that is returned.
  std::shared_ptr<const LoadedPlan>
  add(const Problem &problem, const Template &tmpl, const Values &config,
      std::shared_ptr<const LoadedPlan> loaded);
  /// Returns the configs that have a plan for some problem of \p signature, so
  /// that their kernels are loaded: the latest \p most first, and then generic
  /// ones, which may be the only ones that serve a problem.
  struct LoadedConfig {
    const Template *tmpl = nullptr;
    Values config;
  };
  std::vector<LoadedConfig> loadedOf(const Values &signature,
                                     size_t most) const;
  /// Marks all plans of \p kernel, a kernelDigest(), also later ones, as wrong
  /// or as right again: see LoadedPlan::isWrong().
  void mark(const std::string &kernel, bool isWrong);
  /// Returns kernelDigest() of \p config's plan for a problem like \p problem.
  /// Makes the plan the first time.
  std::string digestOf(const Template &tmpl, const Problem &problem,
                       const Values &config, const DeviceModel &device);

private:
  mutable std::mutex mutex; ///< guards all below
  std::map<std::string, std::shared_ptr<const LoadedPlan>> plans;
  std::map<std::string, std::vector<LoadedConfig>> configs; ///< by signature
  std::map<std::string, std::string> digests;
  std::multimap<std::string, std::shared_ptr<const LoadedPlan>> ofKernel;
  std::set<std::string> wrong; ///< kernels
};

} // namespace kiln
