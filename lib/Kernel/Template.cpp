//===- Template.cpp -------------------------------------------------------===//
#include "Kernel/Template.h"

#include "Kernel/FastestVariant.h"

#include <utility>

namespace kiln {

std::optional<Rejection>
Template::pruneWithin(const Allowance &allowance, const Problem &problem,
                      const Values &config, const DeviceModel &device) const {
  if (auto rejection = prune(problem, config, device))
    return rejection;
  return exceeds(allowance, problem, config, device);
}

std::optional<Rejection> Template::exceeds(const Allowance &allowance,
                                           const Problem &problem,
                                           const Values &config,
                                           const DeviceModel &device) const {
  if (allowance.largest)
    if (auto rejection = prune(*allowance.largest, config, device))
      return rejection;
  if (allowance.workspaceBytes == Allowance::kUnlimited)
    return std::nullopt;
  const Problem &covered = allowance.largest ? *allowance.largest : problem;
  const uint64_t bytes = workspace(covered, config, device).bytes();
  if (bytes <= allowance.workspaceBytes)
    return std::nullopt;
  return Rejection{PruneReason::Workspace, double(bytes),
                   double(allowance.workspaceBytes), "B"};
}

WorkspaceLayout Template::workspace(const Problem &problem,
                                    const Values &config,
                                    const DeviceModel &device) const {
  return plan(problem, config, device).workspace;
}

llvm::SmallVector<Values, 4> Template::variantsAt(const Problem &,
                                                  const Values &config,
                                                  const DeviceModel &) const {
  return {config};
}

std::optional<Template::TimedConfig>
Template::fastestAt(const Allowance &allowance, const Problem &problem,
                    llvm::ArrayRef<Values> configs,
                    const DeviceModel &device) const {
  auto fastest = fastestVariant<Values>(
      configs,
      [&](const Values &config, llvm::function_ref<void(const Values &)> emit) {
        for (const Values &variant : variantsAt(problem, config, device))
          emit(variant);
      },
      [&](const Values &config) -> std::optional<double> {
        if (pruneWithin(allowance, problem, config, device))
          return std::nullopt;
        return estimate(problem, config, device).totalNs;
      });
  if (!fastest)
    return std::nullopt;
  return TimedConfig{std::move(fastest->first), fastest->second};
}

void Template::judge(const Problem &problem, const DeviceModel &device,
                     SpaceSink &sink) const {
  enumerate(problem, device, [&](Values config) {
    if (auto rejection = prune(problem, config, device))
      return sink.reject(*rejection, [&] { return std::move(config); });
    Estimate predicted = estimate(problem, config, device);
    CandidateClass candidateClass = classOf(problem, config);
    sink.rank(std::move(config), predicted, candidateClass);
  });
}

} // namespace kiln
