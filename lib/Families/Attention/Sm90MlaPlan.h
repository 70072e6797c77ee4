//===- Sm90MlaPlan.h - launches of MLA ------------------------------------===//
#pragma once

#include "Families/Attention/AttentionProblem.h"
#include "Families/Attention/DecodeGrid.h"
#include "Kernel/Plan.h"
#include "attention/Sm90MlaConfig.h"

#include "Device/DeviceModel.h"

namespace kiln {

/// The properties of a block on which splits depend.
DecodeBlocks blocksOf(const Sm90MlaConfig &config);

/// Scratch for the partial results of splits.
WorkspaceLayout sm90MlaWorkspace(const AttentionProblem &problem,
                                 const Sm90MlaConfig &config,
                                 const DeviceModel &device);

/// Completes a plan of one kernel: the tensor map of K, the kernel that merges
/// splits, the binder.
void completeSm90MlaPlan(const AttentionProblem &problem,
                         const AttentionSignature &signature,
                         const Sm90MlaConfig &config, const DeviceModel &device,
                         Plan &plan);

} // namespace kiln
