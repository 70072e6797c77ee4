//===- LaunchSteps.h - common to launches and nodes of graphs -------------===//
//
// Private to Driver's sources.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/CudaApi.h"
#include "Driver/Driver.h"

namespace kiln {

/// Writes every tensor map to the place where its kernel reads it.
llvm::Error patchTensorMaps(const Driver &driver, LaunchSpec &spec);

/// The error of \p result, naming the step \p index; kept off the path of
/// success.
llvm::Error stepError(const Driver &driver, CUresult result,
                      const LaunchSpec &spec, uint32_t index, const char *what);

/// Writes the attributes of \p step beyond its geometry, for streams and graphs
/// alike, into \p attributes, which has room for kMaxStepAttributes; returns
/// how many there are.
inline constexpr unsigned kMaxStepAttributes = 2;
inline unsigned fillAttributes(const KernelStep &step,
                               CUlaunchAttribute *attributes) {
  unsigned count = 0;
  if (step.cluster != Dim3{}) {
    CUlaunchAttribute &attribute = attributes[count++];
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = step.cluster.x;
    attribute.value.clusterDim.y = step.cluster.y;
    attribute.value.clusterDim.z = step.cluster.z;
  }
  if (step.cooperative) {
    CUlaunchAttribute &attribute = attributes[count++];
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
  }
  return count;
}

} // namespace kiln
