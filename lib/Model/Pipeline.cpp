//===- Pipeline.cpp -------------------------------------------------------===//
#include "Model/Pipeline.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace kiln {

Pipeline pipeline(double latencyNs, double loadNs, double mathNs,
                  int64_t stages) {
  assert(mathNs > 0 && stages >= 1 && "a pipeline without work or stages");
  Pipeline result{latencyNs, loadNs, mathNs, stages};
  double fillNs = latencyNs + loadNs;
  result.stagesNeeded = static_cast<int64_t>(std::ceil(fillNs / mathNs)) + 1;
  double paceNs = (fillNs + mathNs) / static_cast<double>(stages);
  result.exposedNs = std::max(0.0, paceNs - mathNs);
  return result;
}

double loadLatencyNs(const DeviceModel &device, double missShare) {
  return missShare > 0.5
             ? device.dramLatencyNs
             : device.l2LatencyNs + missShare * device.dramLatencyNs;
}

} // namespace kiln
