//===- Space.h - from a problem to its ranked candidates ------------------===//
#pragma once

#include "Kernel/Family.h"

#include <vector>

namespace kiln {

/// A config that may run, with what it is predicted to cost.
struct Candidate {
  const Template *tmpl = nullptr;
  Record config;
  Estimate estimate; ///< without terms in a space of the main model
  CandidateClass candidateClass;
  int32_t order = 0; ///< position in the space

  /// Adds the estimate's terms where they were left out.
  void fillTerms(const Problem &problem, const DeviceModel &device);

  /// Whether both are variations of one idea.
  bool sharesClass(const Candidate &other) const {
    return tmpl == other.tmpl && candidateClass.key == other.candidateClass.key;
  }
};

/// A config that may not run, with the reason.
struct Rejected {
  const Template *tmpl = nullptr;
  Record config;
  Rejection rejection;
};

enum class ModelKind {
  Main,    ///< the estimator of the family's templates
  Classic, ///< the classic matmul performance model with its own pruner
};
llvm::StringRef nameOf(ModelKind kind);

/// A problem's whole space: every config is either ranked or rejected.
struct Space {
  std::vector<Candidate> ranked; ///< best first
  std::vector<Rejected> rejected;
};

/// Estimates within this factor of the best of a set are one answer.
inline constexpr double kEstimateTie = 1.02;

struct SpaceOptions {
  ModelKind model = ModelKind::Main;
  /// Without the rejected configs their records are not made.
  bool keepRejected = false;
  Allowance allowance = {};
};

/// Enumerates, prunes, estimates and ranks. Pure: needs no GPU, no driver and
/// no compiler. About 0.2 us a config of GEMM. Errors: NoCandidate;
/// Unsupported where the model cannot describe the problem.
llvm::Expected<Space> exploreSpace(const KernelFamily &family,
                                   const Problem &problem,
                                   const DeviceModel &device,
                                   const SpaceOptions &options = {});

/// The model that estimates \p candidate where \p model ranks: the main one for
/// templates that the classic one cannot model.
ModelKind modelOf(const KernelFamily &family, const Problem &problem,
                  const Candidate &candidate, ModelKind model);

/// The estimate by modelOf(), with its terms, of template and config of
/// \p candidate, which prune() let pass; what else it has is not read.
Estimate estimateCandidate(const KernelFamily &family, const Problem &problem,
                           const Candidate &candidate,
                           const DeviceModel &device, ModelKind model);

/// The derivation of that estimate. It formats text: for one at a time.
Derivation explainCandidate(const KernelFamily &family, const Problem &problem,
                            const Candidate &candidate,
                            const DeviceModel &device, ModelKind model);

/// Orders candidates in place: the best of each class first, then the rest,
/// each part by time; all within kEstimateTie of a part's best form a set
/// ordered by (rank of class, order), and so on with the rest.
void rankCandidates(std::vector<Candidate> &candidates);

} // namespace kiln
