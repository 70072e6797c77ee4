//===- TileDerivation.h - steps of explain that tiles share ---------------===//
#pragma once

#include "Families/Gemm/GemmProblem.h"
#include "Kernel/Estimate.h"
#include "Model/Pipeline.h"

#include "Device/DeviceModel.h"

namespace kiln {

/// How many stages \p ring needs, and what each step of k leaves exposed with
/// those that it has, \p exposedNs.
DerivationStep explainLatency(const Pipeline &ring, double exposedNs);

/// Appends to \p steps what a tile of \p rows x \p columns demands of L2, and
/// the problem of DRAM, where the arithmetic reaches \p peakFlopsPerNs.
void explainIntensities(const GemmProblem &problem, int64_t rows,
                        int64_t columns, double peakFlopsPerNs,
                        const DeviceModel &device, Derivation &steps);

} // namespace kiln
