//===- Sm90Plan.h - the plan of a wgmma GEMM ------------------------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Families/Gemm/GemmProblem.h"
#include "Kernel/Plan.h"
#include "gemm/Sm90GemmConfig.h"

namespace kiln {

/// What the copies of operands take at most, whatever a caller
/// allows; larger problems are left to templates that load them as they are.
inline constexpr double kMaxRepackBytes = double(int64_t(256) << 20);

/// Bytes that the copies of operands take in the workspace: of unaligned ones,
/// and of those that wgmma wants along k and that are not.
int64_t repackBytes(const GemmProblem &problem, const GemmSignature &signature,
                    const Sm90GemmConfig &config);

/// Bytes from row to row of A, and of B, as the product reads it.
int64_t pitchOfA(const GemmProblem &problem, const GemmSignature &signature,
                 const Sm90GemmConfig &config);
int64_t pitchOfB(const GemmProblem &problem, const GemmSignature &signature,
                 const Sm90GemmConfig &config);

/// Steps that make such copies.
int repackSteps(const GemmSignature &signature, const Sm90GemmConfig &config);

/// Adds to \p plan, which has the product's kernel, what the template's base
/// does not know: tensor maps, the kernels that copy operands, and the binder
/// of all that.
void completeSm90Plan(const GemmProblem &problem,
                      const GemmSignature &signature,
                      const Sm90GemmConfig &config, const DeviceModel &device,
                      Plan &plan);

} // namespace kiln
