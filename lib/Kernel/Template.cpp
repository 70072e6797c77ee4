//===- Template.cpp -------------------------------------------------------===//
#include "Kernel/Template.h"

#include <utility>

namespace kiln {

void Template::judge(const Problem &problem, const DeviceModel &device,
                     SpaceSink &sink) const {
  enumerate(problem, device, [&](Record config) {
    if (auto rejection = prune(problem, config, device))
      return sink.reject(*rejection, [&] { return std::move(config); });
    Estimate predicted = estimate(problem, config, device);
    CandidateClass candidateClass = classOf(problem, config);
    sink.rank(std::move(config), predicted, candidateClass);
  });
}

} // namespace kiln
