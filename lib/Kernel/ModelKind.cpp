//===- ModelKind.cpp ------------------------------------------------------===//
#include "Kernel/ModelKind.h"

#include "Kernel/ClassicRanking.h"
#include "Support/Error.h"

namespace kiln {

llvm::StringRef nameOf(ModelKind kind) {
  return kind == ModelKind::Main ? "main" : "classic";
}

llvm::Expected<Space> exploreSpace(const KernelFamily &family,
                                   const Problem &problem,
                                   const DeviceModel &device, ModelKind model,
                                   const SpaceOptions &options) {
  if (model == ModelKind::Main)
    return exploreSpace(family, problem, device, options);
  auto classic = classicProblemOf(family, problem);
  if (!classic)
    return makeError(ErrorCode::Unsupported,
                     "the classic model knows nothing like {}", problem.text());
  auto space = exploreSpace(family, problem, device, options);
  if (!space)
    return space;
  rankClassic(*classic, device, options.keepRejected, *space);
  if (space->ranked.empty())
    return noCandidate(family, problem, device);
  return space;
}

/// The problem and the config where \p model is the classic one and can
/// describe both.
static std::optional<ClassicCase> classicCase(const KernelFamily &family,
                                              const Problem &problem,
                                              const Candidate &candidate,
                                              ModelKind model) {
  if (model != ModelKind::Classic)
    return std::nullopt;
  auto known = classicProblemOf(family, problem);
  auto config = classicConfigOf(*candidate.tmpl, candidate.config);
  if (!known || !config)
    return std::nullopt;
  return ClassicCase{*known, *config};
}

ModelKind modelOf(const KernelFamily &family, const Problem &problem,
                  const Candidate &candidate, ModelKind model) {
  return classicCase(family, problem, candidate, model) ? ModelKind::Classic
                                                        : ModelKind::Main;
}

Estimate estimateCandidate(const KernelFamily &family, const Problem &problem,
                           const Candidate &candidate,
                           const DeviceModel &device, ModelKind model) {
  if (auto classic = classicCase(family, problem, candidate, model))
    return estimateOf(*classic, device);
  return candidate.tmpl->estimate(problem, candidate.config, device);
}

Derivation explainCandidate(const KernelFamily &family, const Problem &problem,
                            const Candidate &candidate,
                            const DeviceModel &device, ModelKind model) {
  if (auto classic = classicCase(family, problem, candidate, model))
    return explainClassic(*classic, device);
  return candidate.tmpl->explain(problem, candidate.config, device);
}

} // namespace kiln
