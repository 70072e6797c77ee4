//===- Space.h - from a problem to its ranked candidates ------------------===//
#pragma once

#include "Kernel/Family.h"

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace kiln {

/// A config that may run, with its predicted time.
struct Candidate {
  const Template *tmpl = nullptr;
  Values config;
  Estimate estimate;
  CandidateClass candidateClass;
  int32_t order = 0; ///< its position in the space

  /// How its estimate comes about. Cost: some 100 us.
  Derivation derive(const Problem &problem, const DeviceModel &device) const;

  /// The predicted time as candidates are ordered by it: a float, because sums
  /// of the same parts may differ in the last digits of a double.
  float orderingNs() const { return static_cast<float>(estimate.totalNs); }

  /// Orders by time, and equal times as the space does.
  bool isFasterThan(const Candidate &other) const {
    return std::pair(orderingNs(), order) <
           std::pair(other.orderingNs(), other.order);
  }

  /// Whether \p other is a variation of the same idea.
  bool sharesClass(const Candidate &other) const {
    return tmpl == other.tmpl && candidateClass.key == other.candidateClass.key;
  }
};

/// A config that may not run, with the reason.
struct Rejected {
  const Template *tmpl = nullptr;
  Values config;
  Rejection rejection;
};

/// The configs that only an allowance kept out of a space.
struct LeftOut {
  /// The least workspace of these configs at the problem, in bytes: a caller
  /// that allows this much may take one. kUnlimited: there are none.
  uint64_t leastBytes = Allowance::kUnlimited;
  /// The least of their predicted times.
  double leastNs = std::numeric_limits<double>::infinity();
};

/// A problem's whole space: every config is either ranked or rejected.
struct Space {
  std::vector<Candidate> ranked; ///< best first
  std::vector<Rejected> rejected;
  LeftOut leftOut;
};

struct SpaceOptions {
  /// If false, Values of rejected configs are not made.
  bool keepRejected = false;
  Allowance allowance = {};
};

/// Enumerates, prunes, estimates and ranks. Pure: needs no GPU, no driver and
/// no compiler. Takes about 0.2 us a config of GEMM, whatever the extents.
/// Errors: NoCandidate; InvalidArgument for a problem without elements.
llvm::Expected<Space> exploreSpace(const KernelFamily &family,
                                   const Problem &problem,
                                   const DeviceModel &device,
                                   const SpaceOptions &options = {});

/// The error of a space in which no config is left. If \p allowedBytes of
/// workspace keep configs out, it names both numbers.
llvm::Error noCandidate(const KernelFamily &family, const Problem &problem,
                        const DeviceModel &device,
                        uint64_t allowedBytes = Allowance::kUnlimited,
                        const LeftOut &leftOut = {});

/// Orders candidates in place: the best of each class and all that rank by time
/// come first, then the others, each part by time. In each part, candidates
/// that do not rank by time and are within kEstimateTie of the best form a set
/// that is ordered by (rank of class, order), and so on with the others.
void rankCandidates(std::vector<Candidate> &candidates);

} // namespace kiln
