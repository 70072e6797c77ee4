//===- MemoryPassTemplate.cpp ---------------------------------------------===//
#include "Families/MemoryPass/MemoryPassTemplate.h"

namespace kiln {

std::optional<Rejection>
MemoryPassTemplate::prune(const Problem &problem, const Values &config,
                          const DeviceModel &device) const {
  if (auto rejection = checkConfig(problem, config, device))
    return rejection;
  return checkResident(memoryPass(problem, config, device), device);
}

Estimate MemoryPassTemplate::estimate(const Problem &problem,
                                      const Values &config,
                                      const DeviceModel &device) const {
  return estimatePass(memoryPass(problem, config, device), device);
}

Derivation MemoryPassTemplate::explain(const Problem &problem,
                                       const Values &config,
                                       const DeviceModel &device) const {
  return explainPass(memoryPassFigures(problem, config, device), device);
}

void MemoryPassTemplate::judge(const Problem &problem,
                               const DeviceModel &device,
                               SpaceSink &sink) const {
  enumerate(problem, device, [&](Values config) {
    if (auto rejection = prune(problem, config, device))
      return sink.reject(*rejection, [&] { return std::move(config); });
    Estimate estimate =
        estimatePass(memoryPass(problem, config, device), device);
    CandidateClass candidateClass = classOf(problem, config);
    sink.rank(std::move(config), estimate, candidateClass);
  });
}

} // namespace kiln
