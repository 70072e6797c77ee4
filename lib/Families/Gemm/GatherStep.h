//===- GatherStep.h - the copy ahead of a product that gathers ------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Families/Gemm/GemmProblem.h"
#include "Kernel/Plan.h"
#include "gemm/GemmParams.h"

namespace kiln {

/// Scratch of the copy of A, with its scales; 0 where none is made.
int64_t gatherBytes(const GemmProblem &problem);

/// Of one row.
int64_t gatheredRowBytes(const GemmProblem &problem);

/// Time of so many copies ahead of a product, of \p bytes in all.
double copyStepsNs(int steps, double bytes, const DeviceModel &device);
/// That of the copy of A, of a typicalProduct().
double gatherNs(const GemmProblem &problem, const DeviceModel &device);

/// The leading dimension of that copy.
int64_t gatheredLda(const GemmProblem &problem);

/// Its kernel, for a plan.
TranslationUnit gatherUnit(const GemmSignature &signature,
                           const DeviceModel &device);

/// Adds the copy to \p spec, by the plan's kernel number \p function, and has
/// \p params read it at \p scratch. \p depends: the launch does.
void addGather(const GemmProblem &problem, DeviceAddress scratch, int function,
               bool depends, GemmParams &params, LaunchSpec &spec);

} // namespace kiln
