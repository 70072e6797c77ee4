//===- sample/BlockSample.cuh - the kernel of the template "block"
//-----------===//
#pragma once

#include "sample/BlockSampleConfig.h"
#include "sample/SampleRow.cuh"

namespace kiln {

template <SampleSignature kSignature, BlockSampleConfig kConfig>
void blockSample(const SampleParams &params) {
  sampleRow<kSignature, kConfig>(params);
}

} // namespace kiln
