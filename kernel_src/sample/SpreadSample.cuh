//===- sample/SpreadSample.cuh - the kernel of the template "spread"
//-----------===//
#pragma once

#include "sample/SampleRow.cuh"
#include "sample/SpreadSampleConfig.h"

namespace kiln {

template <SampleSignature kSignature, SpreadSampleConfig kConfig>
void spreadSample(const SampleParams &params) {
  sampleRow<kSignature, kConfig>(params);
}

} // namespace kiln
