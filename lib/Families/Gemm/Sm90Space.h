//===- Sm90Space.h - the configs of the wgmma GEMM for a problem ----------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Families/Gemm/GemmProblem.h"
#include "gemm/Sm90GemmConfig.h"

#include <llvm/ADT/STLFunctionalExtras.h>

namespace kiln {

/// Calls \p emit with the space of \p problem, best guesses first. Pure, some
/// tens of microseconds.
void forEachSm90Config(const GemmProblem &problem,
                       const GemmSignature &signature,
                       const DeviceModel &device,
                       llvm::function_ref<void(const Sm90GemmConfig &)> emit);

/// Calls \p emit with the configs of \p config's kernel that the space of
/// \p problem may have, in its order.
void forEachSm90Variant(const GemmProblem &problem,
                        const GemmSignature &signature,
                        const DeviceModel &device, const Sm90GemmConfig &config,
                        llvm::function_ref<void(const Sm90GemmConfig &)> emit);

} // namespace kiln
