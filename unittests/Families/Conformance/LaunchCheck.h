//===- LaunchCheck.h - operand tables and launches compared ---------------===//
#pragma once

#include "Kernel/Family.h"
#include "Kernel/Plan.h"

#include <string>

namespace kiln::conformance {

/// The fault of the operand table of \p problem; empty for no fault.
std::string faultOfOperands(const KernelFamily &family, const Problem &problem);

/// The fault of \p plan on \p device before it is bound: kernels, shared
/// memory.
std::string faultOfPlan(const Plan &plan, const DeviceModel &device);

/// The fault of the launch of \p problem by \p plan: limits of launches, steps
/// outside of the plan, shared memory and threads that differ from the
/// kernels', operands whose address reaches no kernel.
std::string faultOfLaunch(const KernelFamily &family, const Problem &problem,
                          const Plan &plan, const DeviceModel &device);

/// faultOfLaunch() for the steps of the family's reference.
std::string faultOfReference(const KernelFamily &family, const Problem &problem,
                             const DeviceModel &device);

} // namespace kiln::conformance
