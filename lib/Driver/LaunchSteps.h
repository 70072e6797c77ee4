//===- LaunchSteps.h - what a launch and a graph's nodes share ------------===//
//
// Private to Driver's sources.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/CudaApi.h"
#include "Driver/Driver.h"

namespace kiln {

/// Puts every tensor map where its kernel reads it.
llvm::Error patchTensorMaps(const Driver &driver, LaunchSpec &spec);

/// The error of \p result, with the step \p index that it is about; off the
/// path that succeeds.
llvm::Error stepError(const Driver &driver, CUresult result,
                      const LaunchSpec &spec, uint32_t index, const char *what);

/// Writes what \p step asks for beyond its geometry, in streams and graphs
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
