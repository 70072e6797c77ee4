//===- Explanation.h - why this config ------------------------------------===//
//
// The derivation of one config's estimate, and the config that it is compared
// with. Needs no GPU, and explain() reads nothing: the estimator's choice
// alone. A caller that has a cache adds the portfolio of the problem and what
// the compiler said.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Choice/Alternatives.h"
#include "Device/DeviceModel.h"
#include "Kernel/Derivation.h"
#include "Kernel/GenericChoice.h"
#include "Store/ArtifactStore.h"
#include "Tune/Portfolio.h"

#include <llvm/Support/Error.h>

#include <cstddef>
#include <optional>
#include <string>

namespace kiln {

/// Everything that is told about one config of one problem.
struct Explanation {
  std::string text; ///< of the problem
  const KernelFamily *family = nullptr;
  const Problem *problem = nullptr;
  const DeviceModel *device = nullptr;
  Allowance allowance;
  size_t ranked = 0, pruned = 0;
  /// The config at hand; its rank from 0, or -1 if it is not in the space.
  Candidate subject;
  int rank = -1;
  std::optional<Rejection> rejection; ///< it cannot run
  Derivation derivation;              ///< with the roofline behind the total
  std::vector<Neighbour> neighbours;
  std::vector<ChangedChoice> changed; ///< of the first choice
  /// The best config of another template, tile, split-K factor or number of
  /// stages, or the first choice where the subject is another; if any.
  std::optional<Candidate> rival;
  Derivation rivalDerivation;
  int rivalRank = -1;
  std::optional<GenericChoice> generic; ///< where the first choice is
  /// The cache's portfolio for all values of the dynamic extent, if any.
  std::optional<Portfolio> portfolio;
};

/// The config to explain.
struct ExplanationRequest {
  const KernelFamily &family;
  const Problem &problem; ///< both must outlive the explanation
  const DeviceModel &device;
  Allowance allowance = {};
  /// A config's text instead of the first choice.
  std::optional<std::string> config = {};
};

/// Explains all but the portfolio. Cost: some ten rankings, some 10 ms. Errors:
/// InvalidArgument for a problem without elements and for a text that is no
/// config of the family; those of exploreSpace().
llvm::Expected<Explanation> explain(const ExplanationRequest &request);

/// Puts the registers that ptxas took beside the register wall, where
/// \p artifacts has the subject's kernels. Compiles nothing.
void tellCompiled(ArtifactStore &artifacts, Explanation &explained);

/// Whether two configs are of another template or kind: a tile's sides, its
/// split-K factor or number of stages; where a template has no tiles, of
/// another class. The rest, warps, clusters, rasters or hints, makes twins.
bool isAnotherKind(const Candidate &a, const Candidate &b);

} // namespace kiln
