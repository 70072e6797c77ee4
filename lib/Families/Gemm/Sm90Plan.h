//===- Sm90Plan.h - the plan of a wgmma GEMM ------------------------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Families/Gemm/GemmProblem.h"
#include "Kernel/Plan.h"
#include "gemm/Sm90GemmConfig.h"

namespace kiln {

/// Adds to \p plan, which has the product's kernel, what the template's base
/// does not know: tensor maps, the kernels that copy operands, and the binder
/// of all that.
void completeSm90Plan(const PlannedGemm &planned,
                      const GemmSignature &signature,
                      const Sm90GemmConfig &config, const DeviceModel &device,
                      Plan &plan);

} // namespace kiln
