//===- PlanPool.h - what the values of one bucket share -------------------===//
//
// Servers meet values of a dynamic extent without end, so what is kept grows
// with configs and buckets and never with values. A plan is made for the
// largest value of a bucket, the *cover*: its workspace and its signature fit
// all of them, and bind() follows the extents of each launch, as it does for
// the plan of a range. Values that choose one config so share one loaded plan.
//
// What a choice needs to know of a config without making its plan again is kept
// here as well: the digest of its kernels, which depend on signature and config
// alone, and the best of a ranking, of which the values of a bucket estimate
// only few.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Space.h"
#include "Runtime/Dispatch.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace kiln {

/// The largest problem of \p problem's bucket that differs from it in nothing
/// but the dynamic extent, its signature included; \p problem itself if there
/// is none. Some microseconds; some tens where a leading dimension that was
/// given ends the bucket.
Problem coverOf(const KernelFamily &family, const Problem &problem);

/// What to find a plan for.
struct PlanRequest {
  const KernelFamily &family;
  const Problem &common;  ///< the choice is made for it
  const Problem &largest; ///< the plan's workspace covers it
  bool isRange = false;   ///< of values that the caller named

  /// Whether the choice is that of a launch of `largest`.
  bool isOfLargest() const { return common.record == largest.record; }
  /// The problems that a plan may be made for, the first that has one: a
  /// range's plan is for no more than the range; where that of the whole bucket
  /// needs too much, a value gets one of its own.
  llvm::SmallVector<Problem, 2> targets() const;
};

/// A config by name.
struct ShortlistEntry {
  const Template *tmpl = nullptr;
  Record config;
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
  /// The one ActivePlan that says this of \p loaded.
  ActivePlanPtr activate(const std::shared_ptr<const LoadedPlan> &loaded,
                         kiln_source source, bool isFallback);

  /// kernelDigest() of \p config's plan for a problem like \p problem. Makes
  /// the plan the first time.
  std::string digestOf(const Template &tmpl, const Problem &problem,
                       const Record &config, const DeviceModel &device);

  /// Configs that may be best for the values of a bucket; empty: not known.
  std::vector<ShortlistEntry> shortlist(const Problem &cover) const;
  void setShortlist(const Problem &cover, std::vector<ShortlistEntry> entries);

private:
  struct Active {
    kiln_source source;
    bool isFallback;
    ActivePlanPtr plan;
  };

  mutable std::mutex mutex; ///< guards all below
  std::map<std::string, std::shared_ptr<const LoadedPlan>> plans;
  std::map<const LoadedPlan *, std::vector<Active>> active;
  std::map<std::string, std::string> digests;
  std::map<std::string, std::vector<ShortlistEntry>> shortlists;
};

} // namespace kiln
