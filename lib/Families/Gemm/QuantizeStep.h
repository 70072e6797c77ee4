//===- QuantizeStep.h - the step behind a product whose D is e4m3 ---------===//
//
// A product writes D in 16 bits to the workspace, as any other does. The last
// step of the plan makes e4m3 of it, with scales that it finds or is given.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Families/Gemm/GemmProblem.h"
#include "Kernel/Derivation.h"
#include "Kernel/Estimate.h"
#include "Kernel/Plan.h"

#include <optional>

namespace kiln {

/// The rejection of a launch of so many \p steps, this one included.
std::optional<Rejection> checkQuantize(int steps);

/// Scratch of what \p product, a problem that toProduct() made, writes.
int64_t quantizedBytes(const GemmProblem &product);

/// The step's time for a typicalProduct().
template <Number N>
N quantizeNs(const GemmProblem &product, const DeviceModel &device);

/// Makes of \p plan, of the product of \p problem, the plan of \p problem: with
/// one more kernel, scratch behind the product's, and a binder that appends the
/// step.
void appendQuantize(const GemmProblem &problem, const GemmProblem &product,
                    const DeviceModel &device, Plan &plan);

/// Its workspace, given the product's.
WorkspaceLayout withQuantized(const GemmProblem &product,
                              WorkspaceLayout layout);

} // namespace kiln
