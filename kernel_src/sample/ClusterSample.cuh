//===- sample/ClusterSample.cuh - the kernel of the template "cluster"
//-----------===//
#pragma once

#include "sample/ClusterSampleConfig.h"
#include "sample/SampleRow.cuh"

namespace kiln {

template <SampleSignature kSignature, ClusterSampleConfig kConfig>
void clusterSample(const SampleParams &params) {
  sampleRow<kSignature, kConfig>(params);
}

} // namespace kiln
