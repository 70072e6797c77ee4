//===- PlanPool.h - what the values of one bucket share -------------------===//
//
// Loaded plans by config and by the problem that they were made for, the cover
// of a bucket (PlanRequest.h), so that its values share them.
//
// What a choice needs to know of a config without making its plan again is kept
// here as well: the digest of its kernels, which depend on signature and config
// alone, and the best of a ranking, of which the values of a bucket estimate
// only few.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Family.h"
#include "Store/LoadedPlan.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace kiln {

/// The configs that stand for a ranking at other values of its bucket.
struct Shortlist {
  std::vector<KernelFamily::NamedConfig> configs; ///< best first
  /// A limit forbids what is estimated to be faster than all of the ranking.
  bool isSecondBest = false;
};

/// What one context has of plans. Thread-safe; everything stays as long as it.
class PlanPool {
public:
  /// The plan of \p config for \p cover, or null.
  std::shared_ptr<const LoadedPlan> find(const Problem &cover,
                                         const Record &config) const;
  /// Adds one; if there is one already, that is given back.
  std::shared_ptr<const LoadedPlan>
  add(const Problem &cover, const Record &config,
      std::shared_ptr<const LoadedPlan> loaded);
  /// kernelDigest() of \p config's plan for a problem like \p problem. Makes
  /// the plan the first time.
  std::string digestOf(const Template &tmpl, const Problem &problem,
                       const Record &config, const DeviceModel &device);

  /// Configs that may be best for the values of a bucket; empty: not known.
  Shortlist shortlist(const Problem &cover) const;
  void setShortlist(const Problem &cover, Shortlist shortlist);

private:
  mutable std::mutex mutex; ///< guards all below
  std::map<std::string, std::shared_ptr<const LoadedPlan>> plans;
  std::map<std::string, std::string> digests;
  std::map<std::string, Shortlist> shortlists;
};

} // namespace kiln
