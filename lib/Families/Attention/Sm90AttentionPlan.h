//===- Sm90AttentionPlan.h - launches of wgmma attention ------------------===//
#pragma once

#include "Families/Attention/AttentionProblem.h"
#include "Kernel/Plan.h"
#include "attention/Sm90AttentionConfig.h"
#include "attention/Sm90AttentionSchedule.h"

#include "Device/DeviceModel.h"

namespace kiln {

/// The tiles of a launch.
struct Sm90AttentionGrid {
  int64_t splits = 1;    ///< of the keys of a sequence
  int64_t splitKeys = 0; ///< keys of one
  int64_t rowBlocks = 0; ///< tiles of a head of the longest sequence
  int64_t heads = 0;     ///< over all sequences and splits; packed heads count
                         ///< as one
  int64_t section = 1;
  bool isPaired = false;

  Sm90AttentionGrid(const AttentionProblem &problem,
                    const Sm90AttentionConfig &config, int64_t smCount,
                    int64_t l2Bytes);

  int64_t tiles() const { return heads * rowBlocks; }
  Sm90AttentionSchedule schedule() const {
    return {static_cast<unsigned>(heads), static_cast<unsigned>(rowBlocks),
            static_cast<unsigned>(section), isPaired};
  }
};

/// Scratch for the partial results of splits, and the counter of a dynamic
/// schedule.
WorkspaceLayout sm90AttentionWorkspace(const AttentionProblem &problem,
                                       const Sm90AttentionConfig &config,
                                       const DeviceModel &device);

/// Completes a plan of one kernel: tensor maps, the kernel that merges splits,
/// the binder.
void completeSm90AttentionPlan(const AttentionProblem &problem,
                               const AttentionSignature &signature,
                               const Sm90AttentionConfig &config,
                               const DeviceModel &device, Plan &plan);

} // namespace kiln
