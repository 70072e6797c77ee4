//===- ModelKind.h - which model ranks a space ----------------------------===//
#pragma once

#include "Kernel/Space.h"

namespace kiln {

enum class ModelKind {
  Main,    ///< the estimator of the family's templates
  Classic, ///< the classic matmul performance model with its own pruner
};
llvm::StringRef nameOf(ModelKind kind);

/// The space as \p model prunes and ranks it. Errors: NoCandidate; Unsupported
/// where \p model cannot describe the problem.
llvm::Expected<Space> exploreSpace(const KernelFamily &family,
                                   const Problem &problem,
                                   const DeviceModel &device, ModelKind model,
                                   const SpaceOptions &options = {});

/// The model that estimates \p candidate where \p model ranks: the main one for
/// templates that the classic one cannot describe.
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

} // namespace kiln
