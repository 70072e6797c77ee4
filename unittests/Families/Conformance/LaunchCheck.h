//===- LaunchCheck.h - operand tables and launches, held against each other
//===//
#pragma once

#include "Kernel/Family.h"
#include "Kernel/Plan.h"

#include <string>

namespace kiln::conformance {

/// What is wrong with the operand table of \p problem; empty for nothing.
std::string faultOfOperands(const KernelFamily &family, const Problem &problem);

/// What is wrong with \p plan on \p device, before it is bound: kernels, shared
/// memory.
std::string faultOfPlan(const Plan &plan, const DeviceModel &device);

/// What is wrong with the launch that \p plan makes of \p problem: limits of
/// launches, steps that lie outside of the plan, shared memory and threads that
/// are not the kernels', operands whose address reaches no kernel.
std::string faultOfLaunch(const KernelFamily &family, const Problem &problem,
                          const Plan &plan, const DeviceModel &device);

/// The same for the steps of the family's reference.
std::string faultOfReference(const KernelFamily &family, const Problem &problem,
                             const DeviceModel &device);

} // namespace kiln::conformance
