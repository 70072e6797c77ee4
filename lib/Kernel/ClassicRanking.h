//===- ClassicRanking.h - a space as the classic model sees it ------------===//
#pragma once

#include "Kernel/Space.h"

namespace kiln {

/// A problem and a config in the classic model's terms.
struct ClassicCase {
  KernelFamily::ClassicProblem problem;
  ClassicConfig config;
};

/// The classic model's time with its terms: the larger of compute and load, and
/// store, add up.
Estimate estimateOf(const ClassicCase &classic, const DeviceModel &device);

/// The same, step by step: active share, compute, the ramp of DRAM, what L2 and
/// DRAM load, max(compute, load) + store.
Derivation explainClassic(const ClassicCase &classic,
                          const DeviceModel &device);

/// The classic model prunes and ranks again what the hard limits left over in
/// \p space. Templates that it cannot model, those without tiles, keep
/// their place behind.
void rankClassic(const KernelFamily::ClassicProblem &problem,
                 const DeviceModel &device, bool keepRejected, Space &space);

} // namespace kiln
