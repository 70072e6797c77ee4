//===- GatherStep.h - copies of A's rows ahead of a product ---------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Families/Gemm/GemmProblem.h"
#include "Kernel/Derivation.h"
#include "Kernel/Estimate.h"
#include "Kernel/Plan.h"
#include "gemm/GemmParams.h"

namespace kiln {

/// Scratch of the copy of A, with its scales; 0 where none is made.
int64_t gatherBytes(const GemmProblem &problem);

/// Bytes of one gathered row.
int64_t gatheredRowBytes(const GemmProblem &problem);

/// Time of so many copies ahead of a product, of \p bytes in all.
template <Number N>
N copyStepsNs(int steps, double bytes, const DeviceModel &device);
/// Time of the copy of A, for a typicalProduct(); 0 where none is made.
template <Number N>
N gatherNs(const GemmProblem &problem, const DeviceModel &device);

/// The same of a copy of rows of A that begin anywhere, and its scratch.
template <Number N>
N alignNs(const GemmProblem &problem, const DeviceModel &device);
int64_t alignedBytes(const GemmProblem &problem);

/// The leading dimension of these copies.
int64_t gatheredLda(const GemmProblem &problem);

/// Its kernel, for a plan.
TranslationUnit gatherUnit(const GemmSignature &signature,
                           const DeviceModel &device);

/// Copies of operands of elements of \p bytes (gemm/Repack.cuh).
TranslationUnit repackUnit(int bytes, bool transposes,
                           const DeviceModel &device);

/// Adds to \p spec a copy of A whose rows are aligned to 16 bytes, by repack as
/// the plan's kernel number \p function, and has \p params read it at
/// \p scratch. \p depends: the launch does.
void addAlignedCopy(const GemmProblem &problem, DeviceAddress scratch,
                    int function, bool depends, GemmParams &params,
                    LaunchSpec &spec);

/// Adds the copy to \p spec, by the plan's kernel number \p function, and has
/// \p params read it at \p scratch. \p depends: the launch does.
void addGather(const GemmProblem &problem, DeviceAddress scratch, int function,
               bool depends, GemmParams &params, LaunchSpec &spec);

} // namespace kiln
