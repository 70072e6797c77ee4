//===- ReferenceStep.h - the launch of a reference kernel -----------------===//
#pragma once

#include "Kernel/Family.h"

namespace kiln {

/// Appends the step that computes \p part in \p blocks of \p threads. \p params
/// is complete except for the part's rows and their results.
template <class Params>
void addReferenceStep(const ReferencePart &part, Params params, int64_t blocks,
                      int threads, LaunchSpec &spec) {
  params.rowBegin = part.rowBegin;
  params.rowEnd = part.rowEnd;
  params.reference = reinterpret_cast<double *>(part.values);
  params.bound = reinterpret_cast<double *>(part.bounds);
  KernelStep &step = spec.addKernel(params);
  step.grid.x = static_cast<uint32_t>(blocks);
  step.block.x = static_cast<uint32_t>(threads);
}

} // namespace kiln
