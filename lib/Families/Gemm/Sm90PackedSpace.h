//===- Sm90PackedSpace.h - the configs of wgmma on packed weights ---------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Families/Gemm/GemmProblem.h"
#include "Kernel/FastestVariant.h"
#include "gemm/Sm90PackedConfig.h"

namespace kiln {

/// Registers of a consumer's thread that sums, a group's sums beside them,
/// fragments and words may take. The registers that the epilogue leaves hold
/// addresses. With so many ptxas 13.0 spills nothing. It keeps more addresses
/// beside the sums that splits exchange, and beside matrices that no box
/// brings.
int mostSm90PackedRegisters(const GemmSignature &signature,
                            const Sm90PackedConfig &config);

/// Calls \p emit with the space of \p problem, best guesses first.
void forEachSm90PackedConfig(const GemmProblem &problem,
                             const GemmSignature &signature,
                             const DeviceModel &device,
                             Emit<Sm90PackedConfig> emit);

/// Calls \p emit with the configs of \p config's kernel that the space of
/// \p problem may have, in its order.
void forEachSm90PackedVariant(const GemmProblem &problem,
                              const Sm90PackedConfig &config,
                              Emit<Sm90PackedConfig> emit);

} // namespace kiln
