//===- Sm90Estimate.h - predicted time of the wgmma GEMM ------------------===//
#pragma once

#include "Families/Gemm/GemmProblem.h"
#include "Kernel/Derivation.h"
#include "Kernel/Estimate.h"
#include "gemm/Sm90GemmConfig.h"

#include "Device/DeviceModel.h"

namespace kiln {

/// A wgmma kernel as the estimate sees it.
struct Sm90Kernel {
  GemmSignature signature;
  Sm90GemmConfig config;
};

/// Predicted time of \p kernel on \p problem: persistent blocks that each walk
/// over their share of the tiles,
///   launch + ramp + repack + fill + norm(path, floor) + last epilogue, where
///   path = tiles * (kIters * step + exposed epilogue + reduction)
/// and the floor is that of the bytes of DRAM or of power.
Estimate estimateTile(const GemmProblem &problem, const Sm90Kernel &kernel,
                      const DeviceModel &device);

/// The same with its derivation: walls, waves and terms are added to \p steps.
Prediction<Figure> explainTile(const GemmProblem &problem,
                               const Sm90Kernel &kernel,
                               const DeviceModel &device, Derivation &steps);

/// Groups of blocks of \p config that run at once on the whole of \p device, at
/// least 1.
int64_t residentGroups(const Sm90GemmConfig &config, const DeviceModel &device);

} // namespace kiln
