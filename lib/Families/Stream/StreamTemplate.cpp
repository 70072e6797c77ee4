//===- StreamTemplate.cpp -------------------------------------------------===//
#include "Families/Stream/StreamTemplate.h"

namespace kiln {

std::optional<Rejection>
StreamTemplate::prune(const Problem &problem, const Values &config,
                      const DeviceModel &device) const {
  if (auto rejection = checkConfig(problem, config, device))
    return rejection;
  return checkResident(streamKernel(problem, config, device), device);
}

Estimate StreamTemplate::estimate(const Problem &problem, const Values &config,
                                  const DeviceModel &device) const {
  return estimateStream(streamKernel(problem, config, device), device);
}

Derivation StreamTemplate::explain(const Problem &problem, const Values &config,
                                   const DeviceModel &device) const {
  return explainStream(streamKernel(problem, config, device), device);
}

void StreamTemplate::judge(const Problem &problem, const DeviceModel &device,
                           SpaceSink &sink) const {
  enumerate(problem, device, [&](Values config) {
    if (auto rejection = prune(problem, config, device))
      return sink.reject(*rejection, [&] { return std::move(config); });
    Estimate estimate = estimateStream(streamKernel(problem, config, device),
                                       device, Detail::Time);
    CandidateClass candidateClass = classOf(problem, config);
    sink.rank(std::move(config), estimate, candidateClass);
  });
}

} // namespace kiln
