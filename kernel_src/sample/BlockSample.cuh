//===- sample/BlockSample.cuh - the kernel of the template "block" -----------===//
#pragma once

#include "sample/SampleRow.cuh"
#include "sample/BlockSampleConfig.h"

namespace kiln {

template <SampleSignature kSignature, BlockSampleConfig kConfig>
void blockSample(const SampleParams &params) {
  sampleRow<kSignature, kConfig>(params);
}

} // namespace kiln
