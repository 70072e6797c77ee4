//===- CandidateFacts.cpp -------------------------------------------------===//
#include "Choice/CandidateFacts.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln {

CandidateFacts::CandidateFacts(const ChoiceSources &sources,
                               const KernelFamily &family,
                               const Problem &problem)
    : from(sources), problem(problem),
      match(from.records.find(family, problem, from.deviceClass)),
      loaded(from.plans.loadedOf(problem.signature, SIZE_MAX)) {}

/// The time by trials of this value, else by trials of a range that has an
/// anchor here.
double CandidateFacts::measuredNsOf(const std::string &config,
                                    const std::string &kernel) const {
  const RecordPoint *point = match.point();
  double ns = 0;
  if (!point)
    return ns;
  for (const Measurement &one : point->measurements) {
    if (one.config != config || one.kernel != kernel || !one.valid ||
        one.mode != MeasurementMode::Cold)
      continue;
    if (one.isOfValue())
      return one.medianNs;
    ns = one.medianNs;
  }
  return ns;
}

CandidateFact CandidateFacts::of(const Candidate &candidate) const {
  const Template &tmpl = *candidate.tmpl;
  const std::string compiled = candidate.config.compiledText();
  const Plan plan = tmpl.plan(problem, candidate.config, from.device);
  const std::string kernel = kernelDigest(plan);
  CandidateFact fact;
  // Run-time knobs make no other kernels.
  fact.isLoaded =
      llvm::any_of(loaded, [&](const PlanPool::LoadedConfig &known) {
        return known.tmpl == &tmpl && known.config.compiledText() == compiled;
      });
  fact.isOnDisk = llvm::all_of(plan.kernels, [&](const TranslationUnit &unit) {
    return from.artifacts.isOnDisk(unit);
  });
  fact.isWrong = from.records.verdicts().isWrong(from.deviceClass, kernel);
  fact.measuredNs = measuredNsOf(candidate.config.text(), kernel);
  return fact;
}

} // namespace kiln
